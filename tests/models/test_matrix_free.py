"""Models that are never written down against the same numbers as a ``ca.MDP``, and what they refuse."""

import ctypes
import pickle
import tracemalloc

import numpy as np
import pytest
import scipy.sparse as sp

import cautious as ca
from cautious.models.chains import chain_of
from cautious.occupancy import policy_occupancy

# what a compiled function looks like to ctypes
SIGNATURE = ctypes.CFUNCTYPE(
    ctypes.c_int64,
    ctypes.POINTER(ctypes.c_int64),
    ctypes.c_int64,
    ctypes.c_int64,
    ctypes.POINTER(ctypes.c_int64),
    ctypes.POINTER(ctypes.c_double),
    ctypes.POINTER(ctypes.c_double),
)


class Tables:
    """Random outcomes as tables (S, A, k), which tests can also use without our code."""

    def __init__(self, seed, n_states, n_actions=3, k=4, local=False):
        rng = np.random.default_rng(seed)
        shape = (n_states, n_actions, k)
        self.n_states, self.n_actions, self.discount = n_states, n_actions, float(rng.choice([0.6, 0.9, 0.97]))
        self.successors = rng.integers(0, n_states, shape)
        if local:
            near = np.arange(n_states)[:, None, None] + rng.integers(-3, 4, shape)
            self.successors = np.clip(near, 0, n_states - 1)
        chances = rng.dirichlet(np.full(k, 0.5), shape[:2])
        # some rows are shorter, and some name a successor twice
        chances[rng.random(shape) < 0.2] = 0.0
        chances[..., 0] += 1 - chances.sum(axis=-1)
        self.probabilities = np.abs(chances)
        self.probabilities /= self.probabilities.sum(axis=-1, keepdims=True)
        self.rewards = rng.normal(size=shape)
        self.start = rng.dirichlet(np.ones(n_states)) if seed % 2 else np.eye(n_states)[seed % n_states]

    def outcomes(self, states, action):
        return self.successors[states, action], self.probabilities[states, action], self.rewards[states, action]

    def model(self, **given):
        given = {"discount": self.discount, "start": self.start, **given}
        return ca.from_kernel(self.n_states, self.n_actions, self.outcomes, **given)

    def written_down(self):
        k = self.successors.shape[-1]
        size = self.successors.size
        arrays = self.probabilities.ravel(), self.successors.ravel(), np.arange(0, size + 1, k)
        rows = sp.csr_array(arrays, shape=(size // k, self.n_states))
        mean = (self.probabilities * self.rewards).sum(axis=-1)
        return ca.MDP(rows, mean, self.discount, self.start)


def problems(mdp, seed):
    """One of every kind that such models are solved for; made of features that any policy can move."""
    rng = np.random.default_rng(seed)
    n = mdp.n_states
    here = rng.random(n) < 0.3
    uniform = np.full(mdp.shape, 1 / mdp.n_actions)
    share = policy_occupancy(mdp, uniform).occupancy.sum(axis=1)
    danger, tasks = float(share[here].sum()), rng.random((2, *mdp.shape))
    floors = [float(np.sum(share[:, None] * uniform * task)) / (1 - mdp.discount) - 0.05 for task in tasks]
    yield ca.Problem(mdp)
    yield ca.Problem(mdp, ca.SafeSet(~here, slack=min(1.0, danger + 0.01)), caution=0.5)
    yield ca.Problem(mdp, ca.TaskFloors(tasks, floors), caution=0.5)
    yield ca.Problem(mdp, ca.PeakExposure([here, ~here, rng.random(n) < 0.1]), caution=5.0)
    yield ca.Problem(mdp, ca.WorstTask(tasks), caution=2.0)
    yield ca.Problem(mdp, ca.PeakExposure([here, ~here]) + 0.5 * ca.WorstTask(tasks), caution=2.0)
    yield ca.Problem(mdp, constraints=[ca.Exposure(here) <= danger])
    yield ca.Problem(mdp, ca.PeakExposure([here]), 3.0, [ca.Return(tasks[0]) >= floors[0], ca.Exposure(here) <= danger])


def agree(one, other):
    """Both are proved: what either is worth at least does not exceed the bound of the other."""
    assert one.objective - one.certificate.objective_error <= other.upper_bound
    assert other.objective - other.certificate.objective_error <= one.upper_bound


@pytest.mark.parametrize("seed", range(8))
def test_every_problem_has_the_optimum_of_the_model_written_down(seed):
    n = (50, 130, 2000, 400, 777, 51, 321, 264)[seed]
    tables = Tables(seed, n, 2 + seed % 3, 1 + seed % 4, local=seed in (2, 3))
    model, mdp = tables.model(), tables.written_down()
    pairs = zip(problems(model, seed), problems(mdp, seed), strict=True)
    for number, (problem, other) in enumerate(pairs):
        found, expected = ca.solve(problem).require(), ca.solve(other).require()
        assert found.certificate.kind == "optimal", number
        agree(found, expected)
        # the policy is worth as much in the model written down
        occupancy = policy_occupancy(mdp, found.policy).occupancy
        assert np.abs(occupancy - found.occupancy).sum() < 1e-7
        assert problem.objective(occupancy) == pytest.approx(found.objective, abs=1e-6 * max(1, abs(found.objective)))


def test_more_than_one_piece_and_any_number_of_threads_give_the_same_bytes():
    tables = Tables(3, 30_000, 2, 5, local=True)
    model, mdp = tables.model(), tables.written_down()
    here = np.arange(30_000) % 7 == 0
    found = []
    for threads in (1, 2, 3):
        problem = ca.Problem(model, ca.PeakExposure([here, ~here]), caution=5.0)
        solution = ca.solve(problem, threads=threads).require()
        found.append((solution.policy.tobytes(), solution.objective, solution.upper_bound))
    assert found[0] == found[1] == found[2]
    expected = ca.solve(ca.Problem(mdp, ca.PeakExposure([here, ~here]), caution=5.0)).require()
    agree(solution, expected)


def test_states_that_cannot_be_reached_do_no_harm():
    tables = Tables(10, 321, 4, 1, local=True)
    model, mdp = tables.model(), tables.written_down()
    assert 0 < model.visitable.mean() < 0.5
    for problem, other in zip(problems(model, 10), problems(mdp, 10), strict=True):
        agree(ca.solve(problem).require(), ca.solve(other).require())


@pytest.mark.parametrize("seed", range(4))
def test_operators_are_those_of_the_model_written_down(seed):
    tables = Tables(seed, (9, 60, 5000, 8192)[seed])
    model, mdp, rng = tables.model(), tables.written_down(), np.random.default_rng(seed)
    values, mass = rng.normal(size=model.n_states), rng.random(model.shape)
    np.testing.assert_allclose(model.expect_next(values), mdp.expect_next(values), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(model.flow_into(mass), mdp.flow_into(mass), rtol=1e-12)
    np.testing.assert_allclose(model.rewards, mdp.rewards, rtol=1e-12, atol=1e-15)
    policy = rng.dirichlet(np.full(3, 0.3), model.n_states)
    assert abs(model.under(policy) - mdp.under(policy)).max() < 1e-14
    np.testing.assert_array_equal(model.visitable, mdp.visitable)
    taken = policy > 0.1
    np.testing.assert_array_equal(model.reachable(taken), mdp.reachable(taken))
    assert chain_of(model, policy).chance.size <= 4 * np.count_nonzero(policy)
    assert (model.n_entries, model.widest_row) == (12 * model.n_states, 4)


def test_requirements_that_cannot_be_met_are_proved_so():
    tables = Tables(1, 300)
    for problem in (
        ca.Problem(tables.model(), ca.SafeSet([0], slack=0.01)),
        ca.Problem(tables.model(), constraints=[ca.Exposure([0]) >= 0.99]),
    ):
        assert ca.solve(problem).status is ca.Status.INFEASIBLE


def test_a_frontier_goes_from_one_caution_to_the_next():
    tables = Tables(5, 400)
    here = np.arange(400) % 3 == 0
    found = ca.frontier(tables.model(), ca.PeakExposure([here, ~here]), [0.5, 2.0, 8.0])
    expected = ca.frontier(tables.written_down(), ca.PeakExposure([here, ~here]), [0.5, 2.0, 8.0])
    for one, other in zip(found, expected, strict=True):
        agree(one.require(), other.require())


def ring(states, action):
    there = (states + (1 if action else -1)) % 50
    successors = np.stack([there, states], axis=1)
    return successors, np.broadcast_to([0.9, 0.1], successors.shape), (successors == 0) * 1.0


def changed(part, state, value, action=1):
    """The ring with another entry in one place."""

    def outcomes(states, chosen):
        arrays = [np.array(array) for array in ring(states, chosen)]
        if chosen == action:
            arrays[part] = arrays[part].astype(np.result_type(arrays[part], value))
            arrays[part][states == state, 1] = value
        return tuple(arrays)

    return outcomes


@pytest.mark.parametrize(
    ("outcomes", "message"),
    [
        (changed(0, 7, 50), r"\(state 7, action 1\) has the successor 50; states are numbered 0 to 49"),
        (changed(0, 7, -1), r"\(state 7, action 1\) has the successor -1"),
        (changed(0, 7, -(2**62)), r"\(state 7, action 1\) has the successor -4611686018427387904"),
        (
            changed(1, 8, 0.2),
            r"\(state 8, action 1\) has probabilities that sum to 1.1; they must sum to 1 within 1e-09",
        ),
        (changed(1, 8, 0.1 + 2e-9), r"\(state 8, action 1\) has probabilities that sum to 1.000000002"),
        (changed(1, 8, -0.1), r"\(state 8, action 1\) has the probability -0.1; it must be in \[0, 1\]"),
        (changed(1, 8, np.nan), r"\(state 8, action 1\) has the probability nan"),
        (changed(1, 8, np.inf), r"\(state 8, action 1\) has the probability inf"),
        (changed(2, 9, np.nan), r"\(state 9, action 1\) has the reward nan; it must be finite"),
        (changed(2, 9, -np.inf, action=0), r"\(state 9, action 0\) has the reward -inf"),
        (changed(2, 9, 1e308), "1e"),
        (lambda s, a: ring(s, a)[:2], r"expected \(successors, probabilities, rewards\)"),
        (lambda s, a: None, r"state 0, action 0: expected \(successors, probabilities, rewards\), found None"),
        (lambda s, a: (ring(s, a)[0].ravel(), *ring(s, a)[1:]), r"successors of shape \(2,\) for 1 state"),
        (lambda s, a: (ring(s, a)[0], *(x[:, :1] for x in ring(s, a)[1:])), r"probabilities have the shape \(50, 1\)"),
        (lambda s, a: (*ring(s, a)[:2], ring(s, a)[2][:1]), r"rewards have the shape \(1, 2\); .* = \(50, 2\)"),
        (lambda s, a: tuple(x[:, : 2 - a] for x in ring(s, a)), r"action 1: successors have the shape \(50, 1\)"),
        (lambda s, a: (ring(s, a)[0] * 1.0, *ring(s, a)[1:]), "successors must be integers, found an array of float64"),
        (lambda s, a: (*ring(s, a)[:2], ring(s, a)[2] * 1j), "rewards must be numbers, found an array of complex128"),
        (lambda s, a: ([[0, 1], [0]], *ring(s, a)[1:]), "outcomes: successors"),
        (lambda s, a: (*ring(s, a)[:2], [["much"] * 2] * len(s)), "rewards must be numbers, found an array of <U4"),
        (lambda s, a: {}[a], "outcomes for state 0, action 0: KeyError: 0"),
        (lambda s, a: s.fill(0), r"outcomes for state 0, action 0: ValueError: .*read-only"),
    ],
)
def test_wrong_outcomes_are_refused_with_the_pair(outcomes, message):
    with pytest.raises(ca.InputError, match=message):
        ca.from_kernel(50, 2, outcomes)


def test_the_first_wrong_pair_is_named():
    """By states, then by actions, whatever the order in which they are asked for."""

    def outcomes(states, action):
        successors, probabilities, rewards = ring(states, action)
        rewards = np.where((states + 10 * action == 20)[:, None], np.nan, rewards)
        return successors, probabilities, rewards

    with pytest.raises(ca.InputError, match=r"\(state 10, action 1\) has the reward nan"):
        ca.from_kernel(50, 2, outcomes)


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        (2, 5.0, r"state 30, action 1: the mean reward was 0 and is 0.5"),
        (0, 3, "the 50 states 0 to 49, action 1: probabilities or successors have changed"),
        (0, 50, r"\(state 30, action 1\) has the successor 50"),
        (1, 0.3, "sum to 1.2"),
    ],
)
def test_another_answer_to_the_same_question_is_reported(part, value, message):
    now = [ring]
    model = ca.from_kernel(50, 2, lambda states, action: now[0](states, action))
    ca.solve(ca.Problem(model)).require()
    now[0] = changed(part, 30, value)
    with pytest.raises(ca.InputError, match=message):
        ca.solve(ca.Problem(model))


def test_answers_may_differ_by_rounding():
    flips = [0]

    def outcomes(states, action):
        flips[0] += 1
        successors, probabilities, rewards = ring(states, action)
        return successors, probabilities * (1 + flips[0] % 2 * 1e-13), rewards * (1 + flips[0] % 3 * 1e-13)

    assert ca.solve(ca.Problem(ca.from_kernel(50, 2, outcomes))).status is ca.Status.SOLVED


def test_an_error_while_it_is_solved_is_reported():
    fails = [False]

    def outcomes(states, action):
        if fails[0]:
            raise OSError("the disk is gone")
        return ring(states, action)

    model = ca.from_kernel(50, 2, outcomes)
    fails[0] = True
    with pytest.raises(ca.InputError, match="action 0: OSError: the disk is gone") as caught:
        ca.solve(ca.Problem(model))
    assert isinstance(caught.value.__cause__, OSError)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"n_states": 0}, "n_states"),
        ({"n_actions": 0}, "n_actions"),
        ({"discount": 1.0}, "discount"),
        ({"start": np.ones(50)}, "start"),
        ({"start": 50}, "start"),
        ({"outcomes": "ring"}, "outcomes must be a function of .*found 'ring'"),
        ({"outcomes": True}, "outcomes must be a function"),
        ({"outcomes": 0, "n_outcomes": 2}, "outcomes is the address 0"),
        ({"outcomes": -8, "n_outcomes": 2}, "outcomes is the address -8"),
        ({"outcomes": 8}, "n_outcomes must say how many outcomes a compiled function writes"),
        ({"n_outcomes": 2}, "n_outcomes is for compiled functions"),
    ],
)
def test_wrong_arguments_are_refused(given, message):
    arguments = {"n_states": 50, "n_actions": 2, "outcomes": ring} | given
    with pytest.raises(ca.InputError, match=message):
        ca.from_kernel(**arguments)


