"""What ``ca.compare`` returns: a row for every method, as data and as a table of text."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from cautious.problem import Problem
from cautious.tables.notebook import html_table

OURS, YOURS = "cautious", "yours"
HEADERS = ("method", "whose", "status", "objective", "gap", "seconds", "note")


def label(method: str, whose: str) -> str:
    """What to call a method where its package has no column: "planning", "CVXPY CLARABEL", "Storm PI"."""
    return method if whose in (OURS, YOURS) or method.startswith(whose) else f"{whose} {method}"


@dataclass(frozen=True)
class ComparisonRow:
    """One method on the problem.

    ``status`` is a name of ``ca.Status`` for our methods, and for others what they said of themselves, or "time limit",
    "failed", "not installed", "not applicable", "interrupted". ``objective`` is that of the delivered policy, computed
    by us from the policy alone; ``upper_bound`` is what no policy exceeds, proved at the method's own prices of the
    risk; ``gap`` is their difference. All three are None where there is none. ``seconds`` is the wall-clock time of the
    fastest of a few runs while they are short.
    """

    method: str
    whose: str
    status: str
    objective: float | None = None
    upper_bound: float | None = None
    gap: float | None = None
    seconds: float | None = None
    note: str = ""


@dataclass(frozen=True, repr=False)
class Comparison:
    """The rows of ``ca.compare``, in the order they were run.

    Examples
    --------
    >>> import cautious as ca
    >>> found = ca.compare(ca.Problem(ca.worlds.river_swim()), methods=["planning"])
    >>> found.best.method, found.best.status
    ('planning', 'SOLVED')
    """

    rows: tuple[ComparisonRow, ...]
    problem: Problem
    tolerance: float
    time_limit_seconds: float

    @property
    def best(self) -> ComparisonRow | None:
        """The row with the largest objective; None when no method delivered a policy with a finite one."""
        found = [row for row in self.rows if row.objective is not None]
        return max(found, key=lambda row: row.objective or 0.0, default=None)

    @property
    def fastest(self) -> ComparisonRow | None:
        """The fastest row that is ``proved``; None when there is none."""
        found = [row for row in self.rows if self.proved(row) and row.seconds is not None]
        return min(found, key=lambda row: row.seconds or 0.0, default=None)

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the comparison early."""
        return any(row.status in ("interrupted", "STOPPED") for row in self.rows)

    def proved(self, row: ComparisonRow) -> bool:
        """Whether the row's gap is within the tolerance: gap <= tolerance * max(1, |objective|)."""
        if row.gap is None or row.objective is None:
            return False
        return row.gap <= self.tolerance * max(1.0, abs(row.objective))

    def table(self) -> list[dict[str, Any]]:
        """One dictionary per method, with the fields of ``ComparisonRow``."""
        return [asdict(row) for row in self.rows]

    def cells(self) -> list[tuple[str, ...]]:
        """The rows as text, in the order of ``HEADERS``."""
        return [
            (
                row.method,
                row.whose,
                row.status,
                "" if row.objective is None else f"{row.objective:.8g}",
                "" if row.gap is None else f"{row.gap:.1e}",
                "" if row.seconds is None else f"{row.seconds:.3g}",
                row.note,
            )
            for row in self.rows
        ]

    def __repr__(self) -> str:
        many = "1 method" if len(self.rows) == 1 else f"{len(self.rows)} methods"
        return f"Comparison of {many}: {self.problem!r}\n{_aligned([HEADERS, *self.cells()])}"

    def _repr_html_(self) -> str:
        return html_table(HEADERS, self.cells(), repr(self.problem))


def _aligned(lines: Sequence[Sequence[str]]) -> str:
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADERS))]
    numbers = range(HEADERS.index("objective"), HEADERS.index("note"))

    def padded(column: int, text: str) -> str:
        return text.rjust(widths[column]) if column in numbers else text.ljust(widths[column])

    return "\n".join("  ".join(padded(k, text) for k, text in enumerate(line)).rstrip() for line in lines)
