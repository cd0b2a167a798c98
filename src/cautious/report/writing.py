"""Output files: written whole or not at all; a policy as csv for spreadsheets and other programs."""

import csv
import io
import os

import numpy as np

from cautious.models.horizons import TOTAL
from cautious.regular_files import replacing
from cautious.report.words import action_name, state_name
from cautious.solution import Solution


def write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Replace a file by this content, or leave it as it was: never half a file."""
    with replacing(path) as stream:
        stream.write(content)


def write_policy(solution: Solution, path: str | os.PathLike[str]) -> None:
    """One row per state and action that the policy takes, by name; the share of time is that of the pair.

    With a finite horizon the first column is the step, counted from 0; until an end, visits stand instead of shares.
    """
    text, policy, occupancy = io.StringIO(newline=""), solution.policy, solution.occupancy
    rows = csv.writer(text, lineterminator="\n")
    over_steps = policy.ndim == 3
    spent = "visits" if solution.horizon == TOTAL else "share_of_time"
    rows.writerow((*(["step"] if over_steps else []), "state", "action", "probability", spent))
    for where in zip(*np.nonzero(policy), strict=True):
        state, action = int(where[-2]), int(where[-1])
        names = state_name(solution.mdp, state), action_name(solution.mdp, action)
        step = [int(where[0])] if over_steps else []
        rows.writerow((*step, *names, float(policy[where]), float(occupancy[where])))
    write_bytes(path, text.getvalue().encode())
