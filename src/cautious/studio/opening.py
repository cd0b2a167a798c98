"""What a page must know about a problem that was opened, before anything is solved."""

from typing import Any

from cautious.errors import CautiousError, InputError
from cautious.models.horizons import AVERAGE, TOTAL
from cautious.models.tabular import MDP
from cautious.problem import Problem
from cautious.report.limit_words import is_share, measure_words, sense_words
from cautious.report.sentences import risk_words
from cautious.report.words import action_name, fits_grid, scene_of
from cautious.risks.base import Constraint
from cautious.solution import ConstraintValue
from cautious.studio.board import Board, board_of
from cautious.studio.messages import LARGEST_HORIZON, LARGEST_OWN_LIMITS
from cautious.studio.scenario import (
    LARGEST_SIDE,
    WORLDS,
    Limits,
    RiskChoice,
    Statement,
    barrier_limits,
)
from cautious.studio.walks import never_left
from cautious.worlds import catalogue

# of the policy in one state that is shown in words
MAX_ACTIONS = 12
# actions that a map knows by name
MAX_NAMES = 100


def map_of(mdp: MDP) -> tuple[tuple[str, ...] | None, Board | None]:
    """Rows of the map that a model is drawn as, and its counts if it is a board; None where a graph says more."""
    grid = scene_of(mdp).grid
    if fits_grid(mdp) and max(len(grid), len(grid[0])) <= LARGEST_SIDE:
        return grid, None
    board = board_of(mdp)
    return None if board is None else board.rows, board


def has_map(mdp: MDP) -> bool:
    """Whether the model is drawn as a map."""
    return map_of(mdp)[0] is not None


def check_opened(problem: Problem, name: str) -> None:
    """Refuse what a page cannot state."""
    if isinstance(problem.mdp.horizon, int) and problem.mdp.horizon > LARGEST_HORIZON:
        raise InputError(f"{name} has {problem.mdp.horizon:,} steps; the studio shows at most {LARGEST_HORIZON:,}")
    if len(problem.constraints) > LARGEST_OWN_LIMITS:
        raise InputError(f"{name} has {len(problem.constraints)} limits; the studio shows {LARGEST_OWN_LIMITS}")


def opened_words(problem: Problem, name: str) -> dict[str, Any]:
    """What a page must know about the problem that was opened."""
    mdp, own = problem.mdp.without_memory, problem.unbound_risk
    scene, bounds = scene_of(mdp), tuple(one.bound for one in problem.constraints)
    # a problem without a risk and without limits is shown with the variance, any other with what it has
    kind = "own" if own is not None else "none" if bounds or problem.mdp.horizon is not None else "variance"
    first = RiskChoice(kind, habit="random")
    rows, board = map_of(mdp)
    return {
        "name": name,
        "title": "" if mdp.scene is None else scene.title,
        "story": scene.story,
        "unit": scene.reward_unit,
        "step_word": scene.step or "step",
        "n_states": mdp.n_states,
        "n_actions": mdp.n_actions,
        "discount": mdp.discount,
        "statement": Statement(
            None, first, problem.caution, limits=Limits(own=bounds), horizon=problem.mdp.horizon
        ).plain(),
        "limits": [_limit_control(row) for row in problem.constraints],
        "horizons": refused_horizons(mdp),
        "own_risk": None if own is None else problem.risk_label,
        "own_words": risk_words(problem.risk_label),
        "own_limits": bool(barrier_limits(own, mdp)),
        "rows": rows,
        "board": None if board is None else {"things": board.things, "counts": board.counts},
        "arrows": [] if rows is None or board is not None else list(scene.action_arrows),
        "still": [] if rows is None else never_left(mdp).tolist(),
        "actions": [action_name(mdp, a) for a in range(min(mdp.n_actions, MAX_NAMES))],
    }


def opened_world(name: str) -> tuple[Problem, dict[str, Any]]:
    """A world that the page offers, and what the page must know about it."""
    given, (statement, danger) = catalogue.problem(name), WORLDS[name]
    words = opened_words(given, name)
    return given, words | {"statement": statement.plain(), "story": f"{words['story']} {danger}"}


def _limit_control(constraint: Constraint) -> dict[str, Any]:
    """What a page shows of a constraint of the problem that was opened; shares of time are typed in percent."""
    row = ConstraintValue(repr(constraint), 0.0, constraint.bound, 0.0, 0.0)
    words, share = f"{measure_words(row)} {sense_words(row)}", is_share(row)
    return {"words": words[:1].upper() + words[1:], "isShare": share, "isTime": share and words.startswith("time in ")}


def refused_horizons(mdp: MDP) -> dict[str, str]:
    """Why a horizon does not fit a model; empty where it does."""
    found = {}
    for name, horizon in (("discounted", None), ("steps", 1), (AVERAGE, AVERAGE), (TOTAL, TOTAL)):
        if horizon is None and mdp.discount == 1:
            found[name] = "sums that go on for ever need a discount below 1, and this model has 1"
            continue
        if horizon in (AVERAGE, TOTAL) and mdp.discount < 1:
            found[name] = f"averages and totals do not discount, and this model has the discount {mdp.discount:g}"
            continue
        try:
            Problem(mdp, horizon=horizon)  # type: ignore[arg-type]
            found[name] = ""
        except CautiousError as error:
            found[name] = " ".join(str(error).removeprefix(f'horizon="{name}": ').split())
    return found
