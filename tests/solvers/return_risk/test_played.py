"""Policies with memory are played, saved, evaluated and drawn; the exact figures are those of many episodes."""

import itertools
import json
import math

import numpy as np
import pytest
from typer.testing import CliRunner

import cautious as ca
from cautious.cli import app
from cautious.returns.earnings import earnings_of
from cautious.returns.forward import follow
from cautious.solvers.return_risk import search

RISKS = [
    ca.ReturnVariance(),
    ca.ReturnCVaR(0.9),
    ca.ReturnEntropic(2.0),
    ca.ReturnEVaR(0.9),
    ca.ReturnBelow(0.5),
]
EPISODES = 20_000
# a normal variable is that many standard errors away once in two million times
ERRORS = 5.0


def absorbed(discount=1.0):
    """A walk to an end: a short risky way, and a long safe one that pays less."""
    transitions = np.zeros((4, 2, 4))
    transitions[0, 0] = [0.0, 0.5, 0.5, 0.0]
    transitions[0, 1] = [0.25, 0.0, 0.0, 0.75]
    transitions[1, :] = transitions[2, :] = [0.25, 0.0, 0.0, 0.75]
    transitions[3, :, 3] = 1.0
    rewards = np.zeros((4, 2))
    rewards[0] = [1.0, 0.5]
    rewards[1], rewards[2] = 2.0, -1.0
    return ca.MDP(transitions, rewards, discount, start=np.eye(4)[0])


@pytest.fixture(scope="module")
def swim():
    return ca.worlds.river_swim(discount=0.9)


@pytest.fixture(scope="module")
def solutions(swim):
    """For ever and over 12 steps, one of each risk."""
    return {
        (risk, horizon): ca.solve(ca.Problem(swim, risk, 1.0, horizon=horizon), tolerance=2e-2)
        for risk in RISKS
        for horizon in (None, 12)
    }


def simulated_risk(risk, returns):
    """The risk of a sample, and its standard error."""
    n = returns.size
    match risk:
        case ca.ReturnVariance():
            squares = (returns - returns.mean()) ** 2
            return squares.mean(), squares.std() / math.sqrt(n)
        case ca.ReturnBelow():
            below = (returns < risk.threshold).astype(float)
            return below.mean(), below.std() / math.sqrt(n)
        case ca.ReturnCVaR():
            tail = 1 - risk.level
            at = np.quantile(returns, tail)
            losses = np.maximum(at - returns, 0) / tail - at
            return losses.mean(), losses.std() / math.sqrt(n)
    powers = np.exp(-risk.rate * returns)
    return math.log(powers.mean()) / risk.rate, powers.std() / powers.mean() / risk.rate / math.sqrt(n)


@pytest.mark.parametrize("horizon", [None, 12])
@pytest.mark.parametrize("risk", RISKS, ids=lambda risk: risk.label)
def test_many_episodes_agree_with_the_exact_figures(swim, solutions, risk, horizon):
    solution = solutions[risk, horizon]
    found = ca.evaluate(swim, solution, episodes=EPISODES, sets={"bank": [0]})
    assert found.exact_mean == pytest.approx(solution.expected_return, abs=1e-9)
    late = found.truncation_error
    assert abs(found.mean - found.exact_mean) < ERRORS * found.standard_error + late
    squares = (found.returns - found.mean) ** 2
    assert abs(found.variance - found.exact_variance) < ERRORS * squares.std() / math.sqrt(EPISODES) + 10 * late
    assert found.exposure["bank"] == pytest.approx(found.exact_exposure["bank"], abs=0.02)
    if not isinstance(risk, ca.ReturnEVaR):
        value, error = simulated_risk(risk, found.returns)
        # what is open about the risk is part of the gap
        assert value <= solution.risk + ERRORS * error + 10 * late
        assert value >= solution.risk - solution.gap - ERRORS * error - 10 * late


@pytest.mark.parametrize("horizon", [None, 12])
@pytest.mark.parametrize("risk", RISKS, ids=lambda risk: risk.label)
def test_the_averages_of_a_policy_have_its_occupancy(swim, solutions, risk, horizon):
    solution = solutions[risk, horizon]
    assert np.allclose(solution.policy.sum(axis=-1), 1)
    assert solution.occupancy.sum() == pytest.approx(1, abs=1e-12)
    seen = ca.Problem(swim, horizon=horizon).mdp
    assert ca.evaluate(seen, solution.policy, episodes=2).exact_mean == pytest.approx(
        solution.expected_return, abs=1e-9
    )
    assert solution.objective == pytest.approx(solution.expected_return - solution.risk, abs=1e-9)


