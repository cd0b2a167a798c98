"""``write_overview``: several cautions on one page, what each costs and buys, and where its own page is."""

import os
from collections.abc import Mapping, Sequence
from html import escape

from cautious.problem import Problem
from cautious.report import pieces
from cautious.report.compare import known_risks
from cautious.report.files import write_bytes
from cautious.report.plots import plot_behaviour, plot_frontier
from cautious.report.tables import frontier_table
from cautious.report.words import number, problem_words, scene_of
from cautious.solution import Solution


def write_overview(
    solutions: Sequence[Solution],
    path: str | os.PathLike[str],
    *,
    problem: Problem | None = None,
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
    problem
        Gives the risk of a solution with caution 0, as in ``plot_frontier``.
    pages
        File name, in the same folder, of each caution's own report.
    command
        A shell command that reproduces the page.
    """
    last = solutions[-1]
    title = scene_of(last.mdp).title
    price = f"{number(solutions[0].caution)} to {number(last.caution)}"
    parts = [
        f"<header>\n<h1>{escape(title)}: what caution costs and buys</h1>\n"
        f"{pieces.paragraphs([_answer(solutions, problem)], 'lead')}\n</header>",
        pieces.section("The problem", pieces.paragraphs(problem_words(last, price))),
        pieces.section("Return against risk", pieces.table(frontier_table(solutions, problem))),
        pieces.picture(
            lambda theme: plot_frontier(solutions, problem=problem, theme=theme),
            "Expected return against risk, one point per caution",
            "One point per caution: up is more return, left is less risk.",
        ),
        pieces.section("What the policies do", pieces.figures(*(_behaviour(one, pages or {}) for one in solutions))),
    ]
    if command is not None:
        parts.append(pieces.section("How to reproduce it", pieces.code(command)))
    write_bytes(path, pieces.document(title, "\n".join(parts)))


def _answer(solutions: Sequence[Solution], problem: Problem | None) -> str:
    first, last = solutions[0], solutions[-1]
    before, after = (known_risks(solutions, problem)[index] for index in (0, -1))
    return (
        f"From caution {number(first.caution)} to {number(last.caution)} the expected return goes from "
        f"{number(first.expected_return, 4)} to {number(last.expected_return, 4)} "
        f"({scene_of(last.mdp).reward_unit}, discounted), and the risk {last.risk_label} from {number(before, 4)} to "
        f"{number(after, 4)}."
    )


def _behaviour(solution: Solution, pages: Mapping[float, str]) -> str:
    caption = f"Caution {number(solution.caution)}: expected return {number(solution.expected_return, 4)}"
    drawn = pieces.picture(
        lambda theme: plot_behaviour(solution, theme=theme), f"Behaviour at caution {number(solution.caution)}", caption
    )
    target = pages.get(solution.caution)
    return drawn if target is None else f"<div>{drawn}\n{pieces.link(target, 'its report')}</div>"
