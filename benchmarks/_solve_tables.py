"""Tables of the benchmark of ``ca.solve``: on the screen, and as Markdown for docs/benchmarks-full.md."""

from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from _rows import Row, best_of_group
from _targets import Line, growth, pick
from cautious.peers.roster import OWNERS

OWN = ("model", "risk", "status", "gap", "seconds", "MB")
THEIRS = ("best peer", "its gap", "its seconds", "solver alone", "its MB", "ratio")
BEGIN, END = "<!-- begin: cautious bench solve -->", "<!-- end: cautious bench solve -->"
VERDICTS = {True: "yes", False: "NO", None: "-"}


def number(value: Any, form: str) -> str:
    """A number, or a dash."""
    return "-" if value is None else format(value, form)


def seconds(value: Any) -> str:
    """Three digits, whatever the size."""
    return number(value, ".3g")


def own_cells(row: Row) -> tuple[str, ...]:
    """Model, risk and our side."""
    own = row["own"]
    model = f"{row['model']} {row['n_states']:,}, {row['discount']:g}"
    memory = number(own.get("beyond_megabytes"), ".0f")
    return model, row["risk"], own["status"], number(own["gap"], ".1e"), seconds(own["seconds"]), memory


def compared_cells(row: Row) -> tuple[str, ...]:
    """A row of the comparison, as text."""
    best = row["best_peer"]
    if best is None:
        ends = (f"{peer['solver']} {peer['status'].split(':')[0]}" for peer in row["peers"])
        return (*own_cells(row), row["note"] or "; ".join(ends), "", "", "", "", "")
    forms = (("gap", ".1e"), ("seconds", ".3g"), ("solver_seconds", ".3g"), ("beyond_megabytes", ".0f"))
    theirs = (number(best.get(key), form) for key, form in forms)
    return (*own_cells(row), best["solver"], *theirs, number(row["ratio"], ".1f"))


def measured_cells(row: Row) -> tuple[str, ...]:
    """A row without peers: what its time is a multiple of."""
    own, found = row["own"], []
    for key, unit in (("sweeps", "sweeps"), ("planning_solves", "planning solves")):
        if own.get(key) is not None:
            found.append(f"{own[key]:.0f} {unit}")
    return (*own_cells(row), number(own.get("times_model"), ".1f"), ", ".join(found))


def group_cells(row: Row) -> tuple[str, ...]:
    """A risk-neutral row against each group of peers."""
    cells = []
    for group in OWNERS:
        best = best_of_group(row, group)
        cells.append("-" if best is None else f"{best['solver']}: {seconds(best['seconds'])} ({best['gap']:.0e})")
    return own_cells(row)[0], seconds(row["own"]["seconds"]), *cells


def frontier_cells(row: Row) -> tuple[str, ...]:
    """Thirty points against one solve."""
    own = row["own"]
    times = number(own.get("single_solves"), ".1f")
    return (*own_cells(row)[:5], seconds(own.get("single_seconds")), times)


def thread_cells(row: Row) -> tuple[str, ...]:
    """One row per number of threads."""
    cores = "all" if row["threads"] is None else str(row["threads"])
    return (*own_cells(row)[:4], cores, seconds(row["own"].get("wall_seconds")))


def growth_rows(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """Exponents between neighbouring sizes."""
    return [
        (f"{model}, {discount:g}", risk, ", ".join(f"{exponent:.2f} (to {size:,})" for size, exponent in found))
        for (model, discount, risk), found in growth(rows).items()
        if found
    ]


def parts(rows: Sequence[Row], targets: Iterable[Line]) -> list[tuple[str, tuple[str, ...], list[tuple[str, ...]]]]:
    """(title, headings, cells) of every table that has rows."""
    groups = ("model", "ours", *OWNERS)
    neutral = [row for row in pick(rows, table=("compare", "near one"), risk="none") if row["peers"]]
    kinds: list[tuple[str, tuple[str, ...], list[tuple[str, ...]]]] = [
        (
            "Targets",
            ("what", "required", "measured", "met"),
            [(t.what, t.required, t.measured, VERDICTS[t.met]) for t in targets],
        ),
        ("Every risk against the best peer", (*OWN, *THEIRS), [compared_cells(r) for r in pick(rows, table="compare")]),
        ("Risk-neutral packages, seconds (gap)", groups, [group_cells(row) for row in neutral]),
        ("Scale", (*OWN, "times model", "time in"), [measured_cells(row) for row in pick(rows, table="scale")]),
        (
            "Discounts near one",
            (*OWN, "times model", "time in"),
            [measured_cells(r) for r in pick(rows, table="near one")],
        ),
        ("Growth of time with states", ("model", "risk", "exponents"), growth_rows(rows)),
        (
            "Frontiers of 30 points",
            (*OWN[:5], "one solve", "solves"),
            [frontier_cells(row) for row in pick(rows, table="frontier")],
        ),
        (
            "Threads",
            (*OWN[:4], "threads", "seconds"),
            [thread_cells(row) for row in pick(rows, table="threads")],
        ),
    ]
    return [(title, headings, cells) for title, headings, cells in kinds if cells]


def markdown(rows: Sequence[Row], targets: Iterable[Line]) -> str:
    """Every table, under a heading of its own."""
    blocks = []
    for title, headings, cells in parts(rows, targets):
        lines = ["| " + " | ".join(line) + " |" for line in (headings, *cells)]
        lines.insert(1, "|" + "---|" * len(headings))
        blocks.append(f"### {title}\n\n" + "\n".join(lines) + "\n")
    return "\n".join(blocks)


def said(machine: Row) -> str:
    """When, where and with what, as a sentence."""
    known = {name: value for name, value in machine.items() if value is not None}
    place = f"{known.pop('date')}; {known.pop('cores')} cores, {known.pop('system')}"
    load = f", load {known.pop('load'):.1f} at the end" if "load" in known else ""
    return f"{place}{load}; " + ", ".join(f"{name} {value}" for name, value in known.items()) + "."


def into_page(page: str, text: str) -> str:
    """A page with the text between its two marks; a page without marks is only the text."""
    before, first, rest = page.partition(BEGIN)
    _, last, after = rest.partition(END)
    return f"{before}{first}\n\n{text}\n{last}{after}" if first and last else text


def show(console: Console, rows: Sequence[Row], targets: Iterable[Line]) -> None:
    """Every table on the screen."""
    for title, headings, cells in parts(rows, targets):
        table = Table(*headings, title=title)
        for line in cells:
            table.add_row(*line)
        console.print(table)
