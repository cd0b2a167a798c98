"""``write_overview``: the solutions of a frontier on one page, what each caution costs and buys, and where it changes
what the policy does.

Neighbouring cautions often have the same best policy: such a ``CautionRange`` is one column of a table and one drawing.
"""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from cautious.arrays import Array, Mask
from cautious.errors import InputError
from cautious.models.tabular import MDP
from cautious.regular_files import check_writable
from cautious.report import pieces, trade_off
from cautious.report.accuracy import shares_of_time, shown_return
from cautious.report.barriers import RiskFigure, risk_figure
from cautious.report.canvas import require_matplotlib
from cautious.report.over_steps import as_one_table
from cautious.report.plots import plot_behaviour, plot_frontier
from cautious.report.reproduction_code import frontier_reproduction
from cautious.report.requirements import requirement_words
from cautious.report.sentences import KINDS, problem_words
from cautious.report.text_tables import (
    MIN_POLICY_CHANGE,
    Table,
    busiest_states,
    frontier_table,
    likeliest_actions,
    steps_table,
)
from cautious.report.words import (
    amount,
    fits_grid,
    is_logged,
    number,
    percent,
    return_words,
    scene_of,
    state_name,
    unit_after,
)
from cautious.report.writing import write_bytes
from cautious.solution import Solution
from cautious.status import Status

MAX_DRAWINGS = 6
MAX_ROWS, MAX_COLUMNS = 16, 9
# policies are the same where they spend less of the time differently: tables show no less either
MIN_TIME_CHANGE = 1e-4
NOT_VISITED = "—"


@dataclass(frozen=True)
class CautionRange:
    """Solutions of neighbouring cautions with the same policy."""

    solutions: tuple[Solution, ...]

    @property
    def first(self) -> Solution:
        """Of the smallest caution."""
        return self.solutions[0]

    @property
    def name(self) -> str:
        """Its cautions, from the first to the last."""
        ends = [number(self.solutions[i].caution) for i in (0, -1)]
        return ends[0] if len(self.solutions) == 1 else f"{ends[0]} to {ends[1]}"

    def points(self, figure: RiskFigure) -> list[trade_off.TradeOffPoint]:
        """Return and risk of its cautions, where the risk is known."""
        return [here for one in self.solutions if (here := trade_off.point(one, figure)) is not None]


def runs(solutions: Sequence[Solution]) -> list[CautionRange]:
    """The solutions, neighbours with the same policy grouped."""
    found: list[list[Solution]] = []
    for one in solutions:
        if found and np.abs(one.occupancy - found[-1][0].occupancy).sum() / 2 <= MIN_TIME_CHANGE:
            found[-1].append(one)
        else:
            found.append([one])
    return [CautionRange(tuple(members)) for members in found]


