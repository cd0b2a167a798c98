"""What a page can state, and the problem it means: a painted grid or an opened model, its danger, a risk, a caution."""

from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy import ndimage

from cautious.arrays import Array, Indices
from cautious.errors import InputError
from cautious.models.tabular import MDP
from cautious.occupancy import uniform_policy
from cautious.problem import Problem
from cautious.risks.base import Risk
from cautious.risks.divergence import KL, Entropy, TotalVariation
from cautious.risks.features import FeatureRisk, PeakExposure, SafeSet
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
# the caution, per spread of the rewards, at which a limit is all that is left of a risk
LIMIT_CAUTION = 1e-4
NO_DANGER = "nothing is marked as danger; mark some, or choose another risk"


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

    def model(self) -> MDP:
        """The grid as a model. Episodes start at the cells marked as start, or anywhere when there is none."""
        painted = "".join(self.rows)
        pays = self.pays
        return from_grid(
            self.rows,
            {FLOOR: pays.step, START: pays.step, DANGER: pays.danger, GOAL: pays.goal, REWARD: pays.reward},
            p=1 - self.slip,
            discount=self.discount,
            absorbing=GOAL if GOAL in painted else "",
            start=START if START in painted else None,
            title="A painted grid",
        )


@dataclass(frozen=True)
class RiskChoice:
    """One of the risks a page offers; each looks at its own parameter and ignores the others."""

    kind: str = "none"
    slack: float = 0.05
    level: float = 0.9
    habit: str = "careful"


@dataclass(frozen=True)
class Statement:
    """A whole problem; ``grid`` None is the model that was opened, whose danger the page marks by state."""

    grid: Grid | None
    risk: RiskChoice
    caution: float
    danger: tuple[int, ...] = ()

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
    """``own`` is the risk of the problem that was opened, if it has one."""

    mdp: MDP
    danger: Indices
    own: Risk | None = None

    def risk(self, choice: RiskChoice) -> Risk | None:
        """The risk a page asks for; None is risk-neutral."""
        if choice.kind in ("safe", "peak") and self.danger.size == 0:
            raise InputError(NO_DANGER)
        if choice.kind == "safe":
            safe = np.setdiff1d(np.arange(self.mdp.n_states), self.danger)
            if safe.size == 0:
                raise InputError("everything is marked as danger; leave at least one safe place")
            return SafeSet(safe, choice.slack)
        if choice.kind == "peak":
            return PeakExposure(areas(self.mdp, self.danger))
        if choice.kind in ("kl", "tv"):
            prior = self.careful_policy if choice.habit == "careful" else uniform_policy(self.mdp.allowed)
            return KL(prior) if choice.kind == "kl" else TotalVariation(prior)
        if choice.kind == "cvar":
            return CVaR(choice.level)
        if choice.kind == "own" and self.own is None:
            raise InputError("this problem came without a risk of its own; choose another one")
        plain: dict[str, Risk | None] = {"own": self.own, "variance": Variance(), "entropy": Entropy(), "none": None}
        return plain[choice.kind]

    @cached_property
    def careful_policy(self) -> Array:
        """The best policy (S, A) when danger costs far more, mixed with a few random actions."""
        if self.danger.size == 0:
            raise InputError(NO_DANGER)
        mdp = self.mdp
        spread = float(np.ptp(mdp.rewards[mdp.allowed])) or 1.0
        rewards = mdp.rewards.copy()
        rewards[self.danger] -= HABIT_DANGER_COST * spread
        with_danger_cost = MDP(mdp.transitions, rewards, mdp.discount, mdp.start, allowed=mdp.allowed)
        policy = solve(Problem(with_danger_cost), tolerance=1e-4, time_limit_seconds=5.0).policy
        return np.asarray((1 - HABIT_EXPLORATION) * policy + HABIT_EXPLORATION * uniform_policy(mdp.allowed))


def has_limits(problem: Problem) -> bool:
    """True if the risk is infinite beyond some limit, which then holds at any caution above 0."""
    return any(isinstance(risk, FeatureRisk) and risk.is_barrier for _, risk in problem.terms)


def least_caution(problem: Problem) -> float:
    """What caution 0 means: no risk, but where the risk is a limit, next to nothing beyond the limit."""
    if not has_limits(problem):
        return 0.0
    return LIMIT_CAUTION * (float(np.ptp(problem.mdp.rewards[problem.mdp.allowed])) or 1.0)


def scenario_of(statement: Statement, opened: Problem | None) -> Scenario:
    """The scenario of a statement: its grid, or the model that was opened."""
    if statement.grid is not None:
        mdp = statement.grid.model()
        return Scenario(mdp, cells_marked(mdp, DANGER))
    if opened is None:
        raise InputError("no model was opened; the statement needs a grid")
    return Scenario(opened.mdp, opened.mdp.state_indices("danger", list(statement.danger)), opened.unbound_risk)


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
