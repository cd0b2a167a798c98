"""What figures are about and in which units: solved logs, learned bounds, money and days."""

import dataclasses

import numpy as np
import pytest

import cautious as ca
from cautious.report.frontier_page import write_overview
from cautious.report.plots import plot_behaviour
from cautious.report.sentences import certificate_words
from cautious.report.text_tables import busiest_table, changed_states, solution_table
from cautious.report.trade_off import compare_with_neutral
from cautious.report.words import number, time_steps
from page_reader import read


@pytest.fixture(scope="module")
def logged():
    rng = np.random.default_rng(0)
    pairs = np.repeat([[0, 0], [0, 1], [1, 0], [1, 1]], [400, 300, 290, 10], axis=0)
    rows = [(f"s{s}", f"a{a}", float(s), f"s{t}") for (s, a), t in zip(pairs, rng.integers(2, size=1000), strict=True)]
    return ca.from_transitions(rows, discount=0.5, reward_range=(0, 1))


@pytest.mark.usefixtures("quick_pictures")
def test_a_solved_log_is_proved_best_for_the_counted_model_only(logged, tmp_path):
    solution = ca.solve(ca.Problem(logged, ca.Variance(), 0.1))
    solution.save(tmp_path / "s.npz")
    for number_of, one in enumerate((solution, ca.load(tmp_path / "s.npz"))):
        one.report(tmp_path / f"{number_of}.html")
        text, page = read(tmp_path / f"{number_of}.html")
        assert ">proved best for the counted model<" in text
        assert "Counted from 1,000 logged rows; least tried pair: a1 in s1, 10 times." in page.words
        assert "Nothing is said about the real system; cautious learn (ca.learn) does that." in page.words
        assert "in the counted model no policy beats" in page.words
        assert "(exact)" not in page.words
    write_overview([solution], tmp_path / "f.html")
    assert ">all proved best for the counted model<" in read(tmp_path / "f.html")[0]


@pytest.mark.usefixtures("quick_pictures")
def test_pairs_that_were_never_tried_are_counted(tmp_path):
    rows = [("a", "x", 1.0, "a"), ("a", "x", 1.0, "b"), ("b", "y", 0.0, "a")]
    solution = ca.solve(ca.Problem(ca.from_transitions(rows, discount=0.5, untried="pessimistic")))
    solution.report(tmp_path / "page.html")
    words = read(tmp_path / "page.html")[1].words
    assert "3 logged rows; least tried pair: y in b, once; pairs never tried: 2, by assumption." in words


@pytest.mark.usefixtures("quick_pictures")
def test_a_model_that_was_not_counted_says_nothing_of_logs(chain_solution, tmp_path):
    chain_solution.report(tmp_path / "page.html")
    text, page = read(tmp_path / "page.html")
    assert ">proved best<" in text
    assert "counted model" not in page.words
    assert "logged" not in page.words


@pytest.mark.usefixtures("quick_pictures")
def test_a_learned_bound_that_is_not_known_is_not_infinite(chain, tmp_path):
    learned = ca.learn(chain.simulator(), ca.SafeSet([0, 1], slack=0.5), 0.1, samples=20_000)
    claimed = dataclasses.replace(learned.certificate, facts=learned.certificate.facts | {"optimum_below": 7.25})
    silent = dataclasses.replace(learned, upper_bound=np.inf, gap=np.inf, certificate=claimed)
    silent.report(tmp_path / "page.html")
    text, page = read(tmp_path / "page.html")
    assert "7.25, with 95 % confidence; how far below it this policy is, is not known" in page.words
    assert "<b>not known</b>" in text
    assert "∞" not in page.words.split("The problem")[0]
    rows = dict(solution_table(silent).rows)
    assert rows["upper bound"] == rows["gap"] == "not known"
    sure = dataclasses.replace(silent, upper_bound=8.0, gap=0.75)
    assert dict(solution_table(sure).rows)["gap"] == "0.75"
    sure.report(tmp_path / "sure.html")
    assert "how far below" not in read(tmp_path / "sure.html")[1].words