@pytest.mark.parametrize("horizon", [None, 12])
def test_an_agent_plays_what_evaluate_simulates(swim, solutions, horizon):
    solution = solutions[RISKS[1], horizon]
    agent, simulator, earned = solution.agent(), swim.simulator(), []
    rng = np.random.default_rng(0)
    for episode in range(400):
        agent.reset(seed=episode)
        (state,), total = simulator.start_states(1, rng), 0.0
        for step in range(60 if horizon is None else horizon):
            action = agent.act(int(state))
            (state,), (reward,) = simulator.sample(np.array([state]), np.array([action]), rng)
            agent.observe(reward, state)
            total += swim.discount**step * reward
        earned.append(total)
    assert abs(np.mean(earned) - solution.expected_return) < ERRORS * np.std(earned) / 20 + 0.02


def test_an_agent_plays_policies_without_memory_and_with_other_memory():
    machine = ca.worlds.machine_replacement()
    plain = ca.solve(ca.Problem(machine))
    agent = plain.agent()
    agent.reset(seed=0)
    assert agent.act("broken") == plain.policy[-1].argmax()
    steps = ca.solve(ca.Problem(machine, horizon=3)).agent()
    for state in ("broken", 0, 1):
        steps.act(state)
        steps.observe(0.0, state)
    with pytest.raises(ca.InputError, match="3 steps, and so many were taken"):
        steps.act(0)
    once = ca.MDP(machine.transitions, machine.rewards, 1.0, machine.start, allowed=machine.allowed)
    limit = ca.Reach([4]) <= 0.5
    solution = ca.solve(ca.Problem(once, constraints=[limit], horizon=6))
    played = solution.agent()
    played.reset(seed=1)
    state, code = 0, None
    rng = np.random.default_rng(1)
    for next_state in (1, 4, 2, 3):
        expected, code = solution.predict(state, code, rng=rng)
        assert played.act(state) == expected
        played.observe(0.0, next_state)
        state = next_state


@pytest.mark.parametrize("horizon", [None, 12])
@pytest.mark.parametrize("risk", RISKS, ids=lambda risk: risk.label)
def test_files_keep_the_memory(swim, solutions, tmp_path, risk, horizon):
    solution = solutions[risk, horizon]
    solution.save(tmp_path / "solution.npz")
    loaded = ca.load(tmp_path / "solution.npz")
    assert (loaded.objective, loaded.gap, loaded.risk) == (solution.objective, solution.gap, solution.risk)
    assert loaded.memory_policy.n_memories == solution.memory_policy.n_memories
    first, second = (ca.evaluate(swim, one, episodes=50).returns for one in (solution, loaded))
    assert np.array_equal(first, second)
    loaded.report(tmp_path / "page.html")
    assert "remembers" in (tmp_path / "page.html").read_text()


def test_broken_memories_in_files_are_refused(swim, solutions, tmp_path):
    from cautious import storage

    header, arrays = solutions[RISKS[0], None].to_storage(witness=False)
    for name, change in [
        ("memory_policy.actions", lambda array: array + 5),
        ("memory_policy.starts", lambda array: array[::-1]),
        ("memory_policy.runs", lambda array: array + 1),
        ("memory_policy.grids", lambda array: array * np.nan),
        ("memory_policy.grids", lambda array: -array),
        ("memory_policy.scales", lambda array: array[1:]),
        ("memory_policy.policy_after", lambda array: array * 0),
    ]:
        storage.write(tmp_path / "bad.npz", "solution", header, arrays | {name: change(arrays[name])})
        with pytest.raises(ca.FileError):
            ca.load(tmp_path / "bad.npz")


@pytest.mark.parametrize("risk", [RISKS[0], RISKS[1], RISKS[2], ca.ReturnBelow(1.0)], ids=lambda risk: risk.label)
def test_until_an_end_is_like_many_steps(risk):
    """The walk is over after 60 steps but for 1e-30; the same problem over these steps has a list of sums or a grid."""
    ending = ca.solve(ca.Problem(absorbed(), risk, 0.7, horizon="total"), tolerance=1e-3)
    steps = ca.solve(ca.Problem(absorbed(), risk, 0.7, horizon=60), tolerance=1e-3)
    assert ending.objective <= steps.upper_bound + 1e-9
    assert steps.objective <= ending.upper_bound + 1e-9
    assert ending.certificate.kind == "global"
    found = ca.evaluate(absorbed(), ending, episodes=4000)
    assert abs(found.mean - found.exact_mean) < ERRORS * found.standard_error


