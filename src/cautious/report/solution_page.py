"""``write_report``: one self-contained HTML page about a Solution, for people who were not there."""

import dataclasses
import os
from html import escape

import numpy as np

from cautious.errors import InputError
from cautious.models.tabular import MDP
from cautious.problem import Problem
from cautious.report import pieces, sections
from cautious.report.accuracy import shown_return, shown_risk
from cautious.report.answer import answer_sentence
from cautious.report.canvas import require_matplotlib
from cautious.report.demands import demand_words
from cautious.report.neutral_comparison import Comparison, compare
from cautious.report.proofs import certificate_words, verdict
from cautious.report.reproduction_code import reproduction
from cautious.report.words import amount, is_neutral, number, problem_words, scene_of
from cautious.report.writing import write_bytes
from cautious.runtime.interruption import leaving_at_once
from cautious.solution import Solution
from cautious.status import Status

ROUNDING = 1e-12


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
        What ``ca.solve`` or ``ca.learn`` returned.
    path
        Where to write; one file, nothing is loaded from elsewhere when it is opened.
    problem
        The problem of a solution that was loaded from a file. Without it the page says nothing about the risk of
        other policies.
    command
        A shell command that reproduces the run, shown beside the code.
    seed
        Of the simulated episodes.

    Raises
    ------
    MissingExtraError
        Without matplotlib; ``pip install "cautious[plot]"`` brings it.
    InputError
        When ``problem`` is not the one this solution solves.
    """
    require_matplotlib()
    known = solution if problem is None else _with_problem(solution, problem)
    with leaving_at_once():
        comparison = compare(known, seed=seed) if known.mdp.known_transitions else None
        content = pieces.document(scene_of(known.mdp).title, _body(known, comparison, command))
    write_bytes(path, content)


def _with_problem(solution: Solution, problem: Problem) -> Solution:
    """The solution with its problem, which must be the one it solves."""
    if not isinstance(problem, Problem):
        raise InputError(f"problem must be a ca.Problem, found {type(problem).__name__}")
    for name, asked, own in (
        ("caution", problem.caution, solution.caution),
        ("shape (S, A)", problem.mdp.shape, solution.mdp.shape),
    ):
        if asked != own:
            raise InputError(f"problem has the {name} {asked}; this solution is of a problem with {own}")
    if not _same_model(problem.mdp, solution.mdp):
        raise InputError("problem has another model than this solution: its transitions, rewards or start differ")
    there = problem.risk_value(solution.occupancy)
    if np.isfinite(solution.risk) and not np.isclose(there, solution.risk, rtol=1e-6, atol=1e-9):
        raise InputError(
            f"problem gives this policy the risk {there:.9g}, but the solution has {solution.risk:.9g} "
            f"({solution.risk_label}); give the problem it solves"
        )
    return dataclasses.replace(solution, problem=problem)


def _same_model(one: MDP, other: MDP) -> bool:
    """Whether two models of one shape are the same up to rounding; files keep every digit."""
    moves = abs(one.transitions - other.transitions).max()
    pairs = ((one.rewards, other.rewards), (one.start, other.start))
    return (
        one.discount == other.discount
        and moves <= ROUNDING
        and all(np.allclose(a, b, rtol=ROUNDING, atol=ROUNDING) for a, b in pairs)
    )


def _body(solution: Solution, comparison: Comparison | None, command: str | None) -> str:
    parts = [
        _header(solution, comparison),
        pieces.section("The problem", pieces.paragraphs([*problem_words(solution), *demand_words(solution)])),
        sections.conflict(solution),
        sections.requirements(solution),
        sections.figures_of(solution, comparison),
        sections.behaviour(solution, comparison),
        sections.changes(comparison),
        sections.carried(solution),
        sections.price_of_caution(solution, comparison),
        sections.course(solution),
        pieces.section("How sure is this", pieces.definitions(certificate_words(solution))),
        pieces.section("How to reproduce it", pieces.code(reproduction(solution, command))),
    ]
    return "\n".join(part for part in parts if part)


def _header(solution: Solution, comparison: Comparison | None) -> str:
    tone = "good" if solution.status is Status.SOLVED else "warn"
    facts = [("expected return", amount(shown_return(solution), solution.mdp))]
    if not is_neutral(solution):
        facts += [(f"risk: {solution.risk_label}", number(shown_risk(solution))), ("caution", number(solution.caution))]
    if solution.status is not Status.INFEASIBLE:
        what = "first-order gap" if solution.certificate.kind == "stationary" else "gap to the best possible"
        facts.append((what, amount(solution.gap, solution.mdp, 2) if np.isfinite(solution.gap) else "not known"))
    title = escape(scene_of(solution.mdp).title)
    return (
        f'<header>\n<h1>{title}</h1>\n<span class="badge {tone}">{escape(verdict(solution))}</span>\n'
        f"{pieces.paragraphs([answer_sentence(solution, comparison)], 'lead')}\n{pieces.cards(facts)}\n</header>"
    )
