"""``write_report``: one self-contained HTML page about a Solution, for people who were not there."""

import os
import re
from html import escape
from importlib.metadata import version

from cautious.problem import Problem
from cautious.report import pieces
from cautious.report.canvas import require_matplotlib
from cautious.report.compare import Comparison, compare
from cautious.report.files import write_bytes
from cautious.report.plots import plot_behaviour, plot_returns
from cautious.report.tables import busiest_table, comparison_table
from cautious.report.words import (
    answer_sentence,
    certificate_words,
    fits_grid,
    is_learned,
    is_neutral,
    number,
    problem_words,
    scene_of,
    source,
    verdict,
)
from cautious.solution import Solution, Status

NO_DATA = {"Variance", "Entropy"}
WITH_DATA = {"SafeSet", "TaskFloors", "PeakExposure", "WorstTask", "KL", "TotalVariation", "Quadratic", "Wasserstein"}


def write_report(
    solution: Solution,
    path: str | os.PathLike[str],
    *,
    problem: Problem | None = None,
    command: str | None = None,
    seed: int = 0,
) -> None:
    """Write a page about a solution: the problem, the answer, the proof, drawings, how to reproduce it.

    Parameters
    ----------
    solution
        What ``ca.solve`` returned.
    path
        Where to write; one file, nothing is loaded from elsewhere when it is opened.
    problem
        The problem it solves. Only needed to state the risk of the risk-neutral policy when the risk carries data
        (a prior, sets, tasks), which a solution does not keep.
    command
        A shell command that reproduces the run, shown beside the code.
    seed
        Of the simulated episodes.

    Raises
    ------
    MissingExtraError
        Without matplotlib; ``pip install cautious[plot]`` brings it.
    """
    require_matplotlib()
    comparison = compare(solution, problem, seed=seed)
    write_bytes(path, pieces.document(scene_of(solution.mdp).title, _body(comparison, command)))


def _body(comparison: Comparison, command: str | None) -> str:
    solution = comparison.solution
    return "\n".join(
        [
            _header(comparison),
            pieces.section("The problem", pieces.paragraphs(problem_words(solution))),
            pieces.section(
                "This policy" if is_neutral(solution) else "Next to the policy nobody is cautious about",
                pieces.table(comparison_table(comparison)),
                pieces.paragraphs([_episodes(comparison)], "soft"),
            ),
            pieces.section("What the policy does", pieces.figures(_behaviour(solution), _returns(comparison))),
            pieces.section("Where it spends its time", pieces.table(busiest_table(solution))),
            pieces.section("How sure is this", pieces.definitions(certificate_words(solution))),
            pieces.section("How to reproduce it", pieces.code(reproduction(solution, command))),
            f"<footer>Written by cautious {version('cautious')}.</footer>",
        ]
    )


def _header(comparison: Comparison) -> str:
    solution = comparison.solution
    tone = "good" if solution.status is Status.SOLVED else "warn"
    facts = [("expected return", number(solution.expected_return))]
    if not is_neutral(solution):
        facts += [(f"risk: {solution.risk_label}", number(solution.risk)), ("caution", number(solution.caution))]
    if solution.status is not Status.INFEASIBLE:
        facts.append(("gap to the best possible", number(solution.gap, 2)))
    answer = answer_sentence(solution, comparison.neutral_return, comparison.neutral_risk)
    title = escape(scene_of(solution.mdp).title)
    return (
        f'<header>\n<h1>{title}</h1>\n<span class="badge {tone}">{escape(verdict(solution))}</span>\n'
        f"{pieces.paragraphs([answer], 'lead')}\n{pieces.cards(facts)}\n</header>"
    )


def _episodes(comparison: Comparison) -> str:
    one = comparison.chosen
    computed = "are computed from the model"
    if is_learned(comparison.solution):
        computed = "are those of the model that was counted, as if it were the true one"
    return (
        f"{source(comparison.solution).capitalize()} figures {computed}. Simulated ones come from "
        f"{one.episodes:,} episodes of {one.horizon:,} steps (seed {one.seed}); what lies beyond changes a return by "
        f"at most {number(one.truncation_error, 2)}."
    )


def _behaviour(solution: Solution) -> str:
    alt, caption = "Bars of the most visited states", "The states that are visited most."
    if fits_grid(solution.mdp):
        alt = "Map of the visited cells with the policy's actions as arrows"
        caption = (
            "Share of discounted time per cell; walls are grey, cells that are never visited are blank. Arrows show "
            "the actions of at least 10 %, longer where they are more likely."
        )
    return pieces.picture(lambda theme: plot_behaviour(solution, theme=theme), alt, caption)


def _returns(comparison: Comparison) -> str:
    caption = "What single episodes earn, simulated."
    return pieces.picture(
        lambda theme: plot_returns(comparison, theme=theme), "Histogram of the returns of episodes", caption
    )


def reproduction(solution: Solution, command: str | None = None) -> str:
    """Code that leads to this solution again."""
    lines = [] if command is None else [f"# on the command line: {command}", ""]
    learned = is_learned(solution)
    arguments = "simulator" if learned else "mdp"
    data_note = ""
    if not is_neutral(solution):
        recipe = " + ".join(_risk_code(part) for part in solution.risk_label.split(" + "))
        arguments += f", {recipe}, caution={solution.caution!r}"
        data_note = "    # ...: the data you gave the risk" if "..." in recipe else ""
    if learned:
        facts = solution.certificate.facts
        run = f'samples={facts.get("budget")}, method="{solution.method}", seed={facts.get("seed")}'
        return "\n".join([*lines, "import cautious as ca", "", f"learned = ca.learn({arguments}, {run}){data_note}"])
    lines += [
        "import cautious as ca",
        "",
        'mdp = ca.read_model("model.npz")    # the model of this page: solution.mdp.save("model.npz")',
        f"problem = ca.Problem({arguments}){data_note}",
        f"solution = ca.solve(problem, tolerance={solution.tolerance!r})",
        'solution.report("report.html")',
    ]
    return "\n".join(lines)


def _risk_code(part: str) -> str:
    weight, _, name = part.rpartition("*")
    kind = re.split(r"[ (]", name, maxsplit=1)[0]
    if kind in NO_DATA:
        text = f"ca.{kind}()"
    elif kind in WITH_DATA:
        text = f"ca.{kind}(...)"
    else:
        text = f"ca.{name}" if kind == "CVaR" else f"{kind}(...)"
    return f"{weight} * {text}" if weight else text
