"""Output files: written whole or not at all; a policy as csv for spreadsheets and other programs."""

import csv
import io
import os

import numpy as np

from cautious.regular_files import replacing
from cautious.report.words import action_name, state_name
from cautious.solution import Solution


def write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Replace a file by this content, or leave it as it was: never half a file."""
    with replacing(path) as stream:
        stream.write(content)


def write_policy(solution: Solution, path: str | os.PathLike[str]) -> None:
    """One row per state and action that the policy takes, by name; the share of time is that of the pair."""
    text = io.StringIO(newline="")
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(("state", "action", "probability", "share_of_time"))
    for state, action in zip(*np.nonzero(solution.policy), strict=True):
        names = state_name(solution.mdp, state), action_name(solution.mdp, action)
        rows.writerow((*names, float(solution.policy[state, action]), float(solution.occupancy[state, action])))
    write_bytes(path, text.getvalue().encode())
