"""Models of logs: counts against pandas, what was never tried, ends, starts, and everything that is refused."""

import datetime
import runpy
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

import cautious as ca
from cautious.models.logs import Log
from logs_of import drawn_log

ROWS = [("a", "x", 1.0, "b"), ("b", "x", 2.0, "c"), ("b", "y", 0.0, "a")]


def by_pandas(frame):
    """P, mean and mean square of the reward, and counts, keyed by labels."""
    pairs = frame.groupby(["state", "action"])
    chance = frame.groupby(["state", "action", "next_state"]).size() / pairs.size()
    return chance, pairs["reward"].mean(), pairs["reward"].apply(lambda r: (r**2).mean()), pairs.size()


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("noisy", [False, True])
def test_counts_are_those_of_pandas(seed, noisy):
    rng = np.random.default_rng(seed)
    n = 400
    frame = pd.DataFrame({"state": rng.integers(6, size=n), "action": rng.choice(["go", "stay", "wait"], size=n)})
    frame["next_state"] = (frame["state"] + rng.integers(3, size=n)) % 7
    frame["reward"] = rng.normal(size=n) if noisy else 1.0 * frame["next_state"] - frame["state"]
    logged = ca.from_transitions(frame, 0.9, untried="pessimistic")
    chance, mean, square, size = by_pandas(frame)
    assert logged.state_names == (*map(str, range(7)), "untried")
    assert logged.action_names == ("go", "stay", "wait")
    assert logged.counts.sum() == n
    assert logged.outcome_counts.sum() == n
    dense = logged.transitions.toarray().reshape(8, 3, 8)
    for (state, action), count in size.items():
        s, a = logged.state_number(state), logged.action_number(action)
        assert logged.counts[s, a] == count
        assert logged.rewards[s, a] == pytest.approx(mean[state, action], abs=1e-12)
        assert logged.reward_square[s, a] == pytest.approx(square[state, action], rel=1e-12)
        assert logged.logging_policy[s, a] == pytest.approx(count / size[state].sum())
        for next_state in range(7):
            assert dense[s, a, next_state] == pytest.approx(chance.get((state, action, next_state), 0.0))
    assert (logged.outcome_rewards is None) == noisy
    # the seventh state was never left
    assert np.array_equal(dense[6, :, 7], [1, 1, 1])


def test_a_log_of_everything_gives_the_model_back():
    mdp = ca.worlds.machine_replacement()
    logged = ca.from_transitions(drawn_log(mdp, 1000, 40, np.random.default_rng(0)), mdp.discount, untried="forbid")
    for risk, caution in ((None, 0.0), (ca.Variance(), 1e-5)):
        problem = ca.Problem(logged, risk, caution)
        assert ca.solve(problem).status is ca.Status.SOLVED
    seen = logged.log.state_labels
    share = logged.transitions.toarray().reshape(*logged.shape, -1)
    truth = mdp.transitions.toarray().reshape(*mdp.shape, -1)[np.ix_(seen, range(mdp.n_actions), seen)]
    often = logged.counts > 1000
    assert often.any()
    assert np.abs(share - truth)[often].max() < 0.05


def test_order_and_kind_of_the_table_do_not_matter(tmp_path):
    frame = pd.DataFrame(ROWS * 5 + [("c", "y", -1.0, "a")], columns=["state", "action", "reward", "next_state"])
    path = tmp_path / "log.csv"
    frame.to_csv(path, index=False)
    frame.to_parquet(tmp_path / "log.parquet")
    tables = [frame.sample(frac=1, random_state=0), pl.DataFrame(frame), path, tmp_path / "log.parquet"]
    tables += [list(frame.itertuples(index=False, name=None)), frame.to_dict("list")]
    models = [ca.from_transitions(table, 0.9, untried="forbid") for table in tables]
    for model in models[1:]:
        assert model.state_names == models[0].state_names
        for name in ("counts", "rewards", "allowed", "start"):
            assert np.array_equal(getattr(model, name), getattr(models[0], name)), name
        assert (model.transitions != models[0].transitions).nnz == 0
    renamed = frame.rename(columns={"state": "ward", "reward": "gain"})
    other = ca.from_transitions(renamed, 0.9, untried="forbid", names={"state": "ward", "reward": "gain"})
    assert np.array_equal(other.counts, models[0].counts)