def test_tables_that_cannot_fit_are_refused_before_any_call():
    with pytest.raises(ca.MemoryLimitError, match="do not fit into the memory of this machine"):
        ca.from_kernel(2**38, 4, lambda states, action: pytest.fail("it was called"))


NEEDS_A_MATRIX = {
    "KL": lambda model: ca.solve(ca.Problem(model, ca.KL(np.full(50, 0.02)))),
    "Quadratic .* with SafeSet": lambda model: ca.solve(
        ca.Problem(model, ca.Quadratic(np.full(50, 0.02)) + ca.SafeSet([0], slack=0.99))
    ),
    "Entropy": lambda model: ca.solve(ca.Problem(model, ca.Entropy())),
    "Variance": lambda model: ca.Problem(model, ca.Variance()),
    "CVaR": lambda model: ca.Problem(model, ca.CVaR(0.9)),
    "KL .*<= 1": lambda model: ca.solve(ca.Problem(model, constraints=[ca.KL(np.full(50, 0.02)) <= 1.0])),
    "horizon=10": lambda model: ca.Problem(model, horizon=10),
    "deterministic=True": lambda model: ca.solve(
        ca.Problem(model, constraints=[ca.Exposure([0]) <= 0.5]), deterministic=True
    ),
    "a risk or limit that forbids pairs": lambda model: ca.solve(
        ca.Problem(model, constraints=[ca.Exposure([3]) <= 0.0])
    ),
    "a model file": lambda model: model.save("model.npz"),
    "ca.compare": lambda model: ca.compare(ca.Problem(model)),
    "what was asked for": lambda model: model.transitions,
}


