"""Where a policy spends its time in the long run, from the start distribution; and how exactly that is known.

The chain of the policy is divided into its closed classes and the transient states. The start decides how likely each
class is; within a class the chain has one stationary distribution, whatever its period is:

    d(s, a) = sum over classes C of  P(absorbed in C) x_C(s) pi(a | s),      x_C = P_C' x_C,   sum x_C = 1.

Error within a class. Let x be any distribution, rho = P' x - x, and w(s) the mean time from s to a reference state. The
chain from s and the chain from the reference state differ until the first one gets there, so that

    ||x - x_true||_1  <=  2 sum_s |rho(s)| w(s).

Where parts of a class are nearly closed, w is huge, but what is missing in one state of a part is nearly made up by
another state of it. With a reference state and times w_B for every part B,

    ||x - x_true||_1  <=  2 sum_B [ sum over s in B of |rho(s)| w_B(s)  +  |sum over B of rho| w(reference of B) ].

Differences are taken between flows from one state to another one, without what stays: they are exact relative to these
flows, however rarely the state is left. w need not be exact either: w / (1 - t) with w >= 0 is large enough where
leaving * w - (its mean over other states) >= 1 - t, t < 1, at every state but the reference state.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.sparse as sp

from cautious.arrays import Array, Indices, Mask
from cautious.horizons.recurrence import closed_classes, uniform_on
from cautious.horizons.visits import PolicyOccupancy
from cautious.models.chains import Chain, Factors, balance_factors, chain_of, factors_are_cheap
from cautious.models.encodings import EPS, read_only_view
from cautious.models.tabular import MDP

# lazy steps from the start that say where a chain is most of the time, and the share of staying
FIRST_STEPS, STAYING_SHARE = 30, 0.1
MAX_REFINEMENTS = 12
# by how much a Krylov solve is asked to reduce the residual, and what share of it counts as failure
KRYLOV_REDUCTION, POOR_REDUCTION = 1e-10, 0.1
# flows are compared with no less than these: a share of all flow, and a number
MIN_FLOW_SHARE, MIN_FLOW = 1e-24, 1e-300
# a chain that takes longer to get to a reference state has parts, of which there may be so many
LONG_TIME, MAX_PARTS = 1e8, 12
# how much heavier than the reference state another state may be
MAX_MASS_RATIO = 100.0
# classes of at most so many states can be solved by elimination
MAX_ELIMINATED_STATES = 100
# an error from which on parts are looked for, unless more was allowed
SMALL_ERROR = 2e-9
# no two distributions are farther apart
LARGEST_ERROR = 2.0


def stationary_occupancy(mdp: MDP, policy: Array, accuracy: float = 0.0, guess: Array | None = None) -> PolicyOccupancy:
    """The long-run occupancy (S, A) of a checked policy (S, A), with an ``error`` of at most ``accuracy`` if possible.

    ``guess`` (S,) is an approximation of the state marginal; it need not be good. ``reached`` marks all states the
    policy visits, transient ones too.
    """
    chain = chain_of(mdp, policy)
    reached = chain.reachable(mdp.start > 0)
    # chances and rows of the policy were divided by their sums: their exact values are relatively as near
    doubt = mdp.row_sum_error + EPS * (1 + 1.5 * mdp.n_actions)
    whole = chain.matrix
    states = np.flatnonzero(reached)
    matrix = sp.csr_array(whole[states][:, states]) if states.size < mdp.n_states else whole
    start = mdp.start[states]
    label = closed_classes(_used(matrix))
    direct = factors_are_cheap(mdp)
    mass, wrong = _absorbed(matrix, start, label, doubt, direct)
    inside = np.flatnonzero(label >= 0)
    classes = sp.csr_array(matrix[inside][:, inside]) if inside.size < states.size else matrix
    system = _Classes(classes, label[inside], doubt, direct)
    shares, errors = system.solved(accuracy, None if guess is None else np.asarray(guess)[states[inside]])
    marginal = np.zeros(mdp.n_states)
    marginal[states[inside]] = shares * mass[label[inside]]
    total = float(marginal.sum())
    error = wrong + float(mass @ errors)
    if not (total > 0 and np.isfinite(total)):
        marginal[states[inside]], error = 1 / inside.size, LARGEST_ERROR
        total = float(marginal.sum())
    # 8 EPS: products, the sum and the division, each relative to entries that sum to one
    error += EPS * (8 + (inside.size if mass.size > 1 else np.log2(states.size + 1)))
    if np.any(matrix.data == 0):
        # a chance that is too small for a number may join what looks separate
        error = LARGEST_ERROR
    occupancy = (marginal / total)[:, None] * policy
    return PolicyOccupancy(np.asarray(occupancy), reached, min(float(error), LARGEST_ERROR))


def connecting_occupancy(mdp: MDP, pairs: Mask) -> Array:
    """The long-run occupancy (S, A) of the uniform policy on the pairs of an end component: mass on each of them."""
    states = np.flatnonzero(pairs.any(axis=1))
    table = np.zeros(mdp.shape)
    part = mdp.restricted(states, pairs[states])
    table[states] = stationary_occupancy(part, uniform_on(part.allowed)).occupancy
    return table


def _used(matrix: sp.csr_array) -> sp.csr_array:
    """The matrix without entries of zero."""
    if np.all(matrix.data > 0):
        return matrix
    used = matrix.copy()
    used.eliminate_zeros()
    return used


def _absorbed(matrix: sp.csr_array, start: Array, label: Indices, doubt: float, direct: bool) -> tuple[Array, float]:
    """The probability of each class (C,), from a start (n,), and how wrong these can be in all.

    What is missing in the balance of the transient states would end somewhere: no class is off by more than all of it.
    """
    count = int(label.max()) + 1
    if count == 1:
        return np.ones(1), 0.0
    transient = np.flatnonzero(label < 0)
    mass = np.bincount(label[label >= 0], start[label >= 0], count)
    if transient.size == 0:
        return mass / mass.sum(), EPS * (8 + start.size)
    rows = sp.csr_array(matrix[transient])
    within = sp.csr_array(rows[:, transient])
    rates = _Rates(within, _off_diagonal_sums(matrix)[transient], direct)
    visits = rates.visits(start[transient], np.zeros(transient.size))
    missing, slack = rates.missing(start[transient], visits, doubt)
    arriving = np.asarray(sp.csr_array(rows.T) @ visits)
    inside = label >= 0
    mass = mass + np.bincount(label[inside], arriving[inside], count)
    total = float(mass.sum())
    # sums of as many numbers as there are states, and chances of entering a class
    wrong = float(np.abs(missing).sum() + slack.sum()) + EPS * (8 + start.size) + doubt + abs(total - 1)
    return mass / total, 2 * wrong


class _Rates:
    """Flows between the states of a set: ``others`` (n, n) without the diagonal, and how likely each one is left."""

    def __init__(self, matrix: sp.csr_array, leaving: Array, direct: bool) -> None:
        self.direct = direct
        moves = sp.coo_array(matrix)
        away = moves.row != moves.col
        self.n = matrix.shape[0]
        self.others = sp.csr_array((moves.data[away], (moves.row[away], moves.col[away])), shape=matrix.shape)
        self.into = sp.csr_array(self.others.T)
        self.leaving = leaving
        # roundings of a sum over the successors, and over the predecessors, of any state
        self.terms = 4.0 + max(
            int(np.diff(self.others.indptr).max(initial=0)), int(np.diff(self.into.indptr).max(initial=0))
        )

    def missing(self, source: Array, x: Array, doubt: float) -> tuple[Array, Array]:
        """source + inflow - outflow of x (n,), and by how much each entry can be off."""
        arriving, going = np.asarray(self.into @ x), self.leaving * x
        slack = (self.terms * EPS + doubt) * (arriving + going + source)
        return source + arriving - going, slack

    def visits(self, source: Array, guess: Array, *, everywhere: bool = False) -> Array:
        """x >= 0 (n,) with  leaving x - inflow = source,  refined until nothing is gained.

        What is gained is measured in all, or ``everywhere``, relative to the flow through each state.
        """
        x = np.maximum(guess, 0.0)
        residual, size = self._unbalanced(source, x, everywhere)
        for _ in range(MAX_REFINEMENTS):
            if size <= EPS:
                break
            better = np.maximum(x + self._solve(residual, transposed=True), 0.0)
            left, smaller = self._unbalanced(source, better, everywhere)
            if not smaller < size:
                break
            poor, x, residual, size = smaller > 0.5 * size, better, left, smaller
            if poor:
                break
        return x

    def _unbalanced(self, source: Array, x: Array, everywhere: bool) -> tuple[Array, float]:
        """source + inflow - outflow (n,), and its size."""
        residual, _ = self.missing(source, x, 0.0)
        flow = source + self.leaving * x
        total = float(flow.sum())
        if not everywhere:
            return residual, float(np.abs(residual).sum()) / max(total, MIN_FLOW)
        return residual, float((np.abs(residual) / (flow + MIN_FLOW_SHARE * total + MIN_FLOW)).max(initial=0.0))

    def times(self, doubt: float) -> Array | None:
        """w (n,), at least the mean time until the set is left, if it can be found; see the module's text."""
        w = np.zeros(self.n)
        for _ in range(3):
            short = 1 - (self.leaving * w - np.asarray(self.others @ w))
            w = w + self._solve(short, transposed=False)
            if not (np.isfinite(w).all() and np.all(w >= 0)):
                return None
            mean = np.asarray(self.others @ w)
            short = 1 - (self.leaving * w - mean) + (self.terms * EPS + doubt) * (self.leaving * w + mean)
            most = float(short.max(initial=0.0))
            if most <= 0.5:
                return np.asarray(w * (1 + 8 * EPS) / (1 - most))
        return None

    def expected_times(self) -> Array:
        """About the mean time (n,) until the set is left."""
        return np.abs(self.expected(np.ones(self.n)))

    def expected(self, paid: Array) -> Array:
        """The approximate sum (n,) of payments until the set is left."""
        x = self._solve(paid, transposed=False)
        return np.asarray(x + self._solve(paid - (self.leaving * x - np.asarray(self.others @ x)), transposed=False))

    def _solve(self, right: Array, *, transposed: bool) -> Array:
        """An approximate solution of (leaving - others) x = right, or with the transposed matrix."""
        if self.n == 0:
            return np.zeros(0)
        if self._direct is None and self.direct:
            self._direct = self._factors()
        if self._direct is None:
            scale = 1 / self.leaving
            # rows are divided by how likely they are left, so that the diagonal is one
            if transposed:
                x = self._krylov.krylov(1.0, right, KRYLOV_REDUCTION * float(np.abs(right).sum()), transposed=True)[0]
                x, rest = scale * x, right
                after = right - (self.leaving * x - np.asarray(self.into @ x))
            else:
                rest = scale * right
                goal = KRYLOV_REDUCTION * float(np.abs(rest).max())
                x = self._krylov.krylov(1.0, rest, goal, transposed=False)[0]
                after = rest - (x - scale * np.asarray(self.others @ x))
            if np.isfinite(x).all() and np.abs(after).sum() <= POOR_REDUCTION * np.abs(rest).sum():
                return np.asarray(x)
            self._direct = self._factors()
        return np.asarray(self._direct.solve(right, trans="T" if transposed else "N"))

    @cached_property
    def _krylov(self) -> Chain:
        """A Krylov solve for the chain of moves, without the steps in which it stays."""
        moves = self.others
        data = moves.data * np.repeat(1 / self.leaving, np.diff(moves.indptr))
        return Chain(read_only_view(moves.indptr), read_only_view(moves.indices), read_only_view(data))

    _direct: Factors | None = None

    def _factors(self) -> Factors:
        return balance_factors(self.leaving, self.others)


