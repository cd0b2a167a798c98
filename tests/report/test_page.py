"""The page: well-formed, self-contained, escaped, and with the numbers in it."""

import builtins
import dataclasses
import os
import signal

import numpy as np
import pytest
import scipy.sparse as sp

import cautious as ca
from cautious.report import trade
from cautious.report.carriers import barrier_requirements, carriers, price
from cautious.report.page import write_report
from cautious.report.recipe import reproduction
from cautious.report.words import number
from cautious.solvers.solve import solve_from
from page_reader import read


def test_a_page_is_self_contained_and_holds_the_numbers(maze_solution, tmp_path):
    path = tmp_path / "maze.html"
    write_report(maze_solution, path, command="cautious solve maze")
    text, page = read(path)
    words = page.words
    for value in (maze_solution.expected_return, maze_solution.risk, maze_solution.caution):
        assert number(value) in words
    assert number(maze_solution.upper_bound, 10) in words
    assert maze_solution.certificate.statement in words
    assert maze_solution.status.value in words
    # the world's docstring states these two figures of the risk-neutral policy: mean -0.807, deviation sqrt(0.1605)
    assert "-0.8074" in words
    assert "0.40056" in words
    assert all(reference.startswith("data:image/png;base64,") for reference in page.references)
    # a map, the returns and the map of the risk, each for light and for dark screens
    assert len(page.references) == 6
    assert path.stat().st_size < 1_500_000
    assert "n/a" not in words.split("What one unit of caution buys")[0]
    assert page.sections == [
        "The problem",
        "Next to the risk-neutral policy",
        "What the policy does",
        "What it does differently",
        "Which states carry the risk",
        "What one unit of caution buys",
        "How sure is this",
        "How to reproduce it",
    ]
    assert "prefers-color-scheme: dark" in text
    assert [one.name for one in tmp_path.iterdir()] == ["maze.html"]


def test_the_same_solution_gives_the_same_bytes(chain_solution, tmp_path):
    for name in ("one.html", "two.html"):
        write_report(chain_solution, tmp_path / name)
    assert (tmp_path / "one.html").read_bytes() == (tmp_path / "two.html").read_bytes()


def test_every_text_of_the_user_is_escaped(chain_solution, tmp_path):
    path = tmp_path / "chain.html"
    write_report(chain_solution, path, command="cautious solve '<img src=x>'")
    text, page = read(path)
    assert "<script>" not in text
    assert "<b>North" not in text
    assert page.tags.count("img") == 3
    words = "".join(page.text)
    assert "<script>alert(1)</script>" in words
    assert "Depot <b>North</b>" in words
    assert "Trucks & 'vans'." in words


@pytest.mark.usefixtures("quick_pictures")
def test_the_page_says_what_is_done_differently(tmp_path):
    solution = ca.solve(ca.worlds.problem("machine_replacement"))
    solution.report(tmp_path / "page.html")
    words = read(tmp_path / "page.html")[1].words.split("What it does differently")[1].split("Which states")[0]
    neutral = ca.solve(ca.Problem(solution.mdp)).policy.argmax(axis=1)
    changed = np.flatnonzero((solution.policy.argmax(axis=1) != neutral) & solution.reached)
    assert f"in {changed.size} of {np.count_nonzero(solution.reached)} visited states" in words
    for state in changed:
        assert solution.mdp.state_names[state] in words
    # repairing early costs good weeks more than it saves bad ones, over a whole episode
    assert "The worst episodes are worse" in read(tmp_path / "page.html")[1].words


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


def test_a_loaded_solution_wants_its_own_model(tmp_path):
    swim, prior = ca.worlds.river_swim(), np.full((6, 2), 1 / 12)
    ca.solve(ca.Problem(swim, ca.KL(prior), 1.0)).save(tmp_path / "s.npz")
    other = ca.MDP(swim.transitions, -100 * swim.rewards, swim.discount, swim.start)
    with pytest.raises(ca.InputError, match="another model"):
        ca.load(tmp_path / "s.npz").report(tmp_path / "p.html", problem=ca.Problem(other, ca.KL(prior), 1.0))
    assert not (tmp_path / "p.html").exists()


@pytest.mark.usefixtures("quick_pictures")
def test_ctrl_c_ends_a_report(maze_solution, tmp_path, monkeypatch):
    def pressed(*arguments):
        os.kill(os.getpid(), signal.SIGINT)
        return solve_from(*arguments)

    monkeypatch.setattr(trade, "solve_from", pressed)
    # neighbours are solved where that is quick, and a first solve may have had to compile
    quick = dataclasses.replace(maze_solution, seconds=0.1)
    with pytest.raises(KeyboardInterrupt):
        quick.report(tmp_path / "page.html")
    assert list(tmp_path.iterdir()) == []


def test_the_settings_of_a_method_are_in_the_recipe():
    simulator = ca.worlds.river_swim().simulator()
    chosen = ca.learn(simulator, samples=2000, method=ca.PlugIn(prove=False))
    assert "method=ca.PlugIn(prove=False), seed=0" in reproduction(chosen)
    assert 'method="plug-in", seed=0' in reproduction(ca.learn(simulator, samples=2000))


@pytest.mark.parametrize("path", ["", ".", "a\0b"])
def test_what_is_no_file_name_is_refused(chain_solution, path):
    with pytest.raises(ca.FileError, match="not the name of a file"):
        chain_solution.save(path)


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
    found = carriers(maze_solution)
    top = int(np.argmax(found.contributions))
    row = (
        maze_solution.mdp.state_names[top],
        number(found.contributions[top], 4),
        number(price(maze_solution, top), 3),
    )
    words = page.words.split("Which states carry the risk")[1]
    for cell in row:
        assert cell in words