@pytest.mark.parametrize("what", NEEDS_A_MATRIX)
def test_what_needs_a_matrix_says_so(what):
    with pytest.raises(ca.IncompatibleError, match=f"{what}.* needs the transitions written down, as in a ca.MDP"):
        NEEDS_A_MATRIX[what](ca.from_kernel(50, 2, ring))


@pytest.mark.parametrize("what", ["report", "save", "plot", "verify"])
def test_solutions_that_cannot_be_stored_or_drawn_say_so(what, tmp_path):
    solution = ca.solve(ca.Problem(ca.from_kernel(50, 2, ring)))
    calls = {
        "report": lambda: solution.report(tmp_path / "page.html"),
        "save": lambda: solution.save(tmp_path / "solution.npz"),
        "plot": solution.plot,
        "verify": lambda: ca.verify(solution),
    }
    with pytest.raises(ca.IncompatibleError, match="needs the transitions written down"):
        calls[what]()
    assert not list(tmp_path.iterdir())


def test_a_return_by_outcome_needs_a_matrix():
    with pytest.raises(ca.InputError, match=r"Return.rewards has shape \(50, 2, 50\).*\(S, A\), for a model of"):
        ca.Problem(ca.from_kernel(50, 2, ring), constraints=[ca.Return(np.ones((50, 2, 50))) >= 1.0])