@dataclass(frozen=True)
class _ChainParts:
    """``number`` (n,) of the part of each state, and the reference state of every part."""

    number: Indices
    reference: Indices


class _Classes:
    """The closed classes of a chain, all at once: ``label`` (n,) says which class each state is in."""

    def __init__(self, matrix: sp.csr_array, label: Indices, doubt: float, direct: bool) -> None:
        self.direct = direct
        self.matrix, self.label, self.doubt = matrix, label, doubt
        self.n, self.count = label.size, int(label.max()) + 1
        leaving = _off_diagonal_sums(matrix)
        self.whole = _Rates(matrix, leaving, direct)
        self.reference: Indices

    def solved(self, accuracy: float, guess: Array | None) -> tuple[Array, Array]:
        """Stationary distributions (n,), each class summing to one, and the error of each class (C,)."""
        first = self._first()
        self.reference = _heaviest(self.label, first, self.count)
        single = np.bincount(self.label, minlength=self.count) == 1
        if single.all():
            return np.ones(self.n), np.zeros(self.count)
        known = first if guess is None or not np.all(guess[self.reference] > 0) else np.maximum(guess, 0.0)
        x = self._normalised(self._stationary(self.reference, known))
        heavier = _heaviest(self.label, x, self.count)
        if np.any(x[heavier] > MAX_MASS_RATIO * x[self.reference]):
            # times to a state that is hardly ever visited would say little
            self.reference = heavier
            x = self._normalised(self._stationary(self.reference, x))
        errors = self._errors(x)
        worst = max(accuracy, SMALL_ERROR)
        x, errors = self._eliminated(x, errors, worst)
        if float(errors.max()) > worst and self.count == 1:
            parts = self._parts(x)
            if parts.reference.size > 1:
                better = self._balanced(x, parts)
                found = self._errors_of_parts(better, parts)
                if float(found.max()) < float(errors.max()):
                    x, errors = better, found
        return x, errors

    def _eliminated(self, x: Array, errors: Array, worst: float) -> tuple[Array, Array]:
        """Small classes with larger errors again, by elimination without subtractions.

        Chances that are wrong by a factor of 1 + e change no entry by more than a factor of about 1 + 2 n e
        (O'Cinneide, 1993). Each of n steps rounds a chance at most n + 4 times, which adds up to less than
        4 n^2 (n + 8) roundings.
        """
        sizes = np.bincount(self.label, minlength=self.count)
        for number in np.flatnonzero((errors > worst) & (sizes <= MAX_ELIMINATED_STATES)):
            states, n = np.flatnonzero(self.label == number), float(sizes[number])
            bound = 2 * n * (self.doubt + EPS) + 4 * n**2 * (n + 8) * EPS
            with np.errstate(all="ignore"):
                own = _small_stationary(self.whole.others[states][:, states].toarray())
            if bound < errors[number] and np.all(own > MIN_FLOW):
                x[states], errors[number] = own, bound
        return x, errors

    def _first(self) -> Array:
        """A first approximation of the distributions (n,)."""
        x, backwards = self._normalised(np.ones(self.n)), sp.csr_array(self.matrix.T)
        for _ in range(FIRST_STEPS):
            x = STAYING_SHARE * x + (1 - STAYING_SHARE) * np.asarray(backwards @ x)
        return self._normalised(x)

    def _normalised(self, x: Array) -> Array:
        return np.asarray(x / np.bincount(self.label, x, self.count)[self.label])

    def _without(self, reference: Indices) -> tuple[Indices, _Rates]:
        """The other states, and their rates."""
        others = np.ones(self.n, np.bool_)
        others[reference] = False
        kept = np.flatnonzero(others)
        return kept, _Rates(sp.csr_array(self.whole.others[kept][:, kept]), self.whole.leaving[kept], self.direct)

    def _stationary(self, reference: Indices, first: Array) -> Array:
        """Visits between two visits of the reference states."""
        kept, rates = self._without(reference)
        x = np.zeros(self.n)
        x[reference] = 1.0
        source = np.asarray(self.whole.into @ x)[kept]
        scaled = first / first[reference][self.label]
        x[kept] = rates.visits(source, scaled[kept])
        return x

    def _errors(self, x: Array) -> Array:
        """The error of every class (C,), with its reference state."""
        kept, rates = self._without(self.reference)
        times = rates.times(self.doubt)
        if times is None:
            return np.full(self.count, LARGEST_ERROR)
        missing, slack = self.whole.missing(np.zeros(self.n), x, self.doubt)
        off = (np.abs(missing) + slack)[kept] * times
        return np.asarray(2 * np.bincount(self.label[kept], off, self.count), np.float64)

    def _parts(self, x: Array) -> _ChainParts:
        """States between which the chain hardly ever goes, by the reference state that it gets to first.

        While it takes very long to get to any of them, another reference state is taken from where it takes longest.
        """
        reference = [int(self.reference[0])]
        while True:
            kept, rates = self._without(np.array(reference))
            times = rates.expected_times()
            longest = float(times.max(initial=0.0))
            if longest <= LONG_TIME or len(reference) == MAX_PARTS:
                break
            far = kept[times >= 0.5 * longest]
            reference.append(int(far[np.argmax(x[far])]))
        to_each = np.asarray(self.whole.others[kept][:, reference].todense())
        chances = np.stack([rates.expected(column) for column in to_each.T], axis=1)
        number = np.zeros(self.n, np.int64)
        number[kept] = np.argmax(chances, axis=1)
        number[reference] = np.arange(len(reference))
        return _ChainParts(number, np.array(reference))

    def _balanced(self, x: Array, parts: _ChainParts) -> Array:
        """The parts weighed so that what leaves each of them enters it, and balanced within (aggregation)."""
        count, moves = parts.reference.size, sp.coo_array(self.whole.others)
        kept, rates = self._without(parts.reference)
        one, other = parts.number[moves.row], parts.number[moves.col]
        between = one != other
        for _ in range(MAX_REFINEMENTS):
            held = np.zeros(self.n)
            held[parts.reference] = x[parts.reference]
            x = x.copy()
            x[kept] = rates.visits(np.asarray(self.whole.into @ held)[kept], x[kept], everywhere=True)
            flow, table = moves.data * x[moves.row], np.zeros((count, count))
            np.add.at(table, (one[between], other[between]), flow[between])
            shares = np.bincount(parts.number, x, count)
            if not (np.all(shares > 0) and np.all(table.sum(axis=1) > 0)):
                break
            change = _small_stationary(table / shares[:, None]) / shares
            x = self._normalised(x * change[parts.number])
            if np.ptp(change) <= 64 * EPS * float(change.max()):
                break
        return self._normalised(x)

    def _errors_of_parts(self, x: Array, parts: _ChainParts) -> Array:
        """As ``_errors``, for one class with parts."""
        missing, slack = self.whole.missing(np.zeros(self.n), x, self.doubt)
        moves = sp.coo_array(self.whole.others)
        flow = moves.data * x[moves.row]
        one, other = parts.number[moves.row], parts.number[moves.col]
        between, count = one != other, parts.reference.size
        entering = np.bincount(other[between], flow[between], count)
        exits = np.bincount(one[between], flow[between], count)
        terms = 8 + np.log2(moves.data.size + 2) + self.whole.terms
        net = np.abs(entering - exits) + (terms * EPS + self.doubt) * (entering + exits)
        total, between_parts = 0.0, None
        for number, reference in enumerate(parts.reference):
            kept, rates = self._without(np.array([reference]))
            times = rates.times(self.doubt)
            if times is None:
                return np.array([LARGEST_ERROR])
            own = parts.number[kept] == number
            total += float((np.abs(missing) + slack)[kept[own]] @ times[own])
            if between_parts is None:
                between_parts = np.zeros(self.n)
                between_parts[kept] = times
        assert between_parts is not None
        total += float(net @ between_parts[parts.reference])
        return np.array([2 * total])


def _heaviest(label: Indices, mass: Array, count: int) -> Indices:
    """The state of every class with the most mass; states of no class are passed over."""
    order = np.lexsort((-mass, label))
    order = order[label[order] >= 0]
    _, first = np.unique(label[order], return_index=True)
    assert first.size == count
    return np.asarray(order[first])


def _small_stationary(rates: Array) -> Array:
    """The stationary distribution of rates between a few states, without subtractions (Grassmann, Taksar, Heyman)."""
    q, n = rates.copy(), len(rates)
    for k in range(n - 1, 0, -1):
        q[:k, k] /= q[k, :k].sum()
        q[:k, :k] += np.outer(q[:k, k], q[k, :k])
    x = np.ones(n)
    for k in range(1, n):
        x[k] = x[:k] @ q[:k, k]
    return np.asarray(x / x.sum())


def _off_diagonal_sums(matrix: sp.csr_array) -> Array:
    """How likely each state is left; without the probability of staying, which would hide small chances."""
    moves = sp.coo_array(matrix)
    away = moves.row != moves.col
    return np.asarray(np.bincount(moves.row[away], moves.data[away], matrix.shape[0]), np.float64)