@pytest.mark.usefixtures("quick_pictures")
def test_a_loaded_solution_needs_its_problem_for_the_risk_of_others(chain_solution, chain_problem, tmp_path):
    chain_solution.save(tmp_path / "s.npz")
    loaded = ca.load(tmp_path / "s.npz")
    loaded.report(tmp_path / "without.html")
    loaded.report(tmp_path / "with.html", problem=chain_problem)
    without, filled = read(tmp_path / "without.html")[1].words, read(tmp_path / "with.html")[1].words
    assert "does not keep the data of its risk" in without
    assert "neighbouring cautions were not solved" in without
    neutral = ca.solve(ca.Problem(chain_problem.mdp))
    risk = number(max(neutral.occupancy[0].sum(), neutral.occupancy[1].sum()))
    assert f"at a risk of {risk}; no policy" in filled
    chain_solution.report(tmp_path / "fresh.html")
    assert (tmp_path / "fresh.html").read_bytes() == (tmp_path / "with.html").read_bytes()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda problem: problem.with_caution(4.0), "caution 4.0; this solution is of a problem with 3.0"),
        (lambda problem: ca.Problem(problem.mdp, ca.PeakExposure([[2]]), 3.0), "gives this policy the risk"),
        (lambda problem: ca.Problem(ca.worlds.river_swim(), ca.Variance(), 3.0), r"shape \(S, A\) \(6, 2\)"),
        (lambda problem: "maze", "must be a ca.Problem, found str"),
    ],
)
@pytest.mark.usefixtures("quick_pictures")
def test_another_problem_is_refused(chain_solution, chain_problem, tmp_path, change, message):
    with pytest.raises(ca.InputError, match=message):
        chain_solution.report(tmp_path / "page.html", problem=change(chain_problem))
    assert not (tmp_path / "page.html").exists()


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
    for cell in ("SafeSet: share of time in the safe set", "0.99", number(demand.reached, 6)):
        assert cell in page.words
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
    words = page.words.split("How close the requirements are")[1]
    assert number(demand.reached - demand.limit, 3) in words
    # the risk-neutral policy runs out of stock too often
    assert "at an infinite risk; no policy" in page.words
    assert (tmp_path / "page.html").stat().st_size < 1_500_000


@pytest.mark.usefixtures("quick_pictures")
def test_a_run_that_was_cut_short_says_so(tmp_path):
    problem = ca.Problem(ca.worlds.garnet(), ca.Entropy(), 2.0)
    stopped = ca.solve(problem, tolerance=1e-12, callback=lambda progress: True)
    assert stopped.status is ca.Status.STOPPED
    stopped.report(tmp_path / "page.html")
    _, page = read(tmp_path / "page.html")
    assert "not proved best" in page.words
    assert "stopped on request" in page.words
    assert "this one is not proved best itself" in page.words


@pytest.mark.usefixtures("quick_pictures")
def test_a_policy_without_a_finite_risk_is_no_answer(infeasible_solution, tmp_path):
    proof = dataclasses.replace(infeasible_solution.certificate, kind="undecided")
    unknown = dataclasses.replace(infeasible_solution, status=ca.Status.UNDECIDED, certificate=proof, gap=np.inf)
    unknown.report(tmp_path / "page.html")
    assert "none is excluded" in read(tmp_path / "page.html")[1].words


@pytest.mark.usefixtures("quick_pictures")
def test_a_risk_neutral_solution_needs_no_comparison(chain, tmp_path):
    path = tmp_path / "neutral.html"
    write_report(ca.solve(ca.Problem(chain)), path)
    words = "".join(read(path)[1].text)
    assert "risk plays no part" in words
    assert "risk-neutral policy" not in words


@pytest.mark.usefixtures("quick_pictures")
def test_a_model_of_a_hundred_thousand_states_gets_a_small_page(tmp_path):
    n = 100_000
    ahead = sp.csr_array((np.ones(n), (np.arange(n), np.minimum(np.arange(n) + 1, n - 1))), shape=(n, n))
    back = sp.csr_array((np.ones(n), (np.arange(n), np.zeros(n, dtype=int))), shape=(n, n))
    mdp = ca.MDP([ahead, back], np.column_stack([np.zeros(n), np.ones(n)]), 0.5, np.eye(1, n)[0])
    path = tmp_path / "large.html"
    write_report(ca.solve(ca.Problem(mdp)), path)
    assert path.stat().st_size < 1_000_000
    assert "100,000 states" in "".join(read(path)[1].text)


@pytest.mark.usefixtures("quick_pictures")
def test_a_page_that_cannot_be_written_names_the_path(chain_solution, tmp_path):
    with pytest.raises(ca.FileError, match=r"cannot write .*missing"):
        write_report(chain_solution, tmp_path / "missing" / "page.html")


@pytest.mark.usefixtures("quick_pictures")
def test_without_matplotlib_the_extra_is_named(chain_solution, tmp_path, monkeypatch):
    real = builtins.__import__

    def fake(name, *rest):
        if name.startswith("matplotlib"):
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", fake)
    with pytest.raises(ca.MissingExtraError, match=r"pip install cautious\[plot\]"):
        write_report(chain_solution, tmp_path / "page.html")


def test_the_code_to_reproduce_is_python(maze_solution, chain_solution):
    for solution, call in ((maze_solution, "ca.Variance(), caution=10.0"), (chain_solution, "ca.PeakExposure(...)")):
        code = reproduction(solution, "cautious solve maze")
        compile(code, "page", "exec")
        assert call in code


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
