"""The answer in one sentence: what the policy earns, its risk or requirement, and what caution changed."""

import math

from cautious.report import demands, trade
from cautious.report.accuracy import shown_return, shown_risk
from cautious.report.carriers import barrier_requirements
from cautious.report.neutral_comparison import Comparison
from cautious.report.text_tables import changed_states
from cautious.report.words import is_learned, is_logged, is_neutral, number, only_barriers, scene_of
from cautious.solution import Solution
from cautious.status import Status


def answer_sentence(solution: Solution, comparison: Comparison | None = None) -> str:
    """What came out, in one sentence; with what caution buys where the risk-neutral policy is known."""
    if solution.status is Status.INFEASIBLE:
        return "No policy meets all requirements; the policy shown here comes closest."
    if math.isinf(solution.risk):
        return (
            "No policy with a finite risk was found, and none is excluded; the policy shown here is the last one tried."
        )
    text = f"The policy earns {number(shown_return(solution))} ({scene_of(solution.mdp).reward_unit}, discounted)"
    if not is_neutral(solution):
        text += _cautious(solution) + ("" if comparison is None else _beside_neutral(comparison))
    return f"{text}; {_quality(solution)}."


def _cautious(solution: Solution) -> str:
    """The risk; a lone requirement says more than the barrier before it."""
    asked = barrier_requirements(solution) if only_barriers(solution.risk_label) else []
    if len(asked) == 1 and not is_learned(solution):
        return f" and keeps the requirement ({demands.reached(asked[0])}, at least {demands.limit(asked[0])})"
    return f" at a risk of {number(shown_risk(solution))}"


def _beside_neutral(comparison: Comparison) -> str:
    here, start = trade.point(comparison.solution), comparison.neutral_point
    if here is not None and start is not None:
        step = trade.Step(start, here)
        if step.given_up == step.removed == 0:
            same = "as much of both as the risk-neutral policy" if changed_states(comparison) else ""
            return f", {same or 'the same policy as without caution'}"
    text = f", where the risk-neutral policy earns {number(comparison.neutral_return)}"
    if comparison.neutral_risk is None:
        return text
    broken = demands.broken_words(barrier_requirements(comparison.solution, comparison.neutral_occupancy))
    if broken:
        return f"{text} and {broken}"
    if math.isinf(comparison.neutral_risk):
        return f"{text} at an infinite risk"
    return f"{text} at a risk of {number(comparison.neutral_risk)}"


def _quality(solution: Solution) -> str:
    if is_learned(solution):
        return f"{'this figure is an estimate' if is_neutral(solution) else 'both figures are estimates'} from samples"
    if solution.certificate.kind in ("optimal", "global") and math.isfinite(solution.gap):
        where = "in the counted model " if is_logged(solution.mdp) else ""
        return f"{where}no policy beats its objective by more than {number(solution.gap, 2)}"
    return "there is no proof that it is the best one"
