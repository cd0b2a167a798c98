"""The claims of Figure 4, judged by a ``PriorStudy``: faster learning with a prior, and less time in dark cells."""

from collections.abc import Mapping, Sequence

from cautious.paper.evidence import Claim, Interval
from cautious.paper.prior_curves import (
    LearningCurve,
    Speed,
    compare_speed,
    dark_avoided,
    ends_higher,
    mean_gain,
    overtaken_at,
)
from cautious.paper.prior_study import EARLY, LEAST_LOOKS, LEVEL, MULTIPLIER_STEPS, OCCUPANCY_STEPS, PriorStudy

# the parts of a run at which the time in dark cells is compared
MOMENTS = (1 / LEAST_LOOKS, EARLY, 1.0)


def claims(found: PriorStudy) -> tuple[Claim, ...]:
    """All claims of the figure."""
    return faster(found), less_dark(found), other_learner(found)


def faster(found: PriorStudy) -> Claim:
    """Whether the prior speeds up Algorithm 1: it reaches a common level sooner, and is better early on."""
    neutral = found.printed[0.0]
    speeds = {c: compare_speed(neutral, found.printed[c], found.level) for c in found.cautions}
    gains = {c: mean_gain(neutral, found.printed[c], found.early) for c in found.cautions}
    text = (
        f"{_times(found, speeds, 'Iterations')} Mean return over the first {found.early:,.0f} iterations, minus the "
        f"neutral learner's: {_each(gains)}."
    )
    return Claim(
        place="Section 6.2, Figure 4a",
        said="With the prior, Algorithm 1 learns faster.",
        found=text,
        holds=all(one.saved.low > 0 for one in speeds.values()) and all(one.low > 0 for one in gains.values()),
        caveat=" ".join((_ending(found, found.printed, "iterations"), _control(found, gains), _steps(found))),
        numbers={
            "level of return": found.level,
            **_speed_numbers(speeds),
            **{f"early gain in return, caution {c:g}": one for c, one in gains.items()},
            **{f"return at the end, neutral minus caution {c:g}": one for c, one in _ends(found.printed).items()},
        },
    )


def less_dark(found: PriorStudy) -> Claim:
    """Whether the prior keeps Algorithm 1 out of dark cells, all along."""
    avoided = _avoided(found.printed, [part * found.size.samples for part in MOMENTS])
    best = " and ".join(f"{100 * found.optimum[c].dark:.1f} % (caution {c:g})" for c in found.cautions)
    control = dark_avoided(found.printed[0.0], found.control, found.early)
    return Claim(
        place="Section 6.2, Figure 4b",
        said="With the prior, less time is spent in unrewarding states.",
        found=f"Less than the neutral learner, in percentage points: {_moments(avoided, 'iterations')}.",
        holds=_all_less(avoided),
        caveat=(
            f"Part of it belongs to the problem and not to learning: the best policies spend "
            f"{100 * found.optimum[0.0].dark:.1f} % (neutral), {best} of their time there. Every learner begins with "
            f"the {100 * found.blank.dark:.0f} % of the uniform policy. KL to the uniform distribution instead of the "
            f"prior (caution {min(found.cautions):g}) makes a difference of {control.percent} points after "
            f"{found.early:,.0f} iterations."
        ),
        numbers=_avoided_numbers(avoided),
    )


def other_learner(found: PriorStudy) -> Claim:
    """Whether both claims also hold for our learner: then they belong to the formulation."""
    speeds = {c: compare_speed(found.ours[0.0], found.ours[c], found.level) for c in found.cautions}
    avoided = _avoided(found.ours, found.size.budgets)
    closest = min(avoided, key=lambda at: min(one.mean for one in avoided[at].values()))
    shown = {at: avoided[at] for at in sorted({min(avoided), closest, max(avoided)})}
    text = (
        f"{_times(found, speeds, 'Samples')} Time in dark cells, less than the neutral learner in percentage points, "
        f"at first, where it is closest, and at last: {_moments(shown, 'samples')}."
    )
    printed = compare_speed(found.printed[0.0], found.ours[0.0], found.level)
    return Claim(
        place="Section 6.2, Figure 4",
        of_paper=False,
        said=(
            "If faster learning and less time in unrewarding states belong to the formulation and not to Algorithm 1, "
            "both must also show with our learner (primal-dual)."
        ),
        found=text,
        holds=all(one.saved.low > 0 for one in speeds.values()) and _all_less(avoided),
        caveat=(
            f"{_ending(found, found.ours, 'samples')} Without any prior our learner "
            f"reaches the level with {_thousands(printed.second)} thousand samples, Algorithm 1 with "
            f"{_thousands(printed.first)} thousand."
        ),
        numbers={
            **_speed_numbers(speeds),
            **_avoided_numbers(avoided),
            **{f"return at the end, neutral minus caution {c:g}": one for c, one in _ends(found.ours).items()},
        },
    )


