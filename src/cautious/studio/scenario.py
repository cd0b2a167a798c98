"""What a page can state, and the problem it means: a model, its danger, a risk with a caution, limits and a horizon."""

from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy import ndimage
from scipy.sparse.csgraph import dijkstra

from cautious.arrays import Array, Indices
from cautious.errors import InputError
from cautious.models.horizons import AVERAGE, TOTAL, Horizon
from cautious.models.tabular import MDP
from cautious.occupancy import uniform_policy
from cautious.problem import Problem
from cautious.report.words import short, state_name
from cautious.risks.base import Constraint, Risk, terms_of
from cautious.risks.divergence import KL, Entropy, TotalVariation
from cautious.risks.features import PeakExposure, SafeSet, TaskFloors
from cautious.risks.measures import Exposure, Reach, Return
from cautious.risks.scalar import CVaR, Variance
from cautious.solvers.solve import solve
from cautious.worlds.grids import DRIFT_MAP, MAZE_MAP, WALL, cells_marked, from_grid

LARGEST_SIDE = 60
FLOOR, DANGER, GOAL, REWARD, START = ".", "D", "G", "R", "S"
MARKS = (FLOOR, WALL, DANGER, GOAL, REWARD, START)
# share of random actions in the careful habit, so that no action is forbidden
HABIT_EXPLORATION = 0.05
# the careful habit is the best policy when danger costs this many times the spread of the rewards
HABIT_DANGER_COST = 5.0
# habits look ahead discounted, at most by this, whatever the horizon of the problem
HABIT_DISCOUNT = 0.99
FEW_STATES = 3
NO_DANGER = "nothing is marked as danger; mark some, or choose another risk"
NO_LIMITED_DANGER = "nothing is marked as danger; mark some, or take the limit on danger away"


@dataclass(frozen=True)
class Pays:
    """Points for entering a cell: any step, danger, the goal (which is never left), a reward (which can be left)."""

    step: float = -0.05
    danger: float = -1.0
    goal: float = 0.0
    reward: float = 1.0


@dataclass(frozen=True)
class Grid:
    """What is painted; ``slip`` is the chance that a move goes to one of its two sides."""

    rows: tuple[str, ...]
    pays: Pays = Pays()
    slip: float = 0.2
    discount: float = 0.95

    def model(self, horizon: Horizon = None) -> MDP:
        """The grid as a model. Episodes start at the cells marked as start, or anywhere when there is none.

        Long-run averages and totals until the end do not discount.
        """
        painted = "".join(self.rows)
        pays = self.pays
        return from_grid(
            self.rows,
            {FLOOR: pays.step, START: pays.step, DANGER: pays.danger, GOAL: pays.goal, REWARD: pays.reward},
            p=1 - self.slip,
            discount=1.0 if horizon in (AVERAGE, TOTAL) else self.discount,
            absorbing=GOAL if GOAL in painted else "",
            start=START if START in painted else None,
            title="A painted grid",
        )


@dataclass(frozen=True)
class RiskChoice:
    """One of the risks a page offers; each looks at its own parameter and ignores the others."""

    kind: str = "none"
    level: float = 0.9
    habit: str = "careful"


@dataclass(frozen=True)
class Limits:
    """Bounds that every policy shown must keep; None is no limit.

    ``time``: of the share of time in danger, until an end of the visits there. ``ever``: of the chance to enter danger
    at all. ``own``: of the constraints of the problem that was opened, in its order.
    """

    time: float | None = None
    ever: float | None = None
    own: tuple[float | None, ...] = ()

    @property
    def given(self) -> list[tuple[str, int | None, float]]:
        """Field, place in it and bound of every limit that counts, in the order of the problem's constraints."""
        own = [("own", place, bound) for place, bound in enumerate(self.own) if bound is not None]
        danger = [(name, None, bound) for name in ("time", "ever") if (bound := getattr(self, name)) is not None]
        return [*own, *danger]