def test_the_simulator_draws_the_outcomes():
    tables = Tables(4, 30)
    model, rng, n = tables.model(), np.random.default_rng(0), 40_000
    simulator = model.simulator()
    ca.testing.check_simulator(simulator)
    for state, action in ((3, 0), (17, 2)):
        next_states, rewards = simulator.sample(np.full(n, state), np.full(n, action), rng)
        expected = np.bincount(tables.successors[state, action], tables.probabilities[state, action], 30)
        np.testing.assert_allclose(np.bincount(next_states, minlength=30) / n, expected, atol=0.015)
        assert np.mean(rewards) == pytest.approx(model.rewards[state, action], abs=0.05)
    solution = ca.solve(ca.Problem(model))
    played = ca.evaluate(model, solution, episodes=4000, sets={"first": [0, 1]})
    assert abs(played.mean - solution.expected_return) < 5 * played.standard_error + played.truncation_error
    assert played.exposure["first"] == pytest.approx(solution.occupancy[:2].sum(), abs=0.02)


def test_nothing_of_the_size_of_the_transitions_is_held():
    """100 MB of transitions, which 8 actions share: the chain of one policy takes an eighth of that."""
    n, n_actions, k = 40_000, 8, 25

    def outcomes(states, action):
        successors = (states[:, None] * 7 + 11 * action + np.arange(k)) % n
        return successors, np.full(successors.shape, 1 / k), np.sin(successors + action)

    tracemalloc.start()
    try:
        model = ca.from_kernel(n, n_actions, outcomes, discount=0.9)
        danger = np.arange(n) % 5 == 0
        solution = ca.solve(ca.Problem(model, ca.PeakExposure([danger, ~danger]), caution=1.0), threads=1).require()
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    transitions = 12 * n * n_actions * k
    # tables (S, A), the chain, and the rows of a piece of 4096 states, which are a tenth of all
    assert peak < 0.75 * transitions
    # what is held in the end: rewards, policy, and the witness
    del solution
    assert held < 0.2 * transitions


