"""``write_overview``: several cautions on one page, what each costs and buys, and where its own page is.

Neighbouring cautions whose policies do the same are shown once: the page says where the policy changes.
"""

import os
from collections.abc import Mapping, Sequence
from html import escape
from itertools import pairwise

from cautious.errors import InputError
from cautious.report import pieces, trade
from cautious.report.accuracy import shown_return
from cautious.report.canvas import require_matplotlib
from cautious.report.choices import Run, choices, runs, spread_out
from cautious.report.demands import demand_words
from cautious.report.plots import plot_behaviour, plot_frontier
from cautious.report.proofs import KINDS
from cautious.report.reproduction_code import frontier_reproduction
from cautious.report.text_tables import frontier_table, steps_table
from cautious.report.words import amount, fits_grid, is_logged, number, problem_words, scene_of, unit_after
from cautious.report.writing import write_bytes
from cautious.solution import Solution
from cautious.status import Status

# more maps than this are a long page and no clearer
DRAWN = 6


def write_overview(
    solutions: Sequence[Solution],
    path: str | os.PathLike[str],
    *,
    pages: Mapping[float, str] | None = None,
    command: str | None = None,
) -> None:
    """Write one self-contained page that compares solutions along caution.

    Parameters
    ----------
    solutions
        At least one, from small to large caution, all of one model and one risk.
    path
        Where to write.
    pages
        File name, in the same folder, of each caution's own report.
    command
        A shell command that reproduces the page.

    Raises
    ------
    MissingExtraError
        Without matplotlib; ``pip install "cautious[plot]"`` brings it.
    """
    if not solutions:
        raise InputError("a report on a frontier needs at least one solution; this frontier is empty")
    require_matplotlib()
    last, found = solutions[-1], runs(solutions)
    title, unit = scene_of(last.mdp).title, unit_after(last.mdp)
    price = f"{number(solutions[0].caution)} to {number(last.caution)}"
    words = [*problem_words(last, price), *demand_words(last, with_reached=False)]
    parts = [
        _header(solutions, found, title),
        pieces.section("The problem", pieces.paragraphs(words)),
        pieces.section("Return against risk", pieces.table(frontier_table(solutions, unit)), _frontier(solutions)),
        _prices(found, unit),
        _behaviours(found, pages or {}),
        pieces.section("How sure is this", pieces.definitions(_proofs(solutions))),
        pieces.section("How to reproduce it", pieces.code(frontier_reproduction(solutions, command))),
    ]
    write_bytes(path, pieces.document(title, "\n".join(part for part in parts if part)))


def _header(solutions: Sequence[Solution], found: Sequence[Run], title: str) -> str:
    proved = sum(one.status is Status.SOLVED for one in solutions)
    tone, verdict = ("good", "all proved best")
    if proved < len(solutions):
        tone, verdict = "warn", f"{proved} of {len(solutions)} proved best"
    verdict += " for the counted model" * is_logged(solutions[-1].mdp)
    badge = f'<span class="badge {tone}">{verdict}</span>'
    answer = pieces.paragraphs([_answer(solutions, found)], "lead")
    return f"<header>\n<h1>{escape(title)}: what caution costs and buys</h1>\n{badge}\n{answer}\n</header>"


def _answer(solutions: Sequence[Solution], found: Sequence[Run]) -> str:
    points = [here for one in solutions if (here := trade.point(one)) is not None]
    if not points:
        return "No policy with a finite risk was found."
    first, last, unit = points[0], points[-1], scene_of(solutions[-1].mdp).reward_unit
    if len(points) == 1 or len(found) == 1:
        where = f"At caution {number(first.caution)}"
        if len(points) > 1:
            where = f"From caution {number(first.caution)} to {number(last.caution)} the policy stays the same:"
        return (
            f"{where} the expected return is {number(first.expected_return, 4)} ({unit}, discounted), at a risk of "
            f"{number(first.risk, 4)}."
        )
    return (
        f"From caution {number(first.caution)} to {number(last.caution)} the expected return goes from "
        f"{number(first.expected_return, 4)} to {number(last.expected_return, 4)} ({unit}, discounted), and the risk "
        f"{solutions[-1].risk_label} from {number(first.risk, 4)} to {number(last.risk, 4)}."
    )


