"""Each world with the risk that is natural in it, and a caution at which the difference shows."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from cautious.errors import InputError, shown
from cautious.models.tabular import MDP
from cautious.problem import Problem
from cautious.risks.base import Risk
from cautious.risks.divergence import KL, Entropy, Quadratic
from cautious.risks.features import PeakExposure, TaskFloors, WorstTask
from cautious.risks.scalar import CVaR, Variance
from cautious.risks.wasserstein import Wasserstein
from cautious.worlds.grids import drift, drift_prior, drift_prior_world, maze
from cautious.worlds.operations import clinic, clinic_tasks, forest, inventory, liquidation, machine_replacement, queue
from cautious.worlds.random_models import garnet, river_swim

GOODS_ON_SHELF = 0.97


@dataclass(frozen=True)
class World:
    """What ``describe`` tells: ``risk`` is the label of the natural risk, ``why`` one paragraph on the choice."""

    name: str
    title: str
    n_states: int
    n_actions: int
    risk: str
    caution: float
    why: str


@dataclass(frozen=True)
class _Entry:
    build: Callable[[], MDP]
    risk: Callable[[MDP], Risk]
    caution: float
    why: str


def names() -> tuple[str, ...]:
    """The names of all worlds, as ``problem`` and ``describe`` take them.

    Examples
    --------
    >>> import cautious as ca
    >>> "maze" in ca.worlds.names()
    True
    """
    return tuple(_CATALOGUE)


def problem(name: str, caution: float | None = None) -> Problem:
    """A world with its default numbers and its natural risk; ``caution`` None takes the natural one.

    Examples
    --------
    >>> import cautious as ca
    >>> ca.worlds.problem("maze")
    Problem(MDP(92 states, 4 actions, 1084 transitions, discount 0.95), risk=Variance, caution=10)
    """
    entry = _entry(name)
    mdp = entry.build()
    return Problem(mdp, entry.risk(mdp), entry.caution if caution is None else caution)


def describe(name: str) -> World:
    """Title, size, natural risk and caution of a world, and why that risk.

    Examples
    --------
    >>> import cautious as ca
    >>> ca.worlds.describe("clinic").risk
    'WorstTask'
    """
    entry, natural = _entry(name), problem(name)
    mdp = natural.mdp
    title = name if mdp.scene is None else mdp.scene.title
    return World(name, title, mdp.n_states, mdp.n_actions, natural.risk_label, entry.caution, entry.why)


def _entry(name: str) -> _Entry:
    if not isinstance(name, str) or name not in _CATALOGUE:
        raise InputError(f"there is no world named {shown(name)}; the worlds are {', '.join(_CATALOGUE)}")
    return _CATALOGUE[name]


def _service_floor(mdp: MDP) -> Risk:
    empty = np.zeros(mdp.n_states)
    empty[0] = 1.0
    kept = np.where(mdp.allowed, 1 - mdp.expect_next(empty), 0.0)
    return TaskFloors(kept[None], [GOODS_ON_SHELF / (1 - mdp.discount)])


def _balanced_ages(mdp: MDP) -> Risk:
    n = mdp.n_states
    neighbours = sp.csr_array(sp.diags_array(np.ones(n - 1), offsets=1, shape=(n, n)))
    return Wasserstein(np.full(n, 1 / n), neighbours)


_CATALOGUE = {
    "maze": _Entry(
        maze,
        lambda mdp: Variance(),
        10.0,
        "A slip in the corridor costs twenty ordinary steps, so the reward of a step spreads widely there. Penalising "
        "its variance keeps the agent further from the dark cells, at almost the same mean.",
    ),
    "drift": _Entry(
        drift,
        lambda mdp: KL(drift_prior()),
        1.0,
        "Behaviour learned before the drift kept clear of the dark cells. Staying close to it, in relative entropy, "
        "keeps that experience, while the new rewards still decide where nothing speaks against it.",
    ),
    "drift_prior_world": _Entry(
        drift_prior_world,
        lambda mdp: Quadratic(np.full(mdp.n_states, 1 / mdp.n_states)),
        200.0,
        "A prior is worth no more than the part of the map it has seen. The squared distance to an even cover makes "
        "the agent spread its visits while it collects the experience, without entering the dark cells more often.",
    ),
    "garnet": _Entry(
        garnet,
        lambda mdp: Entropy(),
        2.0,
        "A random model has no danger of its own; what can go wrong is to bet everything on numbers that may be "
        "wrong. Negative entropy spreads the behaviour over the pairs that are nearly as good.",
    ),
    "river_swim": _Entry(
        river_swim,
        lambda mdp: Variance(),
        40.0,
        "The source pays a lot, rarely; the bank pays a little, surely. Variance is the price of that gamble: above "
        "a caution of about 28 the swimmer stays at the bank.",
    ),
    "machine_replacement": _Entry(
        machine_replacement,
        lambda mdp: CVaR(0.9),
        20.0,
        "A plant lives through its bad weeks, not through its average one. The mean of the worst tenth of the weeks "
        "counts breakdowns, repairs and replacements at what they cost in cash; caution services the machine earlier.",
    ),
    "inventory": _Entry(
        inventory,
        _service_floor,
        5.0,
        "Shops promise availability: goods are left on the shelf at the end of 97 % of the weeks. The floor on that "
        "task raises the level at which to order, and the price of the promise can be read off in euros.",
    ),
    "queue": _Entry(
        queue,
        lambda mdp: PeakExposure([np.arange(mdp.n_states // 2, mdp.n_states), [0]]),
        50.0,
        "Two things bring complaints: a crowded room (half of its capacity or more) and an idle desk. The larger of "
        "the two shares of time is the risk, so caution cannot mend one by spoiling the other.",
    ),
    "forest": _Entry(
        forest,
        _balanced_ages,
        4000.0,
        "A balanced forest has every age class on an equal area, for habitat and steady work. The transport distance "
        "on the line of ages says how many decades of growth the stands are away from that balance, on average.",
    ),
    "liquidation": _Entry(
        liquidation,
        lambda mdp: Variance(),
        0.2,
        "What is not sold yet swings with the market. The variance of the daily gain is the classical price risk of "
        "an execution desk; caution sells faster and pays more impact.",
    ),
    "clinic": _Entry(
        clinic,
        lambda mdp: WorstTask(clinic_tasks(mdp)),
        5.0,
        "Total benefit favours the urgent class so much that routine patients hardly get a turn. The class that is "
        "served least is the risk; caution shares the slots evenly.",
    ),
}