def test_what_was_never_tried():
    with pytest.raises(ca.InputError, match=r"1 pair was never tried, such as action 'y' in state 'a' and 1 state was"):
        ca.from_transitions(ROWS, 0.9)
    with pytest.warns(ca.CautiousWarning, match="never left, such as 'c'.* pay 0 for ever"):
        forbid = ca.from_transitions(ROWS, 0.9, untried="forbid")
    assert forbid.allowed.tolist() == [[True, False], [True, True], [True, True]]
    low = ca.from_transitions(ROWS, 0.9, untried="pessimistic", reward_range=(-1, 5))
    high = ca.from_transitions(ROWS, 0.9, untried="optimistic", reward_range=(-1, 5))
    best = {name: ca.solve(ca.Problem(mdp)).multipliers for name, mdp in (("low", low), ("high", high))}
    # by hand: c is worth -1/(1-0.9) or 5/(1-0.9); b goes to a for ever, or to c
    a = (1 + 0.9 * 0.0) / (1 - 0.81)
    assert best["low"][:3] == pytest.approx([a, 0.9 * a, -10], abs=1e-4)
    assert best["high"][:3] == pytest.approx([50, 2 + 0.9 * 50, 50], abs=1e-4)
    # where everything was tried there is nothing to choose
    whole = ca.from_transitions([*ROWS, ("a", "y", 0, "a"), ("c", "x", 0, "a"), ("c", "y", 0, "c")], 0.9)
    assert whole.allowed.all()
    assert whole.n_states == 3


def ended(next_state="dead", done=(0, 1, 0, 0, 1)):
    return {
        "episode": [1, 1, 2, 2, 2],
        "state": ["a", "b", "a", "b", "a"],
        "action": [0] * 5,
        "reward": [1, 2, 1, 1, 1],
        "next_state": ["b", next_state, "b", "a", "b"],
        "done": list(done),
    }


def test_ends():
    with pytest.raises(ca.InputError, match='at_end="absorb" or at_end="restart"'):
        ca.from_transitions(ended(), 0.9)
    absorb = ca.from_transitions(ended(), 0.9, at_end="absorb")
    assert absorb.state_names == ("a", "b", "dead", "end")
    expected = [[0, 2 / 3, 0, 1 / 3], [0.5, 0, 0.5, 0], [0, 0, 1, 0], [0, 0, 0, 1]]
    assert absorb.transitions.toarray() == pytest.approx(np.array(expected))
    assert absorb.rewards.ravel().tolist() == [1, 1.5, 0, 0]
    assert absorb.start.tolist() == [1, 0, 0, 0]
    assert absorb.reward_range == (0, 2)
    restart = ca.from_transitions(ended(), 0.9, at_end="restart", start={"a": 0.25, "b": 0.75})
    assert restart.state_names == ("a", "b", "dead")
    assert restart.transitions.toarray()[0] == pytest.approx([0.25 / 3, 2 / 3 + 0.75 / 3, 0])
    assert restart.transitions.toarray()[1] == pytest.approx([0.5 + 0.125, 0.375, 0])
    assert restart.reward_square.ravel()[:2] == pytest.approx([1, 2.5])
    renamed = {("terminated" if name == "done" else name): column for name, column in ended().items()}
    assert np.array_equal(ca.from_transitions(renamed, 0.9, at_end="absorb").rewards, absorb.rewards)


