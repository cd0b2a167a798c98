"""Output files, written whole or not at all; a policy as csv, a DataFrame or a workbook of Excel."""

import csv
import io
import os
from typing import Any

import numpy as np

from cautious.errors import InputError, MissingExtraError, shown
from cautious.models.horizons import TOTAL
from cautious.regular_files import replacing
from cautious.report.text_tables import solution_table
from cautious.report.words import action_name, state_name
from cautious.solution import Solution

# with the header a sheet has 1,048,576
EXCEL_ROWS = 1_048_575
MISSING_EXCEL = 'this needs pandas and openpyxl; install them with: pip install "cautious[excel]"'


def write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Replace a file by this content, or leave it as it was: never half a file."""
    with replacing(path) as stream:
        stream.write(content)


def policy_rows(solution: Solution) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """Headers, and a row per state and action that the policy takes, by name; the share of time is that of the pair.

    With a finite horizon the first column is the step, counted from 0; until an end, visits stand instead of shares.
    """
    policy, occupancy = solution.policy, solution.occupancy
    over_steps = policy.ndim == 3
    spent = "visits" if solution.horizon == TOTAL else "share_of_time"
    rows: list[tuple[Any, ...]] = []
    for where in zip(*np.nonzero(policy), strict=True):
        state, action = int(where[-2]), int(where[-1])
        names = state_name(solution.mdp, state), action_name(solution.mdp, action)
        step = [int(where[0])] if over_steps else []
        rows.append((*step, *names, float(policy[where]), float(occupancy[where])))
    return (*(["step"] if over_steps else []), "state", "action", "probability", spent), rows


def write_policy(solution: Solution, path: str | os.PathLike[str]) -> None:
    """The rows of a policy as csv."""
    headers, rows = policy_rows(solution)
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows([headers, *rows])
    write_bytes(path, text.getvalue().encode())


def policy_frame(solution: Solution) -> Any:
    """The rows of a policy as a pandas DataFrame."""
    try:
        import pandas
    except ImportError:
        raise MissingExtraError(MISSING_EXCEL) from None
    headers, rows = policy_rows(solution)
    return pandas.DataFrame(rows, columns=list(headers))


def write_workbook(solution: Solution, path: str | os.PathLike[str]) -> None:
    """A workbook of Excel: the policy, and the figures of the solution."""
    try:
        from openpyxl import Workbook
        from openpyxl.utils.exceptions import IllegalCharacterError
    except ImportError:
        raise MissingExtraError(MISSING_EXCEL) from None
    policy, figures, content = policy_rows(solution), solution_table(solution), io.BytesIO()
    if len(policy[1]) > EXCEL_ROWS:
        raise InputError(
            f"the policy has {len(policy[1]):,} rows, and a sheet of Excel {EXCEL_ROWS:,}; write it with to_csv"
        )
    book = Workbook()
    book.remove(book.active)
    for name, headers, rows in (("policy", *policy), ("figures", figures.headers, figures.rows)):
        sheet = book.create_sheet(name)
        for row in (headers, *rows):
            try:
                sheet.append(row)
            except IllegalCharacterError:
                raise InputError(f"Excel takes no control characters: {shown(row)}; write it with to_csv") from None
        for cell in (cell for row in sheet.iter_rows() for cell in row if cell.data_type == "f"):
            # a name that begins with = is a name, and no formula
            cell.data_type = "s"
    book.save(content)
    write_bytes(path, content.getvalue())