@dataclass(frozen=True)
class Statement:
    """A whole problem; ``grid`` None is the model that was opened, whose danger the page marks by state.

    ``step`` is the step of a finite horizon that the page looks at, from 1; 0 is all of them together.
    """

    grid: Grid | None
    risk: RiskChoice
    caution: float
    danger: tuple[int, ...] = ()
    limits: Limits = Limits()
    horizon: Horizon = None
    step: int = 0

    @property
    def question(self) -> "Statement":
        """What has to be solved: the same at every step."""
        return replace(self, step=0)

    @property
    def model_key(self) -> "Statement":
        """Statements with the same one are about the same model."""
        return Statement(self.grid, RiskChoice(), 0.0, self.danger, horizon=self.horizon)

    @property
    def along_limit(self) -> bool:
        """Whether the curve is one along the only limit: without a risk there is no caution to draw it along."""
        return self.risk.kind == "none" and len(self.limits.given) == 1

    @property
    def curve_key(self) -> "Statement":
        """Statements with the same one have the same curve."""
        limits = self.limits
        if self.along_limit:
            ((name, _, _),) = limits.given
            own = tuple(None if bound is None else 0.0 for bound in limits.own)
            limits = Limits(0.0 if name == "time" else None, 0.0 if name == "ever" else None, own)
        return replace(self, caution=0.0, step=0, limits=limits)

    def plain(self) -> dict[str, Any]:
        """As JSON says it."""
        return asdict(self)


def areas(mdp: MDP, states: Indices) -> list[Indices]:
    """States on a map that touch each other side by side form one area; without a map all of them do."""
    if mdp.scene is None or len(mdp.scene.cells) != mdp.n_states:
        return [states]
    cells = np.array(mdp.scene.cells)[states]
    marked = np.zeros((len(mdp.scene.grid), len(mdp.scene.grid[0])), dtype=np.int64)
    marked[tuple(cells.T)] = 1
    labels, count = ndimage.label(marked)
    return [states[labels[tuple(cells.T)] == area] for area in range(1, count + 1)]


@dataclass(frozen=True, eq=False)
class Scenario:
    """``own`` is the risk of the problem that was opened, if it has one; ``own_constraints`` are its constraints."""

    mdp: MDP
    danger: Indices
    own: Risk | None = None
    own_constraints: tuple[Constraint, ...] = ()

    def constraints(self, limits: Limits) -> list[Constraint]:
        """The constraints a page asks for, in the order of ``Limits.given``."""
        if len(limits.own) != len(self.own_constraints):
            raise InputError(
                f"limits.own has {len(limits.own)} bounds, and the problem that was opened has "
                f"{len(self.own_constraints)} constraints; give one for each, or null where it should not count"
            )
        if self.danger.size == 0 and not limits.time is limits.ever is None:
            raise InputError(NO_LIMITED_DANGER)
        measures = {"time": Exposure(self.danger, name="danger"), "ever": Reach(self.danger, name="danger")}
        return [
            measures[name] <= bound if place is None else replace(self.own_constraints[place], bound=bound)
            for name, place, bound in limits.given
        ]

    def risk(self, choice: RiskChoice) -> Risk | None:
        """The risk a page asks for; None is risk-neutral."""
        if choice.kind == "peak" and self.danger.size == 0:
            raise InputError(NO_DANGER)
        if choice.kind == "peak":
            return PeakExposure(areas(self.mdp, self.danger))
        if choice.kind in ("kl", "tv"):
            prior = self.habit(choice.habit)
            return KL(prior) if choice.kind == "kl" else TotalVariation(prior)
        if choice.kind == "cvar":
            return CVaR(choice.level)
        if choice.kind == "own" and self.own is None:
            raise InputError("this problem came without a risk of its own; choose another one")
        plain: dict[str, Risk | None] = {"own": self.own, "variance": Variance(), "entropy": Entropy(), "none": None}
        return plain[choice.kind]

    def habit(self, name: str) -> Array:
        """The policy (S, A) of a careful or of a random walker."""
        return self.careful_policy if name == "careful" else uniform_policy(self.mdp.allowed)

    @cached_property
    def distances(self) -> Indices:
        """Moves from the start to each state (S,), whatever the actions; beyond all others without a way."""
        mdp = self.mdp
        pointer, following, _ = mdp.csr
        rows = sp.csr_array((np.ones(len(following)), following, pointer[:: mdp.n_actions]), (mdp.n_states,) * 2)
        far = dijkstra(rows, indices=np.flatnonzero(mdp.start > 0), unweighted=True, min_only=True)
        longest = far[np.isfinite(far)].max()
        return np.asarray(np.where(np.isfinite(far), far, longest + 1), dtype=np.int64)

    @cached_property
    def careful_policy(self) -> Array:
        """The best policy (S, A) when danger costs far more, mixed with a few random actions."""
        if self.danger.size == 0:
            raise InputError(NO_DANGER)
        mdp = self.mdp
        spread = float(np.ptp(mdp.rewards[mdp.allowed])) or 1.0
        rewards = mdp.rewards.copy()
        rewards[self.danger] -= HABIT_DANGER_COST * spread
        discount = min(mdp.discount, HABIT_DISCOUNT)
        with_danger_cost = MDP(mdp.transitions, rewards, discount, mdp.start, allowed=mdp.allowed)
        policy = solve(Problem(with_danger_cost), tolerance=1e-4, time_limit_seconds=5.0).policy
        return np.asarray((1 - HABIT_EXPLORATION) * policy + HABIT_EXPLORATION * uniform_policy(mdp.allowed))


