"""Small chains and random models: the standard test beds of the literature."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from cautious.arrays import Indices
from cautious.checks import as_count, as_number, as_seed, fitting_memory
from cautious.errors import InputError, shown
from cautious.models.scene import Scene
from cautious.models.tabular import MDP
from cautious.worlds._outcomes import MOST_LEVELS, Outcomes

NAMED_STATES = 10_000


@fitting_memory("this world")
def garnet(
    n_states: int = 50,
    n_actions: int = 4,
    n_successors: int = 5,
    discount: float = 0.95,
    seed: int = 0,
    reward_range: tuple[float, float] = (0.0, 1.0),
) -> MDP:
    """A random sparse model: the GARNET test bed (Archibald, McKinnon and Thomas, 1995).

    Every pair has ``n_successors`` different successors, drawn uniformly, with probabilities uniform on the simplex
    (Dirichlet(1): the spacings of sorted uniform numbers), and one reward uniform in ``reward_range``, in points per
    step. The same seed gives the same bytes. A million states take seconds; states are named up to 10,000.

    Examples
    --------
    >>> import cautious as ca
    >>> ca.worlds.garnet(n_states=1000, n_actions=2, n_successors=3)
    MDP(1000 states, 2 actions, 6000 transitions, discount 0.95)
    """
    n_states, n_actions = (
        as_count("n_states", n_states, 1, MOST_LEVELS),
        as_count("n_actions", n_actions, 1, MOST_LEVELS),
    )
    n_successors = as_count("n_successors", n_successors, 1, MOST_LEVELS)
    if n_successors > n_states:
        raise InputError(f"n_successors is {n_successors}; it cannot exceed n_states, which is {n_states}")
    low, high = _checked_range(reward_range)
    rng = np.random.default_rng(as_seed(seed))
    n_pairs = n_states * n_actions
    successors = _distinct(n_pairs, n_states, n_successors, rng)
    cuts = np.sort(rng.random((n_pairs, n_successors - 1)), axis=1)
    chance = np.diff(cuts, axis=1, prepend=0.0, append=1.0)
    pointer = np.arange(0, n_pairs * n_successors + 1, n_successors)
    transitions = sp.csr_array((chance.ravel(), successors.ravel(), pointer), shape=(n_pairs, n_states))
    return MDP(
        transitions,
        rng.uniform(low, high, (n_states, n_actions)),
        discount,
        state_names=[f"s{s}" for s in range(n_states)] if n_states <= NAMED_STATES else None,
        action_names=[f"a{a}" for a in range(n_actions)],
        scene=Scene("Random model", f"GARNET with {n_successors} successors per pair, seed {seed}.", "step", "points"),
    )


@fitting_memory("this world")
def river_swim(
    n_states: int = 6, discount: float = 0.95, bank_reward: float = 0.005, source_reward: float = 1.0
) -> MDP:
    """River swim: rest at the near bank for a small sure reward, or swim upstream for a large rare one.

    Swimming ("right") against the current advances with probability 0.35, stands still with 0.6 and drifts back with
    0.05 (at the first state 0.6 and 0.4, at the last one it stays with 0.6 and drifts back with 0.4); floating
    ("left") never fails. The first state pays ``bank_reward`` points for floating, the last ``source_reward`` for
    swimming. Numbers of Osband, Russo and Van Roy (2013); the idea is Strehl and Littman's (2008). Episodes start at
    the first state.

    Examples
    --------
    >>> import cautious as ca
    >>> ca.worlds.river_swim().shape
    (6, 2)
    """
    n_states = as_count("n_states", n_states, 2, MOST_LEVELS)
    bank_reward, source_reward = as_number("bank_reward", bank_reward), as_number("source_reward", source_reward)
    last = n_states - 1
    outcomes = Outcomes(n_states, 2)
    for s in range(n_states):
        outcomes.add(s, 0, max(s - 1, 0), 1.0, bank_reward if s == 0 else 0.0)
        back, stay, ahead = (0.0, 0.4, 0.6) if s == 0 else (0.4, 0.6, 0.0) if s == last else (0.05, 0.6, 0.35)
        for there, chance in ((s - 1, back), (s, stay), (s + 1, ahead)):
            outcomes.add(s, 1, there, chance, source_reward if s == last else 0.0)
    story = "The near bank pays a little, the source pays a lot, and the current pushes back."
    return outcomes.mdp(
        discount,
        start=np.eye(n_states)[0],
        state_names=[f"place {s}" for s in range(n_states)],
        action_names=["left", "right"],
        scene=Scene("River swim", story, "stroke", "points"),
    )


def _distinct(n_rows: int, n: int, k: int, rng: np.random.Generator) -> Indices:
    """k different numbers below n in each row, sorted; every set equally likely (Floyd's algorithm on all rows)."""
    columns: list[Any] = []
    for top in range(n - k, n):
        drawn = rng.integers(top + 1, size=n_rows, dtype=np.int32)
        taken = np.zeros(n_rows, dtype=bool)
        for earlier in columns:
            taken |= earlier == drawn
        columns.append(np.where(taken, np.int32(top), drawn))
    return np.sort(np.stack(columns, axis=1), axis=1)


def _checked_range(reward_range: Any) -> tuple[float, float]:
    if not isinstance(reward_range, tuple | list) or len(reward_range) != 2:
        raise InputError(f"reward_range must be (low, high), found {shown(reward_range)}")
    low, high = (as_number(f"reward_range[{i}]", end) for i, end in enumerate(reward_range))
    if low > high:
        raise InputError(f"reward_range is ({low}, {high}); the first number must not exceed the second")
    return low, high
