"""What the page of a solution says: differences, contributions, requirements, limits, estimates."""

import dataclasses

import numpy as np
import pytest

import cautious as ca
from cautious.report.contributions import contributions, price
from cautious.report.requirements import barrier_requirements
from cautious.report.solution_page import write_report
from cautious.report.words import number
from page_reader import read


@pytest.mark.usefixtures("quick_pictures")
def test_the_page_says_what_is_done_differently(tmp_path):
    solution = ca.solve(ca.worlds.problem("machine_replacement"))
    solution.report(tmp_path / "page.html")
    words = read(tmp_path / "page.html")[1].words.split("What it does differently")[1].split("Which states")[0]
    neutral = ca.solve(ca.Problem(solution.mdp)).policy
    changed = np.flatnonzero((np.abs(solution.policy - neutral).max(axis=1) > 0.01) & solution.reached)
    assert f"in {changed.size} of {np.count_nonzero(solution.reached)} visited states" in words
    for state in changed:
        assert solution.mdp.state_names[state] in words
    # repairing early costs good weeks more than it saves bad ones, over a whole episode
    assert "The worst episodes are worse" in read(tmp_path / "page.html")[1].words


@pytest.mark.usefixtures("quick_pictures")
def test_what_is_done_sometimes_is_a_difference(tmp_path):
    """Leaving the first state pays less: only the barrier asks for it, now and then."""
    mdp = ca.MDP(
        np.array([[[1, 0], [0, 1]], [[1, 0], [1, 0]]], float),
        np.array([[1.0, 0.9], [0.9, 0.9]]),
        0.9,
        [1, 0],
        action_names=["stay", "leave"],
    )
    solution = ca.solve(ca.Problem(mdp, ca.SafeSet([1], 0.9), 0.05)).require()
    assert 0.01 < solution.policy[0, 1] < 0.5
    solution.report(tmp_path / "page.html")
    words = read(tmp_path / "page.html")[1].words.split("What it does differently")[1].split("Which states")[0]
    assert "The policy differs in 1 of 2 visited states" in words
    stay, leave = (f"{100 * chance:.0f}\N{NO-BREAK SPACE}%" for chance in solution.policy[0])
    # the next cell is that of the risk-neutral policy, which always stays
    assert f"stay ({stay}), leave ({leave})stay\n" in words
    ca.solve(ca.Problem(mdp, ca.SafeSet([0], 0.9), 0.05)).require().report(tmp_path / "same.html")
    assert "in every visited state it does what the risk-neutral policy does" in read(tmp_path / "same.html")[1].words


@pytest.mark.usefixtures("quick_pictures")
def test_first_order_conditions_are_not_called_a_bound_on_all_policies(tmp_path):
    class Corner(ca.Risk):
        convex, smooth = False, True

        def value(self, d):
            return -float((d**2).sum())

        def gradient(self, d):
            return -2 * d

    solution = ca.solve(ca.Problem(ca.worlds.river_swim(), Corner(), 3.0))
    assert solution.status is ca.Status.STATIONARY
    solution.report(tmp_path / "page.html")
    words = read(tmp_path / "page.html")[1].words
    assert "No policy close by exceeds" in words
    assert "No policy exceeds" not in words
    assert "gap to the best possible" not in words


@pytest.mark.usefixtures("quick_pictures")
def test_a_prior_of_demonstrations_is_explained(tmp_path):
    mdp = ca.worlds.river_swim()
    prior = ca.demonstrations([[0, 1, 2, 3]], mdp, smoothing=0.1, at_end="absorb")
    ca.solve(ca.Problem(mdp, 2.0 * ca.KL(prior) + ca.CVaR(0.9), caution=1.0)).report(tmp_path / "page.html")
    words = read(tmp_path / "page.html")[1].words
    assert prior.statement in words
    assert "over the worst 10 % of the steps" in words


