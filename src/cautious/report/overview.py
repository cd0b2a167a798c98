"""``write_overview``: several cautions on one page, what each costs and buys, and where its own page is."""

import os
from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

from cautious.errors import InputError
from cautious.report import pieces, trade
from cautious.report.canvas import require_matplotlib
from cautious.report.files import write_bytes
from cautious.report.plots import plot_behaviour, plot_frontier
from cautious.report.recipe import frontier_reproduction
from cautious.report.tables import frontier_table, steps_table
from cautious.report.words import KINDS, number, problem_words, scene_of
from cautious.solution import Solution, Status

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
    last = solutions[-1]
    title = scene_of(last.mdp).title
    price = f"{number(solutions[0].caution)} to {number(last.caution)}"
    parts = [
        _header(solutions, title),
        pieces.section("The problem", pieces.paragraphs(problem_words(last, price))),
        pieces.section("Return against risk", pieces.table(frontier_table(solutions)), _frontier(solutions)),
        _prices(solutions),
        _behaviours(solutions, pages or {}),
        pieces.section("How sure is this", pieces.definitions(_proofs(solutions))),
        pieces.section("How to reproduce it", pieces.code(frontier_reproduction(solutions, command))),
    ]
    write_bytes(path, pieces.document(title, "\n".join(part for part in parts if part)))


def _header(solutions: Sequence[Solution], title: str) -> str:
    proved = sum(one.status is Status.SOLVED for one in solutions)
    tone, verdict = ("good", "all proved best")
    if proved < len(solutions):
        tone, verdict = "warn", f"{proved} of {len(solutions)} proved best"
    badge = f'<span class="badge {tone}">{verdict}</span>'
    answer = pieces.paragraphs([_answer(solutions)], "lead")
    return f"<header>\n<h1>{escape(title)}: what caution costs and buys</h1>\n{badge}\n{answer}\n</header>"


def _answer(solutions: Sequence[Solution]) -> str:
    points = [here for one in solutions if (here := trade.point(one)) is not None]
    if not points:
        return "No policy with a finite risk was found."
    first, last, mdp = points[0], points[-1], solutions[-1].mdp
    if len(points) == 1:
        return (
            f"At caution {number(first.caution)} the expected return is {number(first.expected_return, 4)} "
            f"({scene_of(mdp).reward_unit}, discounted), at a risk of {number(first.risk, 4)}."
        )
    return (
        f"From caution {number(first.caution)} to {number(last.caution)} the expected return goes from "
        f"{number(first.expected_return, 4)} to {number(last.expected_return, 4)} "
        f"({scene_of(mdp).reward_unit}, discounted), and the risk {solutions[-1].risk_label} from "
        f"{number(first.risk, 4)} to {number(last.risk, 4)}."
    )


def _frontier(solutions: Sequence[Solution]) -> str:
    return pieces.picture(
        lambda theme: plot_frontier(solutions, theme=theme),
        "Expected return against risk, one point per caution",
        "One point per caution: up is more return, left is less risk.",
    )


def _prices(solutions: Sequence[Solution]) -> str:
    steps = trade.steps([trade.point(one) for one in solutions])
    if not steps:
        return ""
    best = min((one for one in steps if one.price is not None), key=lambda one: one.price or 0.0, default=None)
    words = []
    if best is not None:
        words.append(
            f"From caution {number(best.before.caution)} to {number(best.after.caution)}: gives up "
            f"{number(best.given_up, 3)} return for {number(best.removed, 3)} less risk. No step is cheaper."
        )
    note = "Between best policies, what a step costs per unit of risk lies between its two cautions."
    return pieces.section(
        "What each step of caution buys",
        pieces.paragraphs(words),
        pieces.table(steps_table(steps)),
        pieces.paragraphs([note], "soft"),
    )


def _behaviours(solutions: Sequence[Solution], pages: Mapping[float, str]) -> str:
    places = np.unique(np.linspace(0, len(solutions) - 1, min(DRAWN, len(solutions))).round().astype(int))
    drawn = [_behaviour(solutions[place], solutions, pages) for place in places]
    words = ["All are drawn on one scale."] if len(drawn) > 1 else []
    if len(drawn) < len(solutions):
        words.append(f"{len(drawn)} of the {len(solutions)} policies are shown.")
    return pieces.section("What the policies do", pieces.paragraphs([" ".join(words)]), pieces.figures(*drawn))


def _behaviour(solution: Solution, among: Sequence[Solution], pages: Mapping[float, str]) -> str:
    caption = f"Caution {number(solution.caution)}: expected return {number(solution.expected_return, 4)}"
    drawn = pieces.picture(
        lambda theme: plot_behaviour(solution, among=among, theme=theme),
        f"Behaviour at caution {number(solution.caution)}",
        caption,
    )
    target = pages.get(solution.caution)
    return drawn if target is None else f"<div>{drawn}\n{pieces.link(target, 'its report')}</div>"


def _proofs(solutions: Sequence[Solution]) -> list[tuple[str, str]]:
    kinds = sorted({one.certificate.kind for one in solutions})
    proved = sum(one.status is Status.SOLVED for one in solutions)
    rows = [
        ("Proved best", f"{proved} of {len(solutions)} policies, each up to its gap"),
        (f"Largest {'first-order ' * ('stationary' in kinds)}gap", number(max(one.gap for one in solutions), 3)),
        *((f"Kind of proof: {kind}", KINDS.get(kind, "")) for kind in kinds),
    ]
    rows += [
        (f"Caution {number(one.caution)}", f"{one.status.value}. {one.certificate.statement}")
        for one in solutions
        if one.status is not Status.SOLVED
    ]
    return [*rows, ("Time", f"{number(sum(one.seconds for one in solutions), 3)} s")]