def write_ring(states, n, action, successors, probabilities, rewards):
    """The ring as a compiled function would write it."""
    shape = (n, 2)
    answer = ring(np.ctypeslib.as_array(states, (n,)), action)
    for pointer, array in zip((successors, probabilities, rewards), answer, strict=True):
        np.ctypeslib.as_array(pointer, shape)[:] = array
    return n


def test_a_function_pointer_is_asked_as_a_function_is():
    written = SIGNATURE(write_ring)
    expected = ca.solve(ca.Problem(ca.from_kernel(50, 2, ring)))
    for pointer in (written, ctypes.cast(written, ctypes.c_void_p).value):
        model = ca.from_kernel(50, 2, pointer, n_outcomes=2)
        solution = ca.solve(ca.Problem(model))
        assert (solution.objective, solution.upper_bound) == (expected.objective, expected.upper_bound)
        assert solution.policy.tobytes() == expected.policy.tobytes()


def test_compiled_functions_that_fail_are_reported():
    with pytest.raises(ca.InputError, match=r"state 0, action 0: .*it returned -1 for 1 states"):
        ca.from_kernel(50, 2, SIGNATURE(lambda *given: -1), n_outcomes=2)
    with pytest.raises(ca.InputError, match=r"\(state 0, action 0\) has the successor -1"):
        ca.from_kernel(50, 2, SIGNATURE(lambda states, n, *rest: n), n_outcomes=2)