def test_one_step_is_known_in_closed_form():
    """A fair coin for 0 or 2 against 0.8 for certain."""
    coin = ca.MDP(np.full((2, 2, 2), 0.5), np.array([[[0.0, 2.0], [0.8, 0.8]]] * 2), 1.0, start=np.array([1.0, 0.0]))

    def best(risk, caution):
        return ca.solve(ca.Problem(coin, risk, caution, horizon=1)).require().objective

    assert best(ca.ReturnVariance(), 0.1) == pytest.approx(1 - 0.1)
    assert best(ca.ReturnVariance(), 0.3) == pytest.approx(0.8)
    assert best(ca.ReturnCVaR(0.75), 0.1) == pytest.approx(1.0)
    assert best(ca.ReturnCVaR(0.75), 1.0) == pytest.approx(1.6)
    assert best(ca.ReturnEntropic(1.0), 0.1) == pytest.approx(1 - 0.1 * math.log((1 + math.exp(-2)) / 2))
    assert best(ca.ReturnBelow(0.8), 0.3) == pytest.approx(1 - 0.15)
    assert best(ca.ReturnBelow(0.8), 0.5) == pytest.approx(0.8)


@pytest.mark.parametrize("horizon", [None, 12])
def test_predict_remembers_what_the_model_pays(swim, solutions, horizon):
    solution, environment = solutions[RISKS[1], horizon], ca.to_gym(swim)
    agent, steps = solution.agent(), 12 if horizon is None else horizon
    for episode in range(20):
        observation, _ = environment.reset(seed=episode)
        agent.reset(seed=0)
        state = None
        for _ in range(steps):
            action, state = solution.predict(observation, state)
            assert action == agent.act(int(observation))
            observation, reward, *_ = environment.step(action)
            agent.observe(float(reward), int(observation))
    many, memory = solution.predict([0, 1, 2])
    again, _ = solution.predict([0, 1, 2], memory, episode_start=[True, True, True])
    assert np.array_equal(many, again)
    with pytest.raises(ca.InputError, match="what predict returned"):
        solution.predict(0, 3)
    with pytest.raises(ca.InputError, match=r"no way from state 0 with action .*agent\(\)"):
        solution.predict(5, solution.predict(0)[1])


def test_what_cannot_be_asked_is_refused(swim, solutions):
    cvar, solved = ca.ReturnCVaR(0.9), solutions[RISKS[1], None]
    with pytest.raises(ca.IncompatibleError, match="no episode ends"):
        ca.Problem(ca.worlds.river_swim(discount=1.0), cvar, horizon="average")
    with pytest.raises(ca.IncompatibleError, match="part of a sum"):
        ca.Problem(swim, cvar + ca.Variance())
    with pytest.raises(ca.IncompatibleError, match="cannot be combined with Variance"):
        ca.Problem(swim, ca.Variance(), constraints=[cvar <= 1])
    with pytest.raises(ca.IncompatibleError, match="combined with constraints"):
        ca.Problem(swim, cvar, constraints=[ca.Exposure([0]) <= 0.5])
    with pytest.raises(ca.IncompatibleError, match="leave out deterministic"):
        ca.solve(ca.Problem(swim, cvar), deterministic=True)
    with pytest.raises(ca.IncompatibleError, match="cannot be verified"):
        ca.verify(solved)
    with pytest.raises(ca.IncompatibleError, match="only plug-in learns ReturnCVaR"):
        ca.learn(swim.simulator(), cvar, caution=1.0, samples=2000, method="primal-dual")
    with pytest.raises(ca.IncompatibleError, match="rewards of the outcomes"):
        ca.Problem(ca.MDP(swim.transitions, swim.rewards, 0.9, reward_square=swim.rewards**2 + 1), cvar)
    with pytest.raises(ca.IncompatibleError, match="discount"):
        ca.evaluate(ca.worlds.river_swim(discount=0.8), solved)
    for bad in (ca.ReturnCVaR(1.0), ca.ReturnEVaR(0.0), ca.ReturnEntropic(0.0), ca.ReturnBelow(math.nan)):
        with pytest.raises(ca.InputError, match=type(bad).__name__):
            ca.Problem(swim, bad)


