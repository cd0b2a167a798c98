"""A policy as a csv file, for spreadsheets and other programs."""

import csv
import io
import os

import numpy as np

from cautious.report.words import action_name, state_name
from cautious.report.writing import write_bytes
from cautious.solution import Solution

HEADER = ("state", "action", "probability", "share_of_time")


def write_policy(solution: Solution, path: str | os.PathLike[str]) -> None:
    """One row per state and action that the policy takes, by name; the share of time is that of the pair."""
    text = io.StringIO(newline="")
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(HEADER)
    for state, action in zip(*np.nonzero(solution.policy), strict=True):
        names = state_name(solution.mdp, state), action_name(solution.mdp, action)
        rows.writerow((*names, float(solution.policy[state, action]), float(solution.occupancy[state, action])))
    write_bytes(path, text.getvalue().encode())
