"""The rows of a policy: csv, DataFrame and workbook say the same, and names are never formulas."""

import csv
import sys

import numpy as np
import pandas as pd
import pytest

import cautious as ca


def machine(names=("good", "=1+1", "broken")):
    transitions = np.array([[[0.8, 0.2, 0], [1, 0, 0]], [[0, 0.85, 0.15], [0.9, 0.1, 0]], [[0, 0, 1], [1, 0, 0]]])
    rewards = np.array([[10.0, 3.0], [9.0, -1.0], [0.0, -10.0]])
    return ca.MDP(transitions, rewards, discount=0.95, start=[1, 0, 0], state_names=names, action_names=["run", "fix"])


@pytest.mark.parametrize("horizon", [None, 3])
def test_csv_frame_and_workbook_have_the_same_rows(tmp_path, horizon):
    mdp = machine()
    solution = ca.solve(ca.Problem(mdp, constraints=[ca.Exposure("broken") <= 0.02], horizon=horizon))
    frame = solution.to_frame()
    solution.to_csv(tmp_path / "policy.csv")
    solution.to_excel(tmp_path / "policy.xlsx")
    with open(tmp_path / "policy.csv", newline="") as file:
        rows = list(csv.reader(file))
    assert rows[0] == list(frame.columns)
    assert [[str(cell) for cell in row] for row in frame.itertuples(index=False)] == rows[1:]
    sheets = pd.read_excel(tmp_path / "policy.xlsx", sheet_name=None)
    pd.testing.assert_frame_equal(sheets["policy"], frame, check_dtype=False)
    assert "=1+1" in set(sheets["policy"]["state"])
    assert sheets["figures"]["figure"][0] == "status"
    # it is the policy, and it can be read back
    table = np.zeros_like(solution.policy)
    for row in frame.itertuples(index=False):
        where = mdp.state_names.index(row.state), mdp.action_names.index(row.action)
        table[where if horizon is None else (row.step, *where)] = row.probability
    assert np.array_equal(table, solution.policy)


def test_names_that_excel_does_not_take_are_refused(tmp_path):
    solution = ca.solve(ca.Problem(machine(("good", "a\x01b", "broken"))))
    with pytest.raises(ca.InputError, match="control characters"):
        solution.to_excel(tmp_path / "policy.xlsx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("gone", ["pandas", "openpyxl"])
def test_what_is_missing_is_named(tmp_path, monkeypatch, gone):
    solution = ca.solve(ca.Problem(machine()))
    monkeypatch.setitem(sys.modules, gone, None)
    with pytest.raises(ca.MissingExtraError, match=r"cautious\[excel\]"):
        solution.to_frame() if gone == "pandas" else solution.to_excel(tmp_path / "policy.xlsx")
