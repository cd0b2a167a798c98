"""Long-run averages in exact arithmetic: which pairs can last, what no policy earns, where a policy stays.

In the long run a policy takes only pairs of end components: sets of states with some of their pairs that never lead
out, in which every state can be reached from every other one. What leaves a state there enters one, so that for any v
no policy earns more per step than

    max over the pairs of end components of ( r + E[v] - v ).

The occupancy of a policy: the start decides how likely each closed class of its chain is, and within a class visits are
counted from one return to a reference state z to the next,  y = P(z, .) + P' y  on the other states,  and divided by
their sum. If y is wrong by eta in the 1-norm, then y over its sum Y, with y(z) = 1, is by at most  2 eta / Y.
"""

from fractions import Fraction

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from cautious.arrays import Array, Indices, Mask
from cautious.verification.claim import Model
from cautious.verification.exact import Integers, bits_of, fraction, integers
from cautious.verification.flow import ExactModel, Rows, entries_of, reachable
from cautious.verification.occupancy import Occupancy
from cautious.verification.visits import MASS_BITS, STEP_BITS, PolicyChain, units

# lazy steps of the chain, after which a state with much mass is the reference of its class
LAZY_STEPS = 100


class Average(ExactModel):
    """The active pairs are those of the end components; there is nothing to begin with if there are none."""

    def __init__(self, model: Model, permitted: Mask) -> None:
        super().__init__(model)
        # pairs that are not permitted may be used on the way to an end component
        self.active = end_components(model, permitted & reachable(model, model.allowed)[:, None])
        self.first = np.full(model.shape, self.active.any())

    def greatest_return(self, reward: Integers, *multipliers: Array) -> Fraction:
        """See the module's text."""
        v = np.sum([integers(part, self.bits) for part in multipliers], axis=0)
        return fraction(int(np.max(reward + self.ahead(v) - v[self.rows.states])), self.bits)


def end_components(model: Model, pairs: Mask) -> Mask:
    """Those of the pairs (S, A) that belong to an end component of them."""
    kept = pairs
    while True:
        rows = np.flatnonzero(kept)
        label = strong_components(model, rows)
        entries, _, owner = entries_of(model, rows)
        leaves = np.zeros(rows.size, dtype=np.bool_)
        leaves[owner[label[model.indices[entries]] != label[rows[owner] // model.shape[1]]]] = True
        if not leaves.any():
            return kept
        kept = kept.copy()
        kept.ravel()[rows[leaves]] = False


def strong_components(model: Model, rows: Indices) -> Indices:
    """The number of the strong component of each state, where these pairs are used."""
    entries, _, owner = entries_of(model, rows)
    n = model.shape[0]
    tails = rows[owner] // model.shape[1]
    graph = sp.csr_array((np.ones(entries.size), (tails, model.indices[entries])), shape=(n, n))
    return np.asarray(connected_components(graph, directed=True, connection="strong")[1], dtype=np.int64)


def long_run_occupancy(model: Model, policy: Array) -> Occupancy | None:
    """The occupancy of a policy (S, A) in the long run; None if it could not be enclosed."""
    used = policy > 0
    used &= reachable(model, used)[:, None]
    lasting = _closed(model, used)
    classes = _classes(model, lasting)
    shares = _chances_of_classes(model, policy, used & ~lasting, classes)
    if shares is None:
        return None
    chances, distance = shares
    whole = PolicyChain(Rows(model, used), policy, np.asarray(used.any(axis=1)))
    likely = _after_lazy_steps(whole)
    marginal = np.zeros(len(policy), dtype=object)
    for states, chance in zip(classes, chances, strict=True):
        reference = states & (np.arange(states.size) == np.argmax(np.where(states, likely, -1.0)))
        found = _between_returns(model, policy, used, states, reference)
        if found is None:
            return None
        y, eta = found
        total = int(y.sum())
        marginal += chance * y // total
        distance += fraction(chance, MASS_BITS) * 2 * eta / fraction(total, MASS_BITS)
    rows = Rows(model, lasting)
    chain = PolicyChain(rows, policy, np.asarray(lasting.any(axis=1)))
    return Occupancy(rows, chain.mass(marginal), MASS_BITS, distance + chain.unit)


def _closed(model: Model, used: Mask) -> Mask:
    """The pairs (S, A) of the closed classes of a policy that uses these pairs."""
    rows = np.flatnonzero(used)
    label = strong_components(model, rows)
    entries, _, owner = entries_of(model, rows)
    own = label[rows[owner] // model.shape[1]]
    is_open = np.zeros(label.size, dtype=np.bool_)
    is_open[own[label[model.indices[entries]] != own]] = True
    return np.asarray(used & ~is_open[label][:, None])


def _classes(model: Model, lasting: Mask) -> list[Mask]:
    """The states (S,) of each closed class."""
    label, here = strong_components(model, np.flatnonzero(lasting)), lasting.any(axis=1)
    return [here & (label == number) for number in np.unique(label[here])]


def _chances_of_classes(
    model: Model, policy: Array, passing: Mask, classes: list[Mask]
) -> tuple[list[int], Fraction] | None:
    """How likely each class is, in units of 2^-MASS_BITS, and how far away the exact chances are; None if unknown."""
    if len(classes) == 1:
        return [1 << MASS_BITS], Fraction(0)
    start = integers(model.start, bits_of(model.start))
    arriving, distance = (start << MASS_BITS) // int(start.sum()), Fraction(start.size, 1 << MASS_BITS)
    between = np.asarray(passing.any(axis=1))
    if between.any():
        chain = PolicyChain(Rows(model, passing), policy, between)
        if chain.steps is None:
            return None
        found = chain.visits(np.where(between, arriving, 0), chain.steps)
        arriving, distance = arriving + chain.outflow(found.states), distance + found.distance + chain.unit
    return [int(arriving[states].sum()) for states in classes], distance


def _after_lazy_steps(chain: PolicyChain) -> Array:
    """Where the chain is, about, when every step is taken with a chance of one half only."""
    likely = chain.inside / np.count_nonzero(chain.inside)
    for _ in range(LAZY_STEPS):
        likely = likely - 0.5 * (chain.matrix @ likely)
    return np.asarray(likely)


def _between_returns(
    model: Model, policy: Array, used: Mask, states: Mask, reference: Mask
) -> tuple[Integers, Fraction] | None:
    """Visits (S,) of a class from one return to the reference state to the next, and how far off they can be."""
    once = units(reference)
    others = states & ~reference
    if not others.any():
        return once, Fraction(0)
    leaving = PolicyChain(Rows(model, used & reference[:, None]), policy, reference)
    chain = PolicyChain(Rows(model, used & others[:, None]), policy, others)
    if chain.steps is None:
        return None
    found = chain.visits(np.where(others, leaving.outflow(once), 0), chain.steps)
    most = fraction(int(np.max(chain.steps)), STEP_BITS)
    return found.states + once, found.distance + leaving.unit * most
