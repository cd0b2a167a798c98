"""Episodes in csv files: any order, names or numbers, and errors that name the line."""

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest
from recordings import EPISODES, write

import cautious as ca


@pytest.mark.parametrize("at_end", ["absorb", "restart", "cut"])
def test_csv_rows_in_any_order_columns_in_any_order_names_or_numbers(lift, tmp_path, at_end):
    wanted = ca.demonstrations(list(EPISODES.values()), lift, smoothing=0.1, at_end=at_end).occupancy
    rows = [(name, t, s, a) for name, pairs in EPISODES.items() for t, (s, a) in enumerate(pairs)]
    np.random.default_rng(0).shuffle(rows)
    plain = write(tmp_path / "plain.csv", [("episode", "step", "state", "action"), *rows])
    named = [(lift.action_names[int(a)], f" {lift.state_names[int(s)]} ", int(t) + 1, name) for name, t, s, a in rows]
    # spaces around a cell do not count, not even those that int() does not know
    named[0] = (*named[0][:2], f"\x1e{named[0][2]}", named[0][3])
    other = write(tmp_path / "named.csv", [("Action", " state", "step", "EPISODE"), [], *named])
    # excel writes a mark in front
    other.write_bytes(b"\xef\xbb\xbf" + other.read_bytes())
    interleaved = [(name, *pairs[t]) for t in range(3) for name, pairs in EPISODES.items() if t < len(pairs)]
    stepless = write(tmp_path / "stepless.csv", [("episode", "state", "action"), *interleaved])
    for path in (plain, other, str(stepless)):
        found = ca.demonstrations(path, lift, smoothing=0.1, at_end=at_end)
        assert found.occupancy == pytest.approx(wanted, abs=1e-15)
        assert found.n_episodes == 3


def test_csv_final_states_and_no_actions(lift, tmp_path):
    header = ("episode", "state", "action")
    path = write(tmp_path / "final.csv", [header, (1, 0, 1), (1, 1, 1), (1, 2, ""), (2, 2, 0)])
    given = [{"observations": [0, 1, 2], "actions": [1, 1]}, [(2, 0)]]
    found, wanted = (ca.demonstrations(x, lift, smoothing=0.0, at_end="absorb") for x in (path, given))
    assert found.occupancy == pytest.approx(wanted.occupancy, abs=1e-15)
    states = write(tmp_path / "states.csv", [header[:2], (1, 0), (1, 1), (1, 2)])
    assert ca.demonstrations(states, lift, smoothing=0.0, at_end="absorb").occupancy == pytest.approx([0.2, 0.16, 0.64])


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_episodes_in_other_tables(lift, tmp_path, suffix):
    header = ("episode", "state", "action")
    path = write(tmp_path / "final.csv", [header, (1, 0, 1), (1, 1, 1), (1, 2, ""), (2, 2, 0)])
    table = pa.table({"Episode": [1, 1, 1, 2], "state": [0, 1, 2, 2], "action": [1, 1, None, 0]})
    other = tmp_path / f"final.{suffix}"
    if suffix == "parquet":
        pyarrow.parquet.write_table(table, other)
    else:
        pyarrow.feather.write_feather(table, other)
    found, wanted = (ca.demonstrations(x, lift, smoothing=0.1, at_end="absorb") for x in (other, path))
    assert np.array_equal(found.occupancy, wanted.occupancy)


def test_steps_may_have_leading_zeros(lift, tmp_path):
    path = write(tmp_path / "zeros.csv", [("episode", "step", "state"), (1, "01", 1), (1, "00", 0), (1, "02", 2)])
    found = ca.demonstrations(path, lift, smoothing=0.0, at_end="absorb")
    assert found.occupancy == pytest.approx([0.2, 0.16, 0.64])


def test_names_that_look_like_numbers_are_names(tmp_path):
    mdp = ca.MDP(np.full((2, 1, 2), 0.5), np.zeros((2, 1)), 0.5, state_names=["1", "0"])
    path = write(tmp_path / "x.csv", [("episode", "state"), (1, 1)])
    assert ca.demonstrations(path, mdp, smoothing=0.0, at_end="absorb").occupancy.tolist() == [1, 0]
    assert ca.demonstrations([[1]], mdp, smoothing=0.0, at_end="absorb").occupancy.tolist() == [0, 1]
    with pytest.raises(ca.FileError, match="the state is '2'; expected one of the model's state names, such as '1'"):
        ca.demonstrations(write(tmp_path / "y.csv", [("episode", "state"), (1, 2)]), mdp, smoothing=0.0, at_end="cut")