def barrier_limits(risk: Risk | None, mdp: MDP) -> list[Constraint]:
    """What the barriers of a risk require, as constraints: that is left of them at caution 0."""
    found: list[Constraint] = []
    for _, term in terms_of(risk) if risk is not None else ():
        if isinstance(term, SafeSet):
            others = np.setdiff1d(np.arange(mdp.n_states), mdp.state_indices("SafeSet.states", term.states))
            names = [state_name(mdp, int(state)) for state in others[:FEW_STATES]]
            name = ", ".join(names) if others.size <= FEW_STATES else "states outside the safe set"
            found += [Exposure(others, name=short(name, 60)) <= float(term.slack)] if others.size else []
        elif isinstance(term, TaskFloors):
            floors = np.atleast_1d(np.asarray(term.floors, dtype=np.float64))
            pairs = zip(term.task_rewards, floors.tolist(), strict=True)
            found += [Return(table, name=f"return of task {j}") >= floor for j, (table, floor) in enumerate(pairs)]
    return found


def scenario_of(statement: Statement, opened: Problem | None) -> Scenario:
    """The scenario of a statement: its grid, or the model that was opened."""
    if statement.grid is not None:
        mdp = statement.grid.model(statement.horizon)
        return Scenario(mdp, cells_marked(mdp, DANGER))
    if opened is None:
        raise InputError("no model was opened; the statement needs a grid")
    mdp = opened.mdp.without_memory
    danger = mdp.state_indices("danger", list(statement.danger))
    return Scenario(mdp, danger, opened.unbound_risk, opened.constraints)


BRIDGE_MAP = ("..........", ".########.", "SDDDDDDDDG", ".########.", "..........")
ROOMS_MAP = (
    "S....D...#..........",
    ".....D...#..........",
    ".....D.......DDDDDDD",
    ".....D...#...DDDDDDD",
    ".....D...#..........",
    ".........#..........",
    "####..####....#.....",
    "..............#.....",
    "..DDDD........#.....",
    "..DDDD........######",
    "..DDDD..............",
    "..DDDD....DDDDDD....",
    "..........DDDDDD....",
    "######....DDDDDD....",
    ".....#....DDDDDD....",
    ".....#..............",
    ".........#..........",
    ".........#DDDDDDDD..",
    ".........#DDDDDDDD..",
    ".........#.........G",
)

DRIFT_GRID = Grid(tuple(row.replace(GOAL, REWARD) for row in DRIFT_MAP), Pays(0.3, 0.0, 0.0, 1.0), 0.4, 0.9)
# worlds with their natural risk, and grids with a caution at which something happens
EXAMPLES: dict[str, Statement] = {
    "maze": Statement(Grid(MAZE_MAP), RiskChoice("variance"), 10.0),
    "drift": Statement(DRIFT_GRID, RiskChoice("kl"), 1.0),
    "bridge": Statement(Grid(BRIDGE_MAP, Pays(step=-0.1, danger=-0.1)), RiskChoice("peak"), 1.0),
    "rooms": Statement(Grid(ROOMS_MAP, Pays(danger=-0.05), discount=0.98), RiskChoice("peak"), 5.0),
    "blank": Statement(Grid(("." * 12,) * 12), RiskChoice("none"), 1.0),
}


def _limited(danger: range, most: float) -> Statement:
    return Statement(None, RiskChoice(), 0.0, tuple(danger), Limits(time=most))


# worlds that a page offers beside its grids, with what is danger there and a limit that matters
WORLDS: dict[str, tuple[Statement, str]] = {
    "inventory": (_limited(range(1), 0.05), "Danger is an empty shelf."),
    "queue": (_limited(range(8, 16), 0.05), "Danger is a crowd: eight customers or more."),
    "clinic": (_limited(range(8, 54, 9), 0.1), "Danger is a full waiting room: eight routine patients."),
}