def test_a_restart_does_not_begin_where_everything_ended():
    table = {"state": ["a", "a"], "action": ["x", "x"], "reward": [1.0, 3.0], "next_state": ["a", "goal"]}
    table["done"] = [False, True]
    for start in (None, "uniform", {"a": 1.0}):
        logged = ca.from_transitions(table, 0.9, at_end="restart", start=start)
        assert logged.start.tolist() == [1, 0]
        assert logged.transitions.toarray()[0].tolist() == [1, 0]
    for start in ({"a": 0.5, "goal": 0.5}, [0.0, 1.0]):
        with pytest.raises(
            ca.InputError, match="all is over in state 'goal', so at_end=\"restart\" cannot begin there"
        ):
            ca.from_transitions(table, 0.9, at_end="restart", start=start)


def test_starts():
    rows = [*ROWS, ("c", "x", 0.0, "a"), ("c", "y", 0.0, "a"), ("a", "y", 0.0, "a")]
    assert ca.from_transitions(rows, 0.9).start == pytest.approx(np.full(3, 1 / 3))
    assert ca.from_transitions(rows, 0.9, start={"b": 1.0}).start.tolist() == [0, 1, 0]
    assert ca.from_transitions(rows, 0.9, start="b").start.tolist() == [0, 1, 0]
    assert ca.from_transitions(rows, 0.9, start=[0.5, 0.25, 0.25]).start.tolist() == [0.5, 0.25, 0.25]
    assert ca.from_transitions(ended(), 0.9, at_end="absorb", start="uniform").start[:3] == pytest.approx([1 / 3] * 3)
    for start, message in (
        ({"z": 1.0}, "state 'z' is not in the log; it has 3, such as 'a'"),
        ({"a": 0.5}, "start sums to 0.5"),
        ("z", "state 'z' is not in the log"),
        ([1.0], "start has shape"),
    ):
        with pytest.raises(ca.InputError, match=message):
            ca.from_transitions(rows, 0.9, start=start)


def test_episodes_and_steps_put_rows_together(tmp_path):
    table = {
        "episode": ["p", "q", "p", "q"],
        "step": [1, 8, 0, 7],
        "state": ["b", "b", "a", "a"],
        "action": ["x"] * 4,
        "reward": [2, 4, 1, 3],
        "next_state": ["a", "a", "b", "b"],
    }
    logged = ca.from_transitions(table, 0.9)
    assert logged.log.rewards.tolist() == [1, 2, 3, 4]
    assert logged.log.first.tolist() == [0, 2]
    assert logged.start.tolist() == [1, 0]
    path = tmp_path / "log.csv"
    for change, message in (
        ({"step": [1, 9, 0, 7]}, "line 3: step 9 follows step 7 of this episode; steps count up by one"),
        ({"step": [1, 8, 1, 7]}, "line 4: step 1 follows step 1"),
        ({"step": [1, 8, -1, 7]}, "line 4: the step is -1; expected a whole number of at least 0"),
        ({"step": [1, 8, "x", 7]}, "line 4: the step is 'x'; expected a whole number"),
        (
            {"next_state": ["a", "a", "a", "b"]},
            "line 2: the episode goes on in state 'b', but the row before it led to 'a'",
        ),
        ({"done": [0, 0, 1, 0]}, "line 4: this row ends its episode, but it is not the last one of it"),
    ):
        pd.DataFrame(table | change).to_csv(path, index=False)
        with pytest.raises(ca.FileError, match=message):
            ca.from_transitions(path, 0.9, at_end="absorb")


def test_labels_of_any_kind():
    rows = [((0, 0), 1, 0.0, (0, 1)), ((0, 1), "1", 1.0, (0, 0)), ((0, 0), "1", 1.0, (0, 0)), ((0, 1), 1, 1.0, (0, 0))]
    logged = ca.from_transitions(rows, 0.9)
    assert logged.state_names == ("(0, 0)", "(0, 1)")
    assert logged.action_names == ("1", "'1'")
    assert logged.state_number((0, 1)) == 1
    assert logged.action_number("1") == 1
    with pytest.raises(ca.InputError, match=r"state \(9, 9\) is not in the log"):
        logged.state_number((9, 9))


