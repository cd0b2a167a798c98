"""What the measurements say about Theorems 1 and 2 and Corollary 1; every verdict is computed from intervals."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from cautious.paper.duality_gap import TOLERANCE, GapCurve
from cautious.paper.evidence import PaperClaim
from cautious.paper.theorem_study import ACTIONS, DISCOUNT, HORIZON_STATES, SUCCESSORS, Growth, TheoremStudy, slope
from cautious.sweeps.statistics import Interval, interval

# the largest exponent that counts as nearly linear
NEARLY_LINEAR_EXPONENT = 1.25
# numbers of samples, at the upper end, through which a rate is fitted
FITTED_POINTS = 4


def all_claims(found: TheoremStudy) -> tuple[PaperClaim, ...]:
    """In the order of the paper."""
    cautions = list(found.by_caution.values())
    return (
        theorem_1(found.curves),
        near_linear(found.growth, found.per_log, found.plan.accuracy),
        horizon_squared(found.horizon, found.plan.horizon_samples),
        suboptimality(found.curves),
        violation(found.curves),
        corollary_1(cautions),
        large_caution(cautions),
    )


def bound_holds(curves: Sequence[GapCurve], number: str, bound: str) -> bool:
    """Whether the mean over seeds, with its interval, is at most the bound at every number of samples."""
    return all(
        mean.high <= limit
        for one in curves
        for mean, limit in zip(one.across(number), one.numbers[bound].mean(axis=1), strict=True)
    )


def looseness(curves: Sequence[GapCurve], number: str, bound: str) -> tuple[float, float]:
    """The least and the most that a bound is of the mean over seeds."""
    ratios = [one.numbers[bound].mean(axis=1) / one.numbers[number].mean(axis=1) for one in curves]
    return float(np.concatenate(ratios).min()), float(np.concatenate(ratios).max())


def rates(curves: Sequence[GapCurve], number: str) -> dict[str, Interval]:
    """The exponent of T of each problem: a power law per seed through the largest numbers of samples."""
    return {
        one.instance.name: interval(
            slope(one.samples[-FITTED_POINTS:], column) for column in one.numbers[number][-FITTED_POINTS:].T
        )
        for one in curves
    }


def ends(curves: Sequence[GapCurve], number: str) -> dict[str, Interval]:
    """The mean of a number at the most samples of each problem."""
    return {one.instance.name: one.across(number)[-1] for one in curves}


def theorem_1(curves: Sequence[GapCurve]) -> PaperClaim:
    """The bound on the expected duality gap."""
    holds, (least, most) = bound_holds(curves, "gap", "bound"), looseness(curves, "gap", "bound")
    falls = rates(curves, "gap")
    return PaperClaim(
        place="Theorem 1, duality gap",
        said="After T samples the expected duality gap is at most of the order of sqrt(|S||A| log(|S||A|) / T) "
        "(1 + c sigma) / (1 - gamma)^2.",
        found=f"{_verdict(curves, holds)} The bound is {least:.0f} to {most:.0f} times the mean gap. "
        f"The fitted exponent of T, -0.5 in the theorem: {_listed(falls)}.",
        holds=holds,
        caveat="Its constants are those of the proof, with 1 + c sigma; the statement has 1 + 2 c sigma. "
        f"{_content(curves)} An exponent above -0.5 does not contradict a bound that far above; over this range of T "
        "the gap then falls more slowly than the rate. Rewards are rescaled to [0, 1] inside; for others the bound is "
        "multiplied by their range.",
        numbers={"bound over gap, least": least, "bound over gap, most": most, **_titled("exponent of T", falls)},
    )


def near_linear(growth: Growth, per_log: Interval, accuracy: float) -> PaperClaim:
    """Samples for a fixed accuracy against the number of pairs."""
    raw = growth.exponent
    return PaperClaim(
        place="Theorems 1 and 2, sample complexity",
        said="The samples needed for a given accuracy grow near-linearly with |S||A|, up to a logarithm (we read: "
        f"after division by it, the exponent is at most {NEARLY_LINEAR_EXPONENT:g}, interval included).",
        found=f"For a mean duality gap of {accuracy:g}, T grows from {growth.y[0].mean:,.0f} at {growth.x[0]:.0f} "
        f"pairs to {growth.y[-1].mean:,.0f} at {growth.x[-1]:.0f}: exponent {raw}; after division by log(|S||A|) "
        f"{per_log}.",
        holds=per_log.high <= NEARLY_LINEAR_EXPONENT,
        caveat=f"{len(growth.x)} sizes of one kind of model: garnets with {ACTIONS} actions, {SUCCESSORS} successors "
        f"per pair and discount {DISCOUNT:g}, risk-neutral, a new model for each of {raw.n} seeds. No return exceeds "
        f"{1 / (1 - DISCOUNT):g} there. The theorem bounds the growth from above only.",
        numbers={"exponent": raw, "exponent after division by the logarithm": per_log},
    )


def horizon_squared(horizon: Growth, samples: int) -> PaperClaim:
    """The gap against the horizon."""
    return PaperClaim(
        place="Theorem 1, horizon",
        said="At a fixed T the bound on the duality gap grows with the square of the horizon 1/(1 - gamma).",
        found=f"After {samples:,} samples the gap grows like the horizon to the power {horizon.exponent}, for horizons "
        f"from {horizon.x[0]:.0f} to {horizon.x[-1]:.0f}.",
        holds=horizon.exponent.high <= 2,
        caveat="One power of the horizon is there by definition: the gap weighs the flow violation by the size of the "
        f"box, 2 (1 + c sigma) / (1 - gamma). Garnets of {HORIZON_STATES} states, risk-neutral.",
        numbers={"exponent": horizon.exponent},
    )


def suboptimality(curves: Sequence[GapCurve]) -> PaperClaim:
    """The objective of the average."""
    holds = bound_holds(curves, "suboptimality", "bound")
    above = float(np.mean(np.concatenate([np.ravel(one.numbers["suboptimality"] < 0) for one in curves])))
    average, policy = ends(curves, "suboptimality"), ends(curves, "policy_error")
    return PaperClaim(
        place="Theorem 2, sub-optimality",
        said="The expected objective of the average is within epsilon of the optimum, epsilon being Theorem 1's bound.",
        found=f"{_verdict(curves, holds)} The loss at the largest T, in units of return: {_listed(average)}.",
        holds=holds,
        caveat="The average does not balance the flow, so its objective is that of no policy, and it can lie above the "
        f"optimum, where the bound holds trivially ({100 * above:.1f} % of the runs). The theorem says nothing about "
        f"the policy read off it, which has a loss of its own: {_listed(policy)}. {_content(curves)}",
        numbers={
            "share of runs above the optimum": above,
            **_titled("loss of the average", average),
            **_titled("loss of the policy", policy),
        },
    )


def violation(curves: Sequence[GapCurve]) -> PaperClaim:
    """The flow of the average."""
    found, holds, numbers = _bounded(curves, "violation", "mean")
    return PaperClaim(
        place="Theorem 2, constraint violation",
        said="The flow of the average is violated, in expectation, by at most (1 - gamma) epsilon / (1 + c sigma) in "
        "the 1-norm.",
        found=found,
        holds=holds,
        caveat="The paper states this surely and proves it in expectation, so Theorem 1's bound is compared with the "
        "mean over seeds. With the measured gap it follows for every run, and every run is tested.",
        numbers={**numbers, **_titled("exponent of T", rates(curves, "violation"))},
    )


def corollary_1(curves: Sequence[GapCurve]) -> PaperClaim:
    """The divergence of the average from the optimum."""
    found, holds, numbers = _bounded(curves, "divergence", "mean divergence")
    solved_to = np.format_float_scientific(TOLERANCE, trim="-", exp_digits=1)
    return PaperClaim(
        place="Corollary 1",
        said="With the KL risk the expected divergence of the average from the optimum is at most epsilon / c.",
        found=found,
        holds=holds,
        caveat="The divergence is KL((1 - gamma) lam_bar || (1 - gamma) lam*), in this direction, of the average and "
        f"not of the policy read off it; lam* is solved to a relative gap of {solved_to}.",
        numbers=numbers,
    )


def large_caution(curves: Sequence[GapCurve]) -> PaperClaim:
    """The remark after Corollary 1, at a fixed number of samples."""
    last = {one.instance.problem.caution: one.numbers["divergence"][-1] for one in curves}
    falls = [interval(np.log(last[more] / last[c])) for c, more in pairwise(last)]
    means = ends(curves, "divergence")
    limits = {c: float(one.numbers["divergence_bound"][-1, 0]) for c, one in zip(last, curves, strict=True)}
    return PaperClaim(
        place="Corollary 1, the remark after it",
        said="The divergence may be made small by a large caution c.",
        found=f"After {curves[0].samples[-1]:,} samples the divergence is {_listed(means)}. The bound epsilon / c: "
        + ", ".join(f"{limit:.0f} at c = {c:g}" for c, limit in limits.items())
        + ".",
        holds=all(one.high < 0 for one in falls),
        caveat="Judged by whether each step to a larger caution lowers the divergence at the same T. epsilon grows "
        "like 1 + c sigma, so epsilon / c does not vanish: it falls to a limit, and only more samples lower that.",
        numbers={**_titled("divergence", means), **{f"epsilon / c at c = {c:g}": limit for c, limit in limits.items()}},
    )


def _bounded(curves: Sequence[GapCurve], number: str, mean: str) -> tuple[str, bool, dict[str, Interval | float]]:
    """A number against its bound, in the mean, and with the measured gap for epsilon in every single run."""
    holds, (least, most) = bound_holds(curves, number, f"{number}_bound"), looseness(curves, number, f"{number}_bound")
    sharp = float(max((one.numbers[number] / one.numbers[f"{number}_allowed"]).max() for one in curves))
    found = (
        f"{_verdict(curves, holds)} The bound is {least:.0f} to {most:.0f} times the {mean}. With the measured gap for "
        f"epsilon, a single run takes at most {sharp:.2f} of the bound."
    )
    numbers: dict[str, Interval | float] = {
        f"bound over {number}, least": least,
        f"bound over {number}, most": most,
        "largest share of the bound with the measured gap": sharp,
    }
    return found, holds and sharp <= 1, numbers


def _verdict(curves: Sequence[GapCurve], holds: bool) -> str:
    points = sum(len(one.samples) for one in curves)
    where = f"at all {points} points" if holds else f"at some of {points} points"
    return f"The mean over seeds, with its interval, is {'below' if holds else 'NOT below'} the bound {where}."


def _listed(numbers: dict[str, Interval]) -> str:
    return "; ".join(f"{value} ({name})" for name, value in numbers.items())


def _titled(title: str, numbers: dict[str, Interval]) -> dict[str, Interval]:
    return {f"{title}, {name}": value for name, value in numbers.items()}


def _content(curves: Sequence[GapCurve]) -> str:
    """From where on the bound says more than the range of returns does."""
    telling = {}
    for one in curves:
        mdp = one.instance.problem.mdp
        low, high = mdp.simulator().reward_range
        limit = (high - low) / (1 - mdp.discount)
        below = np.flatnonzero(one.numbers["bound"][:, 0] < limit)
        telling[one.instance.name] = one.samples[below[0]] if below.size else None
    named = [f"{name} from T = {samples:,}" for name, samples in telling.items() if samples is not None]
    where = f"only for {', '.join(named)}" if named else "at none of these T"
    return f"The bound is below the range of returns {where}."