def test_weights_limits_and_requests_are_obeyed(swim):
    twice = ca.solve(ca.Problem(swim, 2.0 * ca.ReturnVariance(), 0.5), tolerance=1e-4)
    once = ca.solve(ca.Problem(swim, ca.ReturnVariance(), 1.0), tolerance=1e-4)
    assert twice.objective == pytest.approx(once.objective, abs=1e-9)
    assert twice.risk == pytest.approx(2 * once.risk, abs=1e-9)
    stopped = ca.solve(ca.Problem(swim, ca.ReturnCVaR(0.9)), callback=lambda progress: True)
    assert stopped.status is ca.Status.STOPPED
    assert stopped.upper_bound >= once.objective
    limited = ca.solve(ca.Problem(swim, ca.ReturnCVaR(0.9)), time_limit_seconds=1e-6)
    assert limited.status is ca.Status.TIME_LIMIT
    assert np.isfinite(limited.gap)
    neutral = ca.solve(ca.Problem(swim, ca.ReturnCVaR(0.9), 0.0))
    assert neutral.risk == 0.0
    assert neutral.memory_policy is None
    assert neutral.policy_risk < 0


def test_a_frontier_chooses_its_cautions(swim, tmp_path):
    points = ca.frontier(swim, ca.ReturnVariance(), tolerance=1e-3)
    rows = points.table()
    risks = [row["risk"] for row in rows]
    assert all(after <= before + 1e-2 for before, after in itertools.pairwise(risks))
    points.report(tmp_path / "frontier.html")


def test_any_number_of_threads_gives_the_same_bytes():
    mdp = ca.worlds.garnet(40, 3, 4, discount=0.9)
    problem = ca.Problem(mdp, ca.ReturnCVaR(0.9))
    one, two = (ca.solve(problem, tolerance=3e-3, threads=threads) for threads in (1, 2))
    assert (one.objective, one.upper_bound) == (two.objective, two.upper_bound)


def test_the_command_line_solves_and_plays(tmp_path):
    runner, file = CliRunner(), str(tmp_path / "solution.npz")
    asked = ["river_swim", "--caution", "1", "--risk", "return-variance", "--tolerance", "1e-3", "--horizon", "12"]
    done = runner.invoke(app, ["solve", *asked, "--out", file, "--json"])
    assert done.exit_code == 0
    solved = json.loads(done.stdout)
    again = ["evaluate", "river_swim", "--policy", file, "--risk", "return-variance", "--episodes", "50", "--json"]
    found = json.loads(runner.invoke(app, again).stdout)
    assert found["exact_variance"] == pytest.approx(solved["risk"], abs=1e-12)
    assert found["exact_risk"] == pytest.approx(solved["risk"], abs=1e-12)
    assert found["exact_mean"] == pytest.approx(solved["expected_return"], abs=1e-12)
    other = ["evaluate", "river_swim", "--policy", file, "--risk", "return-cvar:0.9", "--episodes", "50", "--json"]
    found = json.loads(runner.invoke(app, other).stdout)
    low, high = ca.load(file).return_distribution().cvar(0.9)
    assert low <= found["exact_risk"] <= high
    low, high = found["exact_quantiles"]["50"]
    assert low <= high
    table = str(tmp_path / "policy.csv")
    said = runner.invoke(app, ["solve", *asked, "--policy-csv", table])
    assert "another policy" in said.output


@pytest.mark.parametrize("risk", [ca.ReturnVariance(), ca.ReturnEntropic(2.0)], ids=lambda risk: risk.label)
def test_targets_are_refined_where_it_matters(swim, monkeypatch, risk):
    """Far fewer memories than on even grids, with the same answer."""
    refined = ca.solve(ca.Problem(swim, risk, 2.0), tolerance=1e-5)
    monkeypatch.setattr(search.Search, "_adaptive", False)
    even = ca.solve(ca.Problem(swim, risk, 2.0), tolerance=1e-5)
    assert refined.status is even.status is ca.Status.SOLVED
    assert refined.objective <= even.upper_bound
    assert even.objective <= refined.upper_bound
    assert refined.memory_policy.n_memories < 0.3 * even.memory_policy.n_memories


def test_returns_that_are_certain_to_reach_the_target_are_told_apart(swim):
    """The last node of a grid stands for all of them and some more, which leaves the risk nearly as well known."""
    solution = ca.solve(ca.Problem(swim, ca.ReturnCVaR(0.9)), tolerance=1e-2)
    memory = solution.memory_policy
    assert memory.clips
    returns = follow(earnings_of(swim, memory.middle).with_steps(memory.n_steps), memory).returns
    low, high = returns.cvar(0.9)
    assert high == pytest.approx(solution.risk, abs=1e-12)
    assert high - low < 5e-3 * abs(solution.objective)
    assert returns.mass.sum() == pytest.approx(1, abs=1e-12)
    assert returns.expectation == pytest.approx(solution.expected_return, abs=1e-12)