def test_random_rewards_keep_their_moments():
    rng = np.random.default_rng(0)
    n = 500
    frame = pd.DataFrame({"state": rng.integers(2, size=n), "action": 0, "reward": rng.normal(size=n)})
    frame["next_state"] = rng.integers(2, size=n)
    logged = ca.from_transitions(frame, 0.9)
    d = np.array([[0.3], [0.7]])
    means, squares = (frame.assign(r=frame.reward**k).groupby("state")["r"].mean() for k in (1, 2))
    variance = 0.3 * squares[0] + 0.7 * squares[1] - (0.3 * means[0] + 0.7 * means[1]) ** 2
    assert ca.Problem(logged, ca.Variance(), 1.0).risk_value(d) == pytest.approx(variance)
    with pytest.raises(ca.IncompatibleError, match="CVaR"):
        ca.Problem(logged, ca.CVaR(0.9), 1.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"untried": "ignore"}, 'untried is \'ignore\'; expected "forbid", "pessimistic" or "optimistic"'),
        ({"at_end": "stop"}, 'at_end is \'stop\'; expected "absorb" or "restart"'),
        ({"discount": 1.5}, "discount is 1.5"),
        ({"reward_range": (0, 1)}, r"row 1 .*the reward is 2; reward_range promises 0 to 1"),
        ({"reward_range": (1, 0)}, "low must not exceed high"),
        ({"names": {"state": "ward"}}, "no column 'ward'"),
        ({"table": [("a", "x", float("nan"), "b")]}, "'reward' is missing"),
        (
            {"table": {"state": [1], "action": [1], "reward": [1], "next_state": [1], "step": [0]}},
            "steps but no episodes",
        ),
        ({"table": ended() | {"terminated": [0] * 5}}, 'the columns "done" and "terminated"'),
    ],
)
def test_refusals(change, message):
    given = {"table": ROWS, "discount": 0.9, "untried": "pessimistic"} | change
    with pytest.raises(ca.InputError, match=message):
        ca.from_transitions(given.pop("table"), given.pop("discount"), **given)


def test_the_benchmark_counts_what_pandas_counts(tmp_path, monkeypatch):
    folder = Path(__file__).parents[2] / "benchmarks"
    monkeypatch.syspath_prepend(str(folder))
    bench = runpy.run_path(str(folder / "logged.py"), run_name="benchmark")
    for suffix in ("csv", "parquet"):
        path = tmp_path / f"log.{suffix}"
        bench["write"](path, 60_000)
        row = bench["measure"](path, 60_000)
        assert 0 < row["read and count"] < row["to a policy"]


def test_numbers_of_pairs_are_wider_than_codes():
    one = np.array([2**30], dtype=np.int32)
    log = Log(
        one, one * 0 + 2, np.zeros(1), one, np.zeros(1, bool), None, (), ("x", "y", "z"), lambda row, why: None, {}
    )
    assert log.pairs.tolist() == [3 * 2**30 + 2]


def test_where_a_log_breaks_off_is_not_an_end():
    """One row ends in b; another leads there and the log breaks off: what follows it is not known, and is not 0."""
    table = {"state": ["a", "a"], "action": ["go"] * 2, "reward": [-1.0] * 2, "next_state": ["b"] * 2}
    with pytest.warns(ca.CautiousWarning, match="1 state was reached .* such as 'b'.* pay -1 for ever"):
        logged = ca.from_transitions(
            table | {"done": [True, False]}, 0.5, untried="forbid", at_end="absorb", start={"a": 1.0}
        )
    assert logged.state_names == ("a", "b", "end")
    # -1 now, then with chance 1/2 -1 for ever
    assert ca.solve(ca.Problem(logged)).expected_return == pytest.approx(-1 - 0.5 * 0.5 * 2)
    ended = ca.from_transitions(table | {"done": [True] * 2}, 0.5, at_end="absorb", start={"a": 1.0})
    assert ended.state_names == ("a", "b")
    assert ca.solve(ca.Problem(ended)).expected_return == pytest.approx(-1)