@dataclass(frozen=True)
class Choices:
    """Actions per state and caution as a table, its changed cells (row, column), and a sentence on what is left out."""

    table: Table
    changed: frozenset[tuple[int, int]]
    words: str
    shows_gaps: bool


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
    """
    if not solutions:
        raise InputError("a report on a frontier needs at least one solution; this frontier is empty")
    require_matplotlib()
    check_writable(path)
    solutions = [as_one_table(one) for one in solutions]
    last, found, figure = solutions[-1], runs(solutions), risk_figure(solutions)
    title, unit = scene_of(last.mdp).title, unit_after(last.mdp)
    axis = figure.name if figure.is_barrier else "risk"
    price = f"{number(solutions[0].caution)} to {number(last.caution)}"
    words = [*problem_words(last, price), *requirement_words(last, with_reached=False)]
    drawn = pieces.picture(
        lambda theme: plot_frontier(solutions, theme=theme),
        f"Expected return against {axis}, one point per caution",
        f"One point per caution: up is more return, {'right' if figure.larger_is_safer else 'left'} is less risk.",
    )
    parts = [
        _header(solutions, found, title, figure),
        pieces.section("The problem", pieces.paragraphs(words)),
        pieces.section(f"Return against {axis}", pieces.table(frontier_table(solutions, unit)), drawn),
        _prices(found, unit, figure),
        _behaviours(found, pages or {}),
        pieces.section("How sure is this", pieces.definitions(_proofs(solutions))),
        pieces.section("How to reproduce it", pieces.code(frontier_reproduction(solutions, command))),
    ]
    write_bytes(path, pieces.document(title, "\n".join(part for part in parts if part)))


def _header(solutions: Sequence[Solution], found: Sequence[CautionRange], title: str, figure: RiskFigure) -> str:
    proved = sum(one.status is Status.SOLVED for one in solutions)
    verdict = "all proved best" if proved == len(solutions) else f"{proved} of {len(solutions)} proved best"
    verdict += " for the counted model" * is_logged(solutions[-1].mdp)
    answer = _answer(solutions, found, figure)
    return pieces.header(f"{title}: what caution costs and buys", verdict, answer, good=proved == len(solutions))


def _answer(solutions: Sequence[Solution], found: Sequence[CautionRange], figure: RiskFigure) -> str:
    points = [point for run in found for point in run.points(figure)]
    if not points:
        return "No policy with a finite risk was found."
    first, last, unit = points[0], points[-1], scene_of(solutions[-1].mdp).reward_unit
    kind, sign = return_words(solutions[-1].mdp), -1 if figure.larger_is_safer else 1
    risk_here = [figure.text(sign * one.risk, 4) for one in (first, last)]
    if len(points) == 1 or len(found) == 1:
        where = f"At caution {number(first.caution)}"
        if len(points) > 1:
            where = f"From caution {number(first.caution)} to {number(last.caution)} the policy stays the same:"
        at = f"with {figure.name}" if figure.is_barrier else "at a risk of"
        earned = f"{number(first.expected_return, 4)} ({unit}, {kind})"
        return f"{where} the expected return is {earned}, {at} {risk_here[0]}."
    what = figure.name if figure.is_barrier else f"risk {figure.name}"
    return (
        f"From caution {number(first.caution)} to {number(last.caution)} the expected return goes from "
        f"{number(first.expected_return, 4)} to {number(last.expected_return, 4)} ({unit}, {kind}), and the {what} "
        f"from {risk_here[0]} to {risk_here[1]}."
    )


def _prices(found: Sequence[CautionRange], unit: str, figure: RiskFigure) -> str:
    known = [points for run in found if (points := run.points(figure))]
    steps = [trade_off.Step(before[-1], after[0]) for before, after in pairwise(known)]
    if not steps:
        return ""
    best = min((one for one in steps if one.price is not None), key=lambda one: one.price or 0.0, default=None)
    words = []
    if best is not None:
        words.append(
            f"The step from caution {number(best.before.caution)} to {number(best.after.caution)} gives up "
            f"{amount(best.given_up, found[0].first.mdp, 3)} of return for "
            f"{figure.text(best.removed, 3)} {figure.gain}. No step is cheaper."
        )
    notes = ["Between best policies, what a step costs per unit of risk lies between its two cautions."]
    if figure.is_barrier:
        notes = []
    if any(len(run.solutions) > 1 for run in found):
        notes.append("Steps that change nothing are left out.")
    return pieces.section(
        "What each step of caution buys",
        pieces.paragraphs(words),
        pieces.table(steps_table(steps, unit, figure)),
        pieces.paragraphs([" ".join(notes)], "soft") if notes else "",
    )


def _behaviours(found: Sequence[CautionRange], pages: Mapping[float, str]) -> str:
    drawn = spread_out(found, MAX_DRAWINGS)
    words = ["All are drawn on one scale."] if len(drawn) > 1 else []
    if len(drawn) < len(found):
        words.append(f"{len(drawn)} of the {len(found)} policies are shown.")
    pictures = pieces.figures(*(_behaviour(run, [one.first for one in found], pages) for run in drawn))
    done = "" if fits_grid(found[0].first.mdp) else _choices_by_caution(found)
    return pieces.section("What the policies do", done, pieces.paragraphs([" ".join(words)]), pictures)


def _choices_by_caution(found: Sequence[CautionRange]) -> str:
    """What is done in each state, caution by caution."""
    done = choices(found)
    notes = ["Bold: another choice than before."] if done.changed else []
    notes += ["A dash: next to no time is spent there."] if done.shows_gaps else []
    soft = pieces.paragraphs([" ".join(notes)], "soft") if notes else ""
    return "\n".join([pieces.paragraphs([done.words]), pieces.table(done.table, done.changed), soft])


def _behaviour(run: CautionRange, among: Sequence[Solution], pages: Mapping[float, str]) -> str:
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


def _proofs(solutions: Sequence[Solution]) -> list[tuple[str, str]]:
    kinds = sorted({one.certificate.kind for one in solutions})
    proved = sum(one.status is Status.SOLVED for one in solutions)
    largest_gap = amount(max(one.gap for one in solutions), solutions[0].mdp, 3)
    rows = [
        ("Proved best", f"{proved} of {len(solutions)} policies, each up to its gap"),
        (f"Largest {'first-order ' * ('stationary' in kinds)}gap", largest_gap),
        *((f"Kind of proof: {kind}", KINDS.get(kind, "")) for kind in kinds),
    ]
    rows += [
        (f"Caution {number(one.caution)}", f"{one.status.value}. {one.certificate.statement}")
        for one in solutions
        if one.status is not Status.SOLVED
    ]
    return [*rows, ("Time", f"{number(sum(one.seconds for one in solutions), 3)} s")]


def spread_out(found: Sequence[CautionRange], count: int) -> list[CautionRange]:
    """At most ``count`` of them, evenly, both ends included."""
    places = np.unique(np.linspace(0, len(found) - 1, min(count, len(found))).round().astype(int))
    return [found[place] for place in places]


def choices(found: Sequence[CautionRange]) -> Choices:
    """What is done in the states where the caution changes it, and in those that are visited most."""
    shown = spread_out(found, MAX_COLUMNS)
    mdp = shown[0].first.mdp
    shares = np.array([shares_of_time(run.first) for run in found])
    most = shares.max(axis=0)
    differs = changing_states([run.first for run in found], shares)
    states = busiest_states(np.where(differs, most, 0.0), MAX_ROWS)
    states = in_order(mdp, [*states, *busiest_states(np.where(differs, 0.0, most), MAX_ROWS - len(states))])
    columns = [(run, share) for run, share in zip(found, shares, strict=True) if run in shown]
    rows, changed = [], set()
    for row, state in enumerate(states):
        cells = [
            likeliest_actions(mdp, run.first.policy, state) if share[state] > 0 else NOT_VISITED
            for run, share in columns
        ]
        rows.append((state_name(mdp, state), *cells))
        changed |= {(row, column + 1) for column in _changed_cells(cells)}
    table = Table("", ("state", *(f"caution {run.name}" for run in shown)), tuple(rows))
    words = _words(most, differs, states, len(found), len(shown))
    return Choices(table, frozenset(changed), words, any(NOT_VISITED in row[1:] for row in rows))


def in_order(mdp: MDP, states: Sequence[int]) -> list[int]:
    """The states in the order of the model; where that is alphabetical, numbers in names are sorted by their value."""
    numbered = sorted(states)
    names = [state_name(mdp, state) for state in numbered]
    if names != sorted(names):
        return numbered
    return sorted(numbered, key=lambda state: _natural_order(state_name(mdp, state)))


def _natural_order(name: str) -> list[tuple[int, str]]:
    """A sort key by which numbers inside names are compared as numbers: of two, the longer one is the larger."""
    parts = re.split(r"0*([0-9]+)", name)
    return [(len(part) if place % 2 else 0, part) for place, part in enumerate(parts)]


def changing_states(solutions: Sequence[Solution], shares: Array) -> Mask:
    """States (S,) where some policy acts differently from the last policy before it that visits the state.

    ``shares`` of time, one row (S,) per solution.
    """
    before, seen = solutions[0].policy.copy(), shares[0] > 0
    differs = np.zeros(seen.size, dtype=np.bool_)
    for one, share in zip(solutions[1:], shares[1:], strict=True):
        here = share > 0
        differs |= here & seen & (np.abs(one.policy - before).sum(axis=1) / 2 > MIN_POLICY_CHANGE)
        before[here] = one.policy[here]
        seen |= here
    return differs


def _changed_cells(cells: Sequence[str]) -> list[int]:
    """Indices of the cells that differ from the last one before them where the state is visited."""
    known = [place for place, cell in enumerate(cells) if cell != NOT_VISITED]
    return [place for last, place in pairwise(known) if cells[place] != cells[last]]


def _words(most: Array, differs: Mask, states: list[int], policies: int, columns: int) -> str:
    visited, changing = int(np.count_nonzero(most > 0)), int(np.count_nonzero(differs))
    text = f"What is done changes with the caution in {changing:,} of {visited:,} visited states."
    if policies == 1:
        text = f"What is done in the {visited:,} visited states:" if visited > 1 else "What is done:"
    left = visited - len(states)
    if left:
        hidden = changing - int(np.count_nonzero(differs[states]))
        kept = "these and the most visited of the others" if changing else f"the {len(states)} most visited"
        text += f" The table has {f'the {len(states)} most visited of these' if hidden else kept}."
        least = percent(float(np.delete(most, states).max())).removeprefix("< ")
        text += f" None of the {left:,} states that it leaves out takes more than {least} of the time."
    if columns < policies:
        text += f" {columns} of the {policies} different policies are shown."
    return text