@pytest.mark.usefixtures("quick_pictures")
def test_the_page_says_which_states_carry_the_risk(maze_solution, tmp_path):
    maze_solution.report(tmp_path / "page.html")
    _, page = read(tmp_path / "page.html")
    found = contributions(maze_solution)
    top = int(np.argmax(found.by_state))
    row = (
        maze_solution.mdp.state_names[top],
        number(found.by_state[top], 4),
        number(price(maze_solution, top), 3),
    )
    words = page.words.split("Which states carry the risk")[1]
    for cell in row:
        assert cell in words


@pytest.mark.usefixtures("quick_pictures")
def test_an_infeasible_solution_has_a_page_that_names_the_requirement(infeasible_solution, tmp_path):
    path = tmp_path / "infeasible.html"
    write_report(infeasible_solution, path)
    _, page = read(path)
    assert "No policy meets all requirements" in page.words
    assert "proved best" not in page.words
    assert "What cannot be met" in page.sections
    assert infeasible_solution.certificate.statement in page.words
    (demand,) = barrier_requirements(infeasible_solution)
    assert demand.limit == 0.99
    reached = f"{100 * demand.reached:.2f}"
    name = infeasible_solution.mdp.state_names[0]
    for cell in (f"share of time in {name}", "99\N{NO-BREAK SPACE}%", f"{reached}\N{NO-BREAK SPACE}%"):
        assert cell in page.words.split("What cannot be met")[1]
    assert f"the discounted time in {name}; the policy that comes closest: {reached} %" in page.words
    best = infeasible_solution.certificate.facts["best_reachable"]
    assert f"No policy gets beyond {best:.9g}" in page.words
    assert "What one unit of caution buys" not in page.sections


def test_a_barrier_says_what_is_left(tmp_path):
    problem = ca.worlds.problem("inventory")
    solution = ca.solve(problem)
    solution.report(tmp_path / "page.html")
    _, page = read(tmp_path / "page.html")
    (demand,) = barrier_requirements(solution)
    assert np.exp(-solution.risk) == pytest.approx(demand.reached - demand.limit)
    words = page.words.split("How close the requirements are")[1].split("Next to")[0]
    assert number(demand.reached - demand.limit, 3) in words
    # the risk-neutral policy runs out of stock too often
    neutral = ca.solve(ca.Problem(problem.mdp)).occupancy
    served = number(np.sum(problem.unbound_risk.task_rewards[0] * neutral) / (1 - problem.mdp.discount), 6)
    asked = f"at least {number(demand.limit, 6)}"
    assert f"breaks the requirement ({served} instead of {asked}); no policy" in page.words
    assert "at an infinite risk" not in page.words
    # contributions to a barrier near its limit say nothing
    assert "Which states carry the risk" not in page.sections
    assert (tmp_path / "page.html").stat().st_size < 1_500_000


@pytest.mark.usefixtures("quick_pictures")
def test_a_run_that_was_cut_short_says_so(tmp_path):
    problem = ca.Problem(ca.worlds.garnet(), ca.Entropy(), 2.0)
    stopped = ca.solve(problem, tolerance=1e-16, callback=lambda progress: True)
    assert stopped.status is ca.Status.STOPPED
    stopped.report(tmp_path / "page.html")
    _, page = read(tmp_path / "page.html")
    assert "not proved best" in page.words
    assert "stopped on request" in page.words
    assert "this one is not proved best itself" in page.words


@pytest.mark.usefixtures("quick_pictures")
@pytest.mark.parametrize("status", [ca.Status.UNDECIDED, ca.Status.TIME_LIMIT])
def test_a_policy_without_a_finite_risk_is_no_answer(infeasible_solution, tmp_path, status):
    proof = dataclasses.replace(infeasible_solution.certificate, kind="undecided")
    unknown = dataclasses.replace(infeasible_solution, status=status, certificate=proof, gap=np.inf)
    unknown.report(tmp_path / "page.html")
    words = read(tmp_path / "page.html")[1].words
    assert "none is excluded" in words
    # a limit may be the reason, and not the precision of numbers
    assert "it is not proved that there is none" in words
    assert "double precision" not in words