def test_a_start_may_be_written_as_text_where_that_means_one_label():
    rows = [(1, "go", 0.0, 2), (2, "go", 0.0, 1)]
    for start in ({"2": 1.0}, "2", 2):
        assert ca.from_transitions(rows, 0.9, start=start).start.tolist() == [0, 1]
    both = [(1, "go", 0.0, "1"), ("1", "go", 0.0, 1)]
    assert ca.from_transitions(both, 0.9, start={"1": 1.0}).start.tolist() == [0, 1]
    with pytest.raises(ca.InputError, match="start: state '3' is not in the log"):
        ca.from_transitions(rows, 0.9, start={"3": 1.0})


GAPS = {
    "episode": ["x"] * 5,
    "step": [0, 1, 3, 4, 5],
    "state": ["a", "b", "b", "a", "a"],
    "action": ["go"] * 5,
    "reward": [1.0, 2.0, 3.0, 4.0, 5.0],
    "next_state": ["b", "a", "a", "b", "b"],
}


def test_gaps_begin_an_episode_anew():
    with pytest.raises(ca.InputError, match="step 3 follows step 1"):
        ca.from_transitions(GAPS, discount=0.9)
    logged = ca.from_transitions(GAPS, discount=0.9, gaps="split")
    # the row of step 3 follows a missing one, and that of step 5 does not go on where step 4 led
    assert logged.log.first.tolist() == [0, 2, 4]
    whole = ca.from_transitions(
        {name: GAPS[name] for name in ("state", "action", "reward", "next_state")}, discount=0.9
    )
    assert np.array_equal(logged.counts, whole.counts)
    assert np.array_equal(logged.rewards, whole.rewards)
    twice = GAPS | {"step": [0, 1, 1, 4, 5]}
    with pytest.raises(ca.InputError, match="step 1 follows step 1"):
        ca.from_transitions(twice, discount=0.9, gaps="split")


def test_rows_with_missing_cells_are_left_out_with_a_warning():
    table = GAPS | {"reward": [1.0, None, 3.0, 4.0, 5.0]}
    with pytest.warns(ca.CautiousWarning, match="left out, 4 are kept; missing: reward 1"):
        logged = ca.from_transitions(table, discount=0.9, missing="drop", gaps="split")
    assert logged.log.missing == {"reward": 1}
    assert logged.counts.sum() == 4
    with pytest.raises(ca.InputError, match="missing is 'skip'"):
        ca.from_transitions(table, discount=0.9, missing="skip")
    with pytest.raises(ca.InputError, match="gaps is 'skip'"):
        ca.from_transitions(table, discount=0.9, gaps="skip")


@pytest.mark.parametrize(
    "steps",
    [
        ["2026-W52", "2026-W53", "2027-W01"],
        ["30.12.2026", "31.12.2026", "1.1.2027"],
        ["2026-12-30", "2026-12-31T00:00:00", "2027-01-01 00:00"],
        np.arange("2026-12-30", "2027-01-02", dtype="datetime64[D]").astype("datetime64[ns]"),
        [datetime.date(2026, 12, 30), datetime.date(2026, 12, 31), datetime.date(2027, 1, 1)],
        ["2026-11", "2026-12", "2027-01"],
    ],
    ids=["weeks", "dotted", "midnight", "datetime64", "date", "months"],
)
def test_steps_may_be_dates(steps):
    table = {name: GAPS[name][:2] + GAPS[name][3:4] for name in GAPS} | {"step": steps}
    assert ca.from_transitions(table, discount=0.9).log.first.tolist() == [0]


@pytest.mark.parametrize("step", ["2026-W54", "31.2.2026", "2026-13", "2026-02-30", "2026-03-09 14:00"])
def test_days_that_do_not_exist_are_no_steps(step):
    table = {name: GAPS[name][:1] for name in GAPS} | {"step": [step]}
    with pytest.raises(ca.InputError, match="the step is"):
        ca.from_transitions(table, discount=0.9)
