"""Theorems 1 and 2 and Corollary 1, checked on models whose optimum is known."""

from collections.abc import Iterator

from cautious.paper.duality_gap import GapCurve
from cautious.paper.evidence import Interval, Part, Row, Scale
from cautious.paper.sample_growth import ACTIONS, SUCCESSORS, Growth
from cautious.paper.theorem_claims import all_claims
from cautious.paper.theorem_panels import draw
from cautious.paper.theorem_study import DISCOUNT, GRID, HORIZON_STATES, TheoremStudy, study

# what is drawn against T, and the bound beside it
AGAINST_SAMPLES = (
    ("gap", "bound"),
    ("suboptimality", "bound"),
    ("policy_error", ""),
    ("violation", "violation_bound"),
)
OF_COROLLARY = (("divergence", "divergence_bound"), ("divergence_allowed", "divergence_bound"))


def make(scale: Scale) -> Part:
    """The figure, its numbers and its claims."""
    found = study(scale)
    return Part(
        key="theorems",
        title="The theorems, checked",
        caption=_caption(found),
        alt=(
            "Six panels on logarithmic axes: the duality gap, the loss and the flow violation of the average of "
            "Algorithm 1 against the number of samples, each well below its bound; the KL divergence from the optimum "
            "for three cautions; the samples needed against the number of pairs; the gap against the horizon."
        ),
        draw=lambda theme: draw(found, theme),
        rows=tuple(rows(found)),
        claims=all_claims(found),
    )


def rows(found: TheoremStudy) -> Iterator[Row]:
    """One mapping per measured point: the mean over seeds, its interval, and the bound where there is one."""
    for one in found.curves:
        yield from _curve_rows(one, AGAINST_SAMPLES)
    for one in found.by_caution.values():
        yield from _curve_rows(one, OF_COROLLARY)
    needed = f"samples for a mean gap of {found.plan.accuracy:g}"
    yield from _growth_rows(found.growth, f"garnets, discount {DISCOUNT:g}", needed, "pairs")
    after = f"gap after {found.plan.horizon_samples} samples"
    yield from _growth_rows(found.horizon, f"garnets of {HORIZON_STATES} states", after, "horizon")


def _curve_rows(one: GapCurve, numbers: tuple[tuple[str, str], ...]) -> Iterator[Row]:
    for number, bound in numbers:
        limits: list[float | str] = list(one.each(bound).mean(axis=1)) if bound else [""] * len(one.runs)
        for samples, mean, limit in zip(one.samples, one.across(number), limits, strict=True):
            yield _row(one.instance.name, number, "samples", samples, mean, limit)


def _growth_rows(growth: Growth, case: str, number: str, against: str) -> Iterator[Row]:
    for x, mean in zip(growth.x, growth.y, strict=True):
        yield _row(case, number, against, x, mean, "")


def _row(case: str, number: str, against: str, x: float, mean: Interval, bound: float | str) -> Row:
    return {
        "case": case,
        "number": number,
        "against": against,
        "x": x,
        "mean": mean.mean,
        "low": mean.low,
        "high": mean.high,
        "seeds": mean.n,
        "bound": bound,
    }


def _caption(found: TheoremStudy) -> str:
    garnet, grid = found.curves[0].instance, found.curves[-1].instance
    return (
        f"Algorithm 1 as printed, with the constants of Theorem 1; means over {found.seeds} seeds with 95 % intervals. "
        "(a)-(c) Against the samples T, beside the bounds (dotted), on a garnet of "
        f"{garnet.problem.mdp.n_states} states ({garnet.pairs} pairs) and a {len(GRID)}x{len(GRID[0])} grid "
        f"({grid.pairs} pairs), discount {DISCOUNT:g}; every T is a run of its own, because the steps depend on T. "
        "(b) The average does not balance the flow, so the policy read off it (dashed) has a loss of its own; a hollow "
        "mark is a loss below zero. (d) The KL divergence of the average from the optimum, beside epsilon / c with the "
        "measured gap (dashed) and with the bound (dotted) for epsilon. (e) The samples after which the mean gap is "
        f"{found.plan.accuracy:g}, on garnets of one kind ({ACTIONS} actions, {SUCCESSORS} successors, discount "
        f"{DISCOUNT:g}). (f) The gap at one T, on garnets of {HORIZON_STATES} states that differ in the discount only. "
        "Gaps and losses are in units of return; rewards outside [0, 1] are rescaled inside, and the bounds are scaled "
        "back."
    )