BAD_FILES = {
    "empty file": ("", "the file is empty; expected a header and rows"),
    "no rows": ("episode,state\n", "no rows"),
    "no state": ("episode,action\n1,0\n", "no column 'state'; a table of episodes needs episode and state"),
    "other column": ("episode,state,acton\n1,0,1\n", "column 'acton'; a table of episodes may have episode, step"),
    "semicolons": ("episode;state\n1;3\n", "line 2: the state is 3"),
    "column twice": ("episode,state,state\n1,0,1\n", "column 'state' is there twice"),
    "short row": ("episode,state,action\n1,1,1\n1,1\n", "line 3: 2 cells; the header has 3"),
    "unknown name": (
        "episode,state\n1,low\n1,lwo\n",
        "line 3: the state is 'lwo'; expected a whole number from 0 to 2",
    ),
    "unknown action": ("episode,state,action\n1,low,left\n", "line 2: the action is 'left'"),
    "state out of range": ("episode,state\n1,0\n\n1,3\n", "line 4: the state is 3"),
    "negative state": ("episode,state\n1,-1\n", "line 2: the state is -1"),
    "not whole": ("episode,state\n1,1.5\n", r"line 2: the state is '1\.5'"),
    "nan": ("episode,state\n1,nan\n", "line 2: the state is 'nan'"),
    "no state there": ("episode,state\n1,\n", "line 2: 'state' is empty"),
    "no episode there": ("episode,state\n,1\n", "line 2: 'episode' is empty"),
    "negative step": (
        "episode,step,state\n1,-1,0\n",
        "line 2: the step is -1; expected a whole number of at least 0",
    ),
    "step not whole": ("episode,step,state\n1,0.5,0\n", r"line 2: the step is '0\.5'"),
    "step twice": (
        "episode,step,state\nx,0,0\nx,1,0\nx,1,2\n",
        "line 4: step 1 follows step 1 of this episode; steps count up by one",
    ),
    "step missing": ("episode,step,state\nx,3,0\nx,0,0\nx,1,2\n", "line 2: step 3 follows step 1 of this episode"),
    "late begin": ("episode,step,state\nx,0,0\ny,2,0\n", "line 3: episode 'y' begins with step 2; expected 0 or 1"),
    "action missing": ("episode,state,action\n1,0,\n1,1,1\n", "line 2: the action is empty; only the last row"),
    "no step": ("episode,state,action\n1,0,1\nz,1,\n", "line 3: episode 'z' has no action, so no step"),
    "forbidden": (
        "episode,step,state,action\n1,1,0,0\n1,0,1,1\n",
        r"line 2: action 0 \('down'\) is taken in state 0 \('low'\), where the model does not allow it",
    ),
    "quotes": ('episode,state\n1,"0\n', "line 2: unexpected end of data"),
}


@pytest.mark.parametrize("case", BAD_FILES)
def test_bad_files_are_refused_with_file_and_line(lift, tmp_path, case):
    text, message = BAD_FILES[case]
    (tmp_path / "demos.csv").write_text(text)
    with pytest.raises(ca.FileError, match=message) as caught:
        ca.demonstrations(tmp_path / "demos.csv", lift, smoothing=0.0, at_end="absorb")
    assert str(tmp_path / "demos.csv") in str(caught.value)


def test_rewards_are_skipped_and_whole_numbers_may_end_in_a_zero(lift, tmp_path):
    plain = write(tmp_path / "plain.csv", [("episode", "state", "action"), (1, 0, 1), (1, 1, 0), (1, 0, "")])
    header = ("episode", "reward", "state", "action")
    other = write(tmp_path / "other.csv", [header, (1, 0.5, "0.0", "1.0"), (1, "", "1.0", "0.0"), (1, 2, "0.0", "")])
    first, second = (ca.demonstrations(one, lift, smoothing=0.1, at_end="cut") for one in (plain, other))
    np.testing.assert_array_equal(first.occupancy, second.occupancy)


def test_files_that_cannot_be_read(lift, tmp_path):
    with pytest.raises(ca.FileError, match="no such file"):
        ca.demonstrations(tmp_path / "gone.csv", lift, smoothing=0.0, at_end="absorb")
    (tmp_path / "x.csv").write_bytes(b"episode,state\n1,\xff\n")
    with pytest.raises(ca.FileError, match="not a csv file in UTF-8"):
        ca.demonstrations(tmp_path / "x.csv", lift, smoothing=0.0, at_end="absorb")