@pytest.mark.usefixtures("quick_pictures")
def test_money_and_days_have_their_names(chain_solution, tmp_path):
    chain_solution.report(tmp_path / "page.html")
    text, page = read(tmp_path / "page.html")
    assert f"<b>{number(chain_solution.expected_return)} kEUR</b>" in text
    assert "one unit of risk is worth 3 kEUR of return" in page.words
    assert "in the next 10 days or so" in page.words
    assert "episodes of 88 days" in page.words
    for row in ("expected return (exact), kEUR", "5\xa0% quantile of the return (computed), kEUR"):
        assert row in page.words
    points = ca.frontier(chain_solution.mdp, ca.Entropy(), [0, 5])
    points.report(tmp_path / "f.html")
    words = read(tmp_path / "f.html")[1].words
    for part in ("expected return, kEUR", "return given up, kEUR", "of return for"):
        assert part in words
    assert f"expected return {number(points[1].expected_return, 4)} kEUR" in words
    assert "The step from caution 0 to 5 gives up" in words


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ("step", "20 steps"),
        ("day", "20 days"),
        ("delivery", "20 deliveries"),
        ("slot of 20 minutes", "20 slots of 20 minutes"),
        ("inch", "20 inches"),
        ("5 minutes", "20 steps"),
        ("", "20 steps"),
    ],
)
def test_steps_are_counted_by_their_name(step, words):
    mdp = ca.MDP(np.ones((1, 1, 1)), np.zeros((1, 1)), 0.5, scene=ca.Scene("", step=step))
    assert time_steps("20", mdp) == words


def test_where_nothing_can_be_done_any_action_is():
    moves = np.array([[[0.0, 1.0], [0.5, 0.5]], [[0.0, 1.0], [0.0, 1.0]]])
    quiet = ca.solve(ca.Problem(ca.MDP(moves, [[1.0, 0.0], [0.0, 0.0]], 0.9, [1, 0]), ca.Variance(), 0.1))
    doing = {row[0]: row[3] for row in busiest_table(quiet).rows}
    assert doing["state 1"] == "any"
    assert doing["state 0"].startswith("action ")
    paid = ca.solve(ca.Problem(ca.MDP(moves, [[1.0, 0.0], [0.0, 0.1]], 0.9, [1, 0])))
    assert {row[0]: row[3] for row in busiest_table(paid).rows}["state 1"] == "action 1"
    # another action there is no difference
    other = quiet.policy.copy()
    other[1] = other[1, ::-1]
    assert changed_states(dataclasses.replace(compare_with_neutral(quiet, episodes=2), neutral_policy=other)) == []


@pytest.mark.usefixtures("quick_pictures")
def test_maps_have_whole_ticks_and_say_what_the_last_cell_is(tmp_path):
    gymnasium = pytest.importorskip("gymnasium")
    lake = ca.from_gym(gymnasium.make("FrozenLake-v1"), discount=0.99, at_end="absorb")
    solution = ca.solve(ca.Problem(lake))
    axes = plot_behaviour(solution).axes[0]
    for ticks in (axes.get_xticks(), axes.get_yticks()):
        assert all(float(tick).is_integer() for tick in ticks)
    solution.report(tmp_path / "page.html")
    words = read(tmp_path / "page.html")[1].words
    assert "It starts in r0c0 (S)." in words
    assert "E, below the map, is where the model stays once an episode has ended." in words


def test_bars_are_labelled_in_percent(chain_solution):
    labels = [text.get_text() for text in plot_behaviour(chain_solution).axes[0].texts]
    assert labels
    assert all(label.endswith(" %") for label in labels)


def test_a_learned_log_says_how_much_it_tried_and_what_the_worst_model_pays(logged):
    learned = ca.learn(logged)
    rows = dict(certificate_words(learned))
    tried = int(np.count_nonzero(logged.counts))
    assert rows["Samples"] == f"1,000 rows of a log, with {tried} different pairs of state and action"
    assert rows["Stress"].startswith("the worst model within the 95 % confidence set of the counts pays this policy")
    assert learned.certificate.facts["stress"] == learned.certificate.facts["objective_at_least"]