def test_a_compiled_function_that_stops_writing_gives_another_answer():
    """Its arrays are blank only at first: what was in memory before must not pass for an answer."""
    lazy = [False]

    def outcomes(states, n, action, successors, probabilities, rewards):
        if lazy[0] and action == 1:
            # as if rewards were left from another call
            kept = np.ctypeslib.as_array(rewards, (n, 2))
            write_ring(states, n, action, successors, probabilities, rewards)
            kept[:] = 0.25
            return n
        return write_ring(states, n, action, successors, probabilities, rewards)

    model = ca.from_kernel(50, 2, SIGNATURE(outcomes), n_outcomes=2)
    lazy[0] = True
    with pytest.raises(ca.InputError, match=r"state 0, action 1: the mean reward was .* and is 0.25"):
        ca.solve(ca.Problem(model))


def test_an_address_is_not_sent_to_another_process():
    model = ca.from_kernel(50, 2, SIGNATURE(write_ring), n_outcomes=2)
    with pytest.raises(ca.IncompatibleError, match="it cannot be sent to another one"):
        pickle.dumps(model)
    again = pickle.loads(pickle.dumps(ca.from_kernel(50, 2, ring)))
    assert ca.solve(ca.Problem(again)).status is ca.Status.SOLVED


def test_a_memory_limit_counts_the_chain_of_a_policy():
    model = ca.from_kernel(50, 2, ring)
    needed = 50 * (8 * (3 * 2 + 12) + 20 * 2)
    with pytest.raises(ca.MemoryLimitError, match=f"planning needs about {needed / 1e6:.3g} MB"):
        ca.solve(ca.Problem(model), memory_limit=needed - 1)


@pytest.mark.parametrize("n_actions", [1, 6])
def test_a_memory_limit_asks_for_what_is_used_and_not_much_more(n_actions):
    n = 60_000

    def around(states, action):
        there = np.stack([(states + 1 + action) % n, states], axis=1)
        return there, np.broadcast_to([0.9, 0.1], there.shape), (there == 0) * 1.0

    model = ca.from_kernel(n, n_actions, around, discount=0.5)
    needed = n * (8 * (3 * n_actions + 12) + 20 * 2)
    tracemalloc.start()
    try:
        solution = ca.solve(ca.Problem(model))
        used = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert solution.status is ca.Status.SOLVED
    assert needed / 4 <= used <= needed