@pytest.mark.usefixtures("quick_pictures")
def test_a_risk_neutral_solution_needs_no_comparison(chain, tmp_path):
    path = tmp_path / "neutral.html"
    write_report(ca.solve(ca.Problem(chain)), path)
    words = "".join(read(path)[1].text)
    assert "risk plays no part" in words
    assert "risk-neutral policy" not in words


@pytest.mark.usefixtures("quick_pictures")
def test_a_learned_solution_says_what_is_estimated(tmp_path):
    learned = ca.learn(ca.worlds.maze().simulator(), ca.Variance(), caution=10.0, samples=20_000, seed=4)
    learned.report(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert "learned from samples" in text
    assert "expected return (counted model)" in text
    assert learned.certificate.statement in text
    assert "samples=20000, method=&quot;plug-in&quot;, seed=4" in text
    assert "(exact)" not in text
    _, page = read(tmp_path / "page.html")
    assert "n/a" not in page.words
    assert "These figures are estimates" in page.words
    assert "How it was learned" in page.sections


@pytest.mark.parametrize("name", ["maze", "queue"])
@pytest.mark.usefixtures("quick_pictures")
def test_a_policy_learned_without_a_model_has_a_page_without_what_needs_one(name, tmp_path):
    learned = ca.learn(ca.worlds.problem(name).mdp.simulator(), samples=20_000, method="primal-dual")
    assert learned.plot().axes
    learned.report(tmp_path / "page.html")
    _, page = read(tmp_path / "page.html")
    assert "No model was counted" in page.words
    assert number(learned.expected_return) in page.words
    assert learned.certificate.statement in page.words
    assert page.sections == [
        "The problem",
        "This policy",
        "What the policy does",
        "How it was learned",
        "How sure is this",
        "How to reproduce it",
    ]
    learned.save(tmp_path / "s.npz")
    ca.load(tmp_path / "s.npz").report(tmp_path / "again.html")
    assert (tmp_path / "again.html").read_bytes() == (tmp_path / "page.html").read_bytes()


def test_a_map_learned_without_a_model_has_arrows():
    learned = ca.learn(ca.worlds.maze().simulator(), samples=20_000, method="primal-dual")
    assert len(learned.plot().axes[0].collections) > 2


@pytest.mark.usefixtures("quick_pictures")
def test_the_page_says_where_it_starts(pump, tmp_path):
    for start, words in (
        ([1, 0, 0, 0, 0], "It starts in new."),
        (None, "The first state is drawn evenly from all states."),
        ([0.5, 0.5, 0, 0, 0], "The first state is drawn evenly from 2 states."),
        ([0.4, 0.6, 0, 0, 0], "The first state is drawn from 2 states."),
    ):
        mdp = ca.MDP(
            pump.transitions, pump.rewards, pump.discount, start, allowed=pump.allowed, state_names=pump.state_names
        )
        ca.solve(ca.Problem(mdp)).report(tmp_path / "page.html")
        assert words in read(tmp_path / "page.html")[1].words


@pytest.mark.usefixtures("quick_pictures")
def test_without_risk_no_state_carries_any(pump, tmp_path):
    solution = ca.solve(ca.Problem(pump, ca.PeakExposure([["broken"], ["leaking"]]), 3e6))
    solution.report(tmp_path / "page.html")
    words = read(tmp_path / "page.html")[1].words.split("Which states carry the risk")[1].split("What one unit")[0]
    assert "No state adds to the risk, which is 0." in words
    assert "price" not in words


@pytest.mark.usefixtures("quick_pictures")
def test_what_is_learned_from_a_log_has_no_course(tmp_path):
    rng = np.random.default_rng(0)
    rows = [(int(s), int(a), float(s), int(t)) for s, a, t in rng.integers(2, size=(4000, 3))]
    learned = ca.learn(ca.from_transitions(rows, discount=0.5, reward_range=(0, 1)))
    learned.report(tmp_path / "page.html")
    page = read(tmp_path / "page.html")[1]
    assert "How it was learned" not in page.sections
    assert learned.certificate.statement in page.words
