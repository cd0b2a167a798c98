"""Strategies for Hypothesis: small models, policies, risks and problems that shrink to readable counterexamples.

Needs hypothesis (extra ``testing``). Probabilities and rewards are fractions with small numerators, so that a
counterexample can be checked by hand.

Examples
--------
>>> from hypothesis import given
>>> import cautious as ca
>>> from cautious.testing import strategies
>>> @given(strategies.problems())
... def test_no_policy_is_better_than_the_bound(problem):
...     solution = ca.solve(problem)
...     assert solution.objective <= solution.upper_bound
"""

from typing import Any

import numpy as np

from cautious.arrays import Array
from cautious.errors import MissingExtraError
from cautious.models.tabular import MDP
from cautious.problem import Problem
from cautious.risks.base import Risk
from cautious.risks.divergence import KL, Entropy, Quadratic, TotalVariation
from cautious.risks.features import PeakExposure, SafeSet, TaskFloors, WorstTask
from cautious.risks.scalar import CVaR, Variance
from cautious.risks.wasserstein import Wasserstein

try:
    from hypothesis import strategies as st
except ImportError:
    raise MissingExtraError(
        'cautious.testing.strategies needs hypothesis; install it with: pip install "cautious[testing]"'
    ) from None

KINDS = (
    "SafeSet",
    "TaskFloors",
    "PeakExposure",
    "WorstTask",
    "Variance",
    "CVaR",
    "KL",
    "TotalVariation",
    "Quadratic",
    "Wasserstein",
    "Entropy",
)


@st.composite
def models(draw: Any, max_states: int = 5, max_actions: int = 3, discounts: Any = (0.0, 0.5, 0.9, 0.99)) -> MDP:
    """Models with all actions allowed and rewards (S, A) or (S, A, S)."""
    n, m = draw(st.integers(1, max_states)), draw(st.integers(1, max_actions))
    transitions = np.array([[draw(_distributions(n)) for _ in range(m)] for _ in range(n)])
    shape = (n, m, n) if draw(st.booleans()) else (n, m)
    return MDP(transitions, draw(_tables(shape)), draw(st.sampled_from(discounts)), draw(_distributions(n)))


@st.composite
def policies(draw: Any, mdp: MDP) -> Array:
    """Policies (S, A) of a model, deterministic ones among them."""
    table = np.zeros(mdp.shape)
    for state, allowed in enumerate(mdp.allowed):
        table[state, allowed] = draw(_distributions(int(allowed.sum())))
    return table


@st.composite
def risks(draw: Any, mdp: MDP, kinds: Any = KINDS) -> Risk:
    """One of the risks of the package, with data that fit the model; limits are such that some policy meets them."""
    n, shape = mdp.n_states, mdp.shape
    kind = draw(st.sampled_from(kinds))
    if kind == "SafeSet":
        # with a slack of one the limit is met by every policy that is ever inside
        return SafeSet(np.arange(n), draw(st.sampled_from((0.25, 0.5, 1.0))))
    if kind == "PeakExposure":
        sets = st.lists(st.integers(0, n - 1), min_size=1, max_size=n, unique=True)
        return PeakExposure(draw(st.lists(sets, min_size=1, max_size=3)))
    if kind in ("TaskFloors", "WorstTask"):
        tasks = draw(_tables((draw(st.integers(1, 3)), *shape)))
        if kind == "WorstTask":
            return WorstTask(tasks)
        return TaskFloors(tasks, np.full(len(tasks), tasks.min() / (1 - mdp.discount) - 1.0))
    if kind == "CVaR":
        return CVaR(draw(st.sampled_from((0.0, 0.5, 0.9))))
    if kind in ("Variance", "Entropy"):
        return Variance() if kind == "Variance" else Entropy()
    if kind == "Wasserstein":
        place = np.array(draw(st.lists(st.integers(0, 4), min_size=n, max_size=n)), dtype=np.float64)
        return Wasserstein(draw(_distributions(n)), np.abs(place[:, None] - place))
    prior = draw(_distributions(n)) if draw(st.booleans()) else draw(policies(mdp))
    distance: Any = {"KL": KL, "TotalVariation": TotalVariation, "Quadratic": Quadratic}[kind]
    # zeros of a KL prior forbid what they stand for
    risk: Risk = distance(0.9 * prior + 0.1 * np.full(prior.shape, 1 / prior.shape[-1]))
    return risk


@st.composite
def problems(draw: Any, max_states: int = 5, max_actions: int = 3, kinds: Any = KINDS) -> Problem:
    """Problems with no risk, one risk, or a sum of two."""
    mdp = draw(models(max_states, max_actions))
    terms = [draw(risks(mdp, kinds)) for _ in range(draw(st.integers(0, 2)))]
    caution = draw(st.sampled_from((0.1, 1.0, 10.0)))
    if not terms:
        return Problem(mdp)
    return Problem(mdp, terms[0] if len(terms) == 1 else terms[0] + 0.5 * terms[1], caution)


def _distributions(size: int) -> Any:
    """Distributions (size,) with small numerators; the first entry takes what shrinks away."""
    weights = st.lists(st.integers(0, 4), min_size=size, max_size=size)
    return weights.map(lambda found: _normalised([found[0] + (sum(found) == 0), *found[1:]]))


def _normalised(weights: list[int]) -> Array:
    table = np.array(weights, dtype=np.float64)
    return np.asarray(table / table.sum())


def _tables(shape: tuple[int, ...]) -> Any:
    """Tables of halves from -2 to 2."""
    size = int(np.prod(shape))
    numbers = st.lists(st.integers(-4, 4), min_size=size, max_size=size)
    return numbers.map(lambda found: np.array(found, dtype=np.float64).reshape(shape) / 2)