def _frontier(solutions: Sequence[Solution]) -> str:
    return pieces.picture(
        lambda theme: plot_frontier(solutions, theme=theme),
        "Expected return against risk, one point per caution",
        "One point per caution: up is more return, left is less risk.",
    )


def _prices(found: Sequence[Run], unit: str) -> str:
    known = [points for run in found if (points := _points(run))]
    steps = [trade.Step(before[-1], after[0]) for before, after in pairwise(known)]
    if not steps:
        return ""
    best = min((one for one in steps if one.price is not None), key=lambda one: one.price or 0.0, default=None)
    words = []
    if best is not None:
        words.append(
            f"The step from caution {number(best.before.caution)} to {number(best.after.caution)} gives up "
            f"{amount(best.given_up, found[0].first.mdp, 3)} of return for "
            f"{number(best.removed, 3)} less risk. No step is cheaper."
        )
    note = "Between best policies, what a step costs per unit of risk lies between its two cautions."
    if any(len(run.solutions) > 1 for run in found):
        note += " Steps that change nothing are left out."
    return pieces.section(
        "What each step of caution buys",
        pieces.paragraphs(words),
        pieces.table(steps_table(steps, unit)),
        pieces.paragraphs([note], "soft"),
    )


def _points(run: Run) -> list[trade.Point]:
    """Its cautions whose risk is known."""
    return [here for one in run.solutions if (here := trade.point(one)) is not None]


def _behaviours(found: Sequence[Run], pages: Mapping[float, str]) -> str:
    drawn = spread_out(found, DRAWN)
    words = ["All are drawn on one scale."] if len(drawn) > 1 else []
    if len(drawn) < len(found):
        words.append(f"{len(drawn)} of the {len(found)} policies are shown.")
    pictures = pieces.figures(*(_behaviour(run, [one.first for one in found], pages) for run in drawn))
    done = "" if fits_grid(found[0].first.mdp) else _choices(found)
    return pieces.section("What the policies do", done, pieces.paragraphs([" ".join(words)]), pictures)


def _choices(found: Sequence[Run]) -> str:
    """What is done in each state, caution by caution."""
    done = choices(found)
    notes = ["Bold: another choice than before."] if done.changed else []
    notes += ["A dash: next to no time is spent there."] if done.shows_gaps else []
    soft = pieces.paragraphs([" ".join(notes)], "soft") if notes else ""
    return "\n".join([pieces.paragraphs([done.words]), pieces.table(done.table, done.changed), soft])


def _behaviour(run: Run, among: Sequence[Solution], pages: Mapping[float, str]) -> str:
    drawn = pieces.picture(
        lambda theme: plot_behaviour(run.first, among=among, theme=theme),
        f"Behaviour at caution {run.name}",
        f"Caution {run.name}: expected return {amount(shown_return(run.first), run.first.mdp, 4)}",
    )
    links = [
        pieces.link(pages[one.caution], "its report" if len(run.solutions) == 1 else f"report at {number(one.caution)}")
        for one in run.solutions
        if one.caution in pages
    ]
    return f"<div>{drawn}\n{' '.join(links)}</div>" if links else drawn


def _largest_gap(solutions: Sequence[Solution]) -> str:
    return amount(max(one.gap for one in solutions), solutions[0].mdp, 3)


def _proofs(solutions: Sequence[Solution]) -> list[tuple[str, str]]:
    kinds = sorted({one.certificate.kind for one in solutions})
    proved = sum(one.status is Status.SOLVED for one in solutions)
    rows = [
        ("Proved best", f"{proved} of {len(solutions)} policies, each up to its gap"),
        (f"Largest {'first-order ' * ('stationary' in kinds)}gap", _largest_gap(solutions)),
        *((f"Kind of proof: {kind}", KINDS.get(kind, "")) for kind in kinds),
    ]
    rows += [
        (f"Caution {number(one.caution)}", f"{one.status.value}. {one.certificate.statement}")
        for one in solutions
        if one.status is not Status.SOLVED
    ]
    return [*rows, ("Time", f"{number(sum(one.seconds for one in solutions), 3)} s")]
