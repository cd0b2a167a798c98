"""A frontier over a limit: what every bound of one constraint costs, as a table, a drawing and a page."""

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cautious.errors import InputError
from cautious.models.horizons import AVERAGE, TOTAL
from cautious.regular_files import check_writable
from cautious.report import pieces
from cautious.report.canvas import LIGHT, Theme, dress_curves, new_figure, require_matplotlib, title
from cautious.report.limit_words import (
    is_idle,
    is_share,
    measure_text,
    measure_words,
    price_of_room,
    price_words,
    sense_words,
    shown_constraints,
)
from cautious.report.sentences import problem_words
from cautious.report.text_tables import Table
from cautious.report.words import amount, number, return_label, scene_of, unit_after
from cautious.report.writing import write_bytes
from cautious.solution import Solution
from cautious.status import Status


def limits_table(solutions: Sequence[Solution]) -> Table:
    """One row per bound: what the policy has, its return, what more room is worth, gap and status."""
    if not solutions:
        return Table("", ("limit",), ())
    solutions = _in_words(solutions)
    mdp, first = solutions[0].mdp, solutions[0].constraints[0]
    unit, room = unit_after(mdp), "point" if is_share(first) else "unit"
    # in the long run the return is that of a step, and until the end there is no number of steps
    by_step, rows = mdp.horizon not in (AVERAGE, TOTAL), []
    for one in solutions:
        (row,) = one.constraints
        price, solved = 0.0 if is_idle(row, one.gap) else price_of_room(row), np.isfinite(one.objective)
        rows.append(
            (
                f"{sense_words(row)} {measure_text(row, row.bound)}",
                measure_text(row, row.value),
                number(one.expected_return, 6) if solved else "",
                *([number(mdp.normaliser * one.expected_return, 4) if solved else ""] if by_step else []),
                number(price, 4) if np.isfinite(price) else "",
                number(one.gap, 2) if solved else "",
                one.status.name,
            )
        )
    steps = [f"per {scene_of(mdp).step}"] if by_step else []
    columns = ("limit", measure_words(first), f"expected return{unit}", *steps, f"worth per {room}")
    return Table("", (*columns, "gap", "status"), tuple(rows))


def _in_words(solutions: Sequence[Solution]) -> list[Solution]:
    """The solutions with their constraints as pages call them."""
    return [replace(one, constraints=tuple(shown_constraints(one))) for one in solutions]


def plot_limits(solutions: Sequence[Solution], *, theme: Theme = LIGHT) -> Any:
    """The expected return against the bound; points without a policy that keeps it are left out."""
    figure = new_figure(theme, 6.2, 4.4)
    axes = figure.subplots()
    kept = [one for one in _in_words(solutions) if np.isfinite(one.objective)]
    if kept:
        first = kept[0].constraints[0]
        scale = 100.0 if is_share(first) else 1.0
        bounds = [scale * one.constraints[0].bound for one in kept]
        axes.plot(bounds, [one.expected_return for one in kept], "o-", color=theme.chosen, linewidth=1.5)
        what = f"{measure_words(first)}, {sense_words(first)}{' (%)' if is_share(first) else ''}"
        axes.set(xlabel=what, ylabel=return_label(kept[0].mdp))
    axes.xaxis.label.set_parse_math(False)
    axes.yaxis.label.set_parse_math(False)
    axes.margins(0.12)
    dress_curves(axes, theme)
    title(axes, "one point per limit", theme, size=9)
    return figure


def write_limit_page(
    solutions: Sequence[Solution], path: str | os.PathLike[str], *, command: str | None = None
) -> None:
    """Write one self-contained page that compares solutions along the bound of their only constraint."""
    if not solutions:
        raise InputError("a report on a frontier needs at least one solution; this frontier is empty")
    require_matplotlib()
    check_writable(path)
    solutions = _in_words(solutions)
    last, proved = solutions[-1], sum(one.status in (Status.SOLVED, Status.INFEASIBLE) for one in solutions)
    name, complete = scene_of(last.mdp).title, proved == len(solutions)
    verdict = "every point proved" if complete else f"{proved} of {len(solutions)} points proved"
    drawn = pieces.picture(
        lambda theme: plot_limits(solutions, theme=theme),
        "Expected return against the limit, one point per limit",
        "One point per limit: up is more return.",
    )
    room = "percentage point" if is_share(last.constraints[0]) else "unit"
    note = f"What one more {room} of room is worth is a bound: no policy gains more than that."
    parts = [
        pieces.header(f"{name}: what the limit costs", verdict, _answer(solutions), good=complete),
        pieces.section("The problem", pieces.paragraphs(problem_words(last))),
        pieces.section(
            "Return against the limit",
            pieces.table(limits_table(solutions)),
            drawn,
            pieces.paragraphs([note, *_proofs(solutions)], "soft"),
        ),
    ]
    if command is not None:
        parts.append(pieces.section("How to reproduce it", pieces.code(command)))
    write_bytes(path, pieces.document(name, "\n".join(parts)))


def _answer(solutions: Sequence[Solution]) -> str:
    kept = [one for one in solutions if np.isfinite(one.objective)]
    if not kept:
        return "No policy keeps any of these limits."
    by_return = sorted(kept, key=lambda one: one.objective)
    texts = []
    for one in (by_return[0], by_return[-1])[: len(kept)]:
        (row,) = one.constraints
        limit = f"{measure_words(row)} {sense_words(row)} {measure_text(row, row.bound)}"
        texts.append(f"With {limit} the expected return is {amount(one.expected_return, one.mdp, 6)}.")
    (strictest,) = by_return[0].constraints
    worth = price_words(strictest, by_return[0].mdp)
    return " ".join(texts + ([f"At the first of these, {worth}."] if worth else []))


def _proofs(solutions: Sequence[Solution]) -> list[str]:
    missed = [one for one in solutions if one.status is Status.INFEASIBLE]
    if not missed:
        return []
    limits = ", ".join(measure_text(one.constraints[0], one.constraints[0].bound) for one in missed)
    return [f"Proved out of reach: {limits}."]