def _times(found: PriorStudy, speeds: Mapping[float, Speed], unit: str) -> str:
    """How long each learner takes, what is saved, and who never gets there."""
    least = min(one.earned for one in found.optimum.values())
    seeds = len(found.printed[0.0])
    first = next(iter(speeds.values()))
    takes = [f"{_thousands(first.first)} (neutral)"]
    takes += [f"{_thousands(one.second)} (caution {c:g})" for c, one in speeds.items()]
    saved = ", ".join(f"{_thousands(one.saved)} (caution {c:g})" for c, one in speeds.items())
    never = [f"{first.never[0]} (neutral)", *(f"{one.never[1]} (caution {c:g})" for c, one in speeds.items())]
    return (
        f"{unit} until the policy's return first reaches {found.level:.2f}, which is {100 * LEVEL:g} % of the smallest "
        f"optimum, {least:.2f}, in thousands: {', '.join(takes)}. Saved, seed by seed: {saved}. Seeds that never reach "
        f"it, counted with all their {unit.lower()}: {', '.join(never)} of {seeds}."
    )


def _ending(found: PriorStudy, curves: Mapping[float, Sequence[LearningCurve]], unit: str) -> str:
    """Where it does not hold: the best policy with a prior earns less, so the neutral learner wins in the end."""
    optima = ", ".join(f"{found.optimum[c].earned:.2f} ({_name(c)})" for c in (0.0, *found.cautions))
    passed = []
    for c in found.cautions:
        when = overtaken_at(curves[0.0], curves[c])
        words = "is not ahead at the end" if when is None else f"is ahead from {when:,.0f} {unit} to the end"
        passed.append(f"{words} (caution {c:g})")
    last = int(curves[0.0][0].samples[-1])
    return (
        f"Learning faster is not learning better: the optima are {optima}. After {last:,} {unit} the "
        f"neutral learner's return minus the cautious one's is {_each(_ends(curves))}; on average it "
        f"{' and '.join(passed)}."
    )


def _control(found: PriorStudy, gains: Mapping[float, Interval]) -> str:
    """Whether any KL would do."""
    caution = min(found.cautions)
    control = mean_gain(found.printed[0.0], found.control, found.early)
    verdict = " The gain is due to what the prior knows." if control.high < gains[caution].low else ""
    return (
        f"KL to the uniform distribution instead of the prior (caution {caution:g}) changes the early mean return by "
        f"{control}.{verdict}"
    )


def _steps(found: PriorStudy) -> str:
    """Which steps were used, and what Theorem 1's do."""
    method = found.tuning.method
    theory = ", ".join(f"{one.earned:.2f} ({_name(c)})" for c, one in found.theory.items())
    pairs = len(MULTIPLIER_STEPS) * len(OCCUPANCY_STEPS)
    return (
        f"All learners have the same steps, {method.multiplier_step:g} for the multipliers and "
        f"{method.occupancy_step:g} for the occupancy, without shifts: of {pairs} pairs those with which the neutral "
        "learner earns most over the run, on other seeds, so the choice favours it. (The best end of such a run with "
        f"any pair is {found.tuning.highest_end:.2f}.) With the steps and shifts of Theorem 1, one run of "
        f"{found.size.samples:,} iterations each ends at {theory}; the uniform policy earns "
        f"{found.blank.earned:.2f}."
    )


def _avoided(
    curves: Mapping[float, Sequence[LearningCurve]], moments: Sequence[float]
) -> dict[float, dict[float, Interval]]:
    """By moment and caution."""
    cautions = [c for c in curves if c > 0]
    return {at: {c: dark_avoided(curves[0.0], curves[c], at) for c in cautions} for at in moments}


def _ends(curves: Mapping[float, Sequence[LearningCurve]]) -> dict[float, Interval]:
    return {c: ends_higher(curves[0.0], curves[c]) for c in curves if c > 0}


def _all_less(avoided: Mapping[float, Mapping[float, Interval]]) -> bool:
    return all(one.low > 0 for by_caution in avoided.values() for one in by_caution.values())


def _moments(avoided: Mapping[float, Mapping[float, Interval]], unit: str) -> str:
    said = []
    for at, by_caution in avoided.items():
        points = ", ".join(f"{one.percent} (caution {c:g})" for c, one in by_caution.items())
        said.append(f"{points} after {at:,.0f} {unit}")
    return "; ".join(said)


def _speed_numbers(speeds: Mapping[float, Speed]) -> dict[str, Interval | float]:
    numbers: dict[str, Interval | float] = {}
    for c, one in speeds.items():
        numbers |= {"samples to the level, neutral": one.first, "seeds that never reach it, neutral": one.never[0]}
        numbers |= {f"samples to the level, caution {c:g}": one.second, f"samples saved, caution {c:g}": one.saved}
        numbers |= {f"seeds that never reach it, caution {c:g}": one.never[1]}
    return numbers


def _avoided_numbers(avoided: Mapping[float, Mapping[float, Interval]]) -> dict[str, Interval | float]:
    return {
        f"dark share avoided after {at:,.0f}, caution {c:g}": one
        for at, by_caution in avoided.items()
        for c, one in by_caution.items()
    }


def _each(intervals: Mapping[float, Interval]) -> str:
    return ", ".join(f"{one} (caution {c:g})" for c, one in intervals.items())


def _name(caution: float) -> str:
    return f"caution {caution:g}" if caution > 0 else "neutral"


def _thousands(one: Interval) -> str:
    return f"{one.mean / 1000:.3g} [{one.low / 1000:.3g}, {one.high / 1000:.3g}]"
