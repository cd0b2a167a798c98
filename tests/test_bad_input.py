"""Wrong input: a typed error before any work, whose message names the datum and shows the value found."""

import io
import json
import pickle
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp

import cautious as ca

NAN, INF = float("nan"), float("inf")
P = np.array(
    [[[0.5, 0.5, 0.0], [0.0, 0.2, 0.8]], [[1.0, 0.0, 0.0], [0.3, 0.3, 0.4]], [[0.0, 0.0, 1.0], [0.1, 0.9, 0.0]]]
)
R = np.array([[0.0, 1.0], [2.0, 0.5], [-1.0, 0.0]])
UNIFORM = np.full((3, 2), 1 / 6)
METRIC = np.array([[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]])


def model(**changes):
    data = {"transitions": P, "rewards": R, "discount": 0.9, **changes}
    return ca.MDP(data.pop("transitions"), data.pop("rewards"), data.pop("discount"), **data)


def altered(array, where, value):
    copy = np.array(array, dtype=float)
    copy[where] = value
    return copy


def hand_made(indices=None, indptr=None):
    """A CSR transition matrix whose index arrays were tampered with after construction."""
    matrix = sp.csr_array(P.reshape(6, 3))
    if indices is not None:
        matrix.indices = np.array(indices, dtype=matrix.indices.dtype)
    if indptr is not None:
        matrix.indptr = np.array(indptr, dtype=matrix.indptr.dtype)
    return matrix


def wild(matrix, index):
    """A sparse matrix with one column index out of range."""
    matrix = sp.csr_array(matrix)
    matrix.indices[0] = index
    return matrix


N_ENTRIES = sp.csr_array(P.reshape(6, 3)).nnz

MODELS = {
    # name: (keywords of the model, words the message must hold)
    "transitions NaN": ({"transitions": altered(P, (0, 1, 2), NAN)}, ["transition", "nan", "0", "1", "2"]),
    "transitions inf": ({"transitions": altered(P, (1, 0, 0), INF)}, ["transition", "inf"]),
    "transitions negative": ({"transitions": altered(P, (1, 1, 0), -0.3)}, ["transition", "-0.3", "1"]),
    "transitions row sum": ({"transitions": altered(P, (2, 0, 2), 0.9)}, ["transition", "0.9", "state 2", "action 0"]),
    "transitions row sum by 1e-8": ({"transitions": altered(P, (2, 0, 2), 1 + 1e-8)}, ["transition", "1.00000001"]),
    "transitions two-dimensional": ({"transitions": P[0]}, ["transitions", "(2, 3)"]),
    "transitions not square": ({"transitions": P[:, :, :2]}, ["transitions", "(3, 2, 2)"]),
    "transitions empty": ({"transitions": np.zeros((0, 0, 0)), "rewards": np.zeros((0, 0))}, ["0"]),
    "transitions no actions": ({"transitions": np.zeros((3, 0, 3)), "rewards": np.zeros((3, 0))}, ["0"]),
    "transitions empty row": ({"transitions": altered(P, (0, 0), 0.0)}, ["transition", "state 0", "action 0"]),
    "transitions None": ({"transitions": None}, ["transitions"]),
    "transitions text": ({"transitions": "maze"}, ["transitions"]),
    "transitions objects": ({"transitions": P.astype(object)}, ["transitions", "object"]),
    "transitions complex": ({"transitions": P + 0j}, ["transitions", "complex"]),
    "transitions ragged": ({"transitions": [[[1.0], [0.5, 0.5]]]}, ["transitions"]),
    "transitions ragged matrices": ({"transitions": [P[:, 0], P[:2, :2, 0]]}, ["transitions[1]", "(2, 2)"]),
    "transitions sparse shape": ({"transitions": sp.csr_array((5, 3))}, ["transitions", "(5, 3)"]),
    "transitions sparse empty": ({"transitions": sp.csr_array((0, 3))}, ["transitions", "(0, 3)"]),
    "transitions sparse index": (
        {"transitions": hand_made(indices=[0, 1, 1, 99, *[0] * (N_ENTRIES - 4)])},
        ["transitions", "99"],
    ),
    "transitions sparse below": (
        {"transitions": hand_made(indices=[-7, *[0] * (N_ENTRIES - 1)])},
        ["transitions", "-7"],
    ),
    "transitions sparse pointer": (
        {"transitions": hand_made(indptr=[0, 2, 1, 5, 8, 9, 10])},
        ["transitions", "pointer"],
    ),
    "transitions sparse pointer end": (
        {"transitions": hand_made(indptr=[0, 2, 4, 5, 8, 9, 900])},
        ["transitions", "pointer"],
    ),
    "transitions sparse matrices index": ({"transitions": [wild(P[:, 0], 77), P[:, 1]]}, ["transitions[0]", "77"]),
    "transitions sparse NaN": (
        {"transitions": sp.csr_array(altered(P, (0, 0, 0), NAN).reshape(6, 3))},
        ["transition", "nan"],
    ),
    "transitions sparse objects": (
        {"transitions": sp.csr_array(P.reshape(6, 3)).astype(complex)},
        ["transitions", "complex"],
    ),
    "rewards NaN": ({"rewards": altered(R, (1, 0), NAN)}, ["rewards", "nan", "[1, 0]"]),
    "rewards inf": ({"rewards": altered(R, (0, 0), -INF)}, ["rewards", "-inf"]),
    "rewards shape": ({"rewards": R.T}, ["rewards", "(2, 3)"]),
    "rewards by outcome shape": ({"rewards": np.zeros((3, 2, 4))}, ["rewards", "(3, 2, 4)"]),
    "rewards text": ({"rewards": "high"}, ["rewards"]),
    "rewards None": ({"rewards": None}, ["rewards"]),
    "rewards sparse shape": ({"rewards": sp.csr_array((3, 2))}, ["rewards", "(3, 2)"]),
    "rewards sparse NaN": ({"rewards": sp.csr_array(np.full((6, 3), NAN))}, ["rewards", "nan"]),
    "rewards outcome NaN": ({"rewards": altered(np.zeros((3, 2, 3)), (0, 0, 0), NAN)}, ["rewards", "nan"]),
    "discount negative": ({"discount": -0.1}, ["discount", "-0.1"]),
    "discount above": ({"discount": 1.5}, ["discount", "1.5"]),
    "discount NaN": ({"discount": NAN}, ["discount", "nan"]),
    "discount bool": ({"discount": True}, ["discount", "True"]),
    "discount text": ({"discount": "0.9"}, ["discount", "0.9"]),
    "discount None": ({"discount": None}, ["discount", "None"]),
    "discount array": ({"discount": np.array([0.9])}, ["discount", "0.9"]),
    "start sum": ({"start": [0.5, 0.2, 0.2]}, ["start", "0.9"]),
    "start negative": ({"start": [1.5, -0.5, 0.0]}, ["start", "-0.5"]),
    "start NaN": ({"start": [NAN, 0.5, 0.5]}, ["start", "nan"]),
    "start shape": ({"start": [0.5, 0.5]}, ["start", "(2,)"]),
    "start text": ({"start": ["a", "b", "c"]}, ["start"]),
    "start number": ({"start": 0}, ["start", "chance of each state"]),
    "allowed shape": ({"allowed": np.ones((2, 3), bool)}, ["allowed", "(2, 3)"]),
    "allowed nothing": ({"allowed": [[1, 1], [0, 0], [1, 0]]}, ["allowed", "1"]),
    "allowed numbers": ({"allowed": np.full((3, 2), 2)}, ["allowed", "2"]),
    "allowed NaN": ({"allowed": np.full((3, 2), NAN)}, ["allowed", "nan"]),
    "allowed text": ({"allowed": np.full((3, 2), "yes")}, ["allowed"]),
    "allowed ragged": ({"allowed": [[True], [True, False], [True]]}, ["allowed"]),
    "allowed objects": ({"allowed": np.full((3, 2), True, dtype=object)}, ["allowed", "object"]),
    "reward_square low": ({"reward_square": R**2 - 0.1}, ["reward_square", "-0.1"]),
    "reward_square shape": ({"reward_square": np.ones(3)}, ["reward_square", "(3,)"]),
    "reward_square NaN": ({"reward_square": np.full((3, 2), NAN)}, ["reward_square", "nan"]),
    "reward_square twice": ({"rewards": np.zeros((3, 2, 3)), "reward_square": R**2}, ["reward_square"]),
    "state_names short": ({"state_names": ["a", "b"]}, ["state_names", "2"]),
    "state_names twice": ({"state_names": ["a", "b", "a"]}, ["state_names", "'a'"]),
    "state_names text": ({"state_names": "abc"}, ["state_names", "abc"]),
    "action_names long": ({"action_names": ["a", "b", "c"]}, ["action_names", "3"]),
    "action_names number": ({"action_names": 2}, ["action_names", "2"]),
}

RISKS = {
    "slack zero": (lambda: ca.SafeSet([0], 0.0), ["slack", "0.0"]),
    "slack negative": (lambda: ca.SafeSet([0], -0.1), ["slack", "-0.1"]),
    "slack above one": (lambda: ca.SafeSet([0], 1.1), ["slack", "1.1"]),
    "slack NaN": (lambda: ca.SafeSet([0], NAN), ["slack", "nan"]),
    "slack text": (lambda: ca.SafeSet([0], "0.1"), ["slack", "0.1"]),
    "states outside": (lambda: ca.SafeSet([0, 3], 0.1), ["states", "3"]),
    "states below": (lambda: ca.SafeSet([-1], 0.1), ["states", "-1"]),
    "states floats": (lambda: ca.SafeSet([0.5], 0.1), ["states", "float"]),
    "states names": (lambda: ca.SafeSet(["kitchen"], 0.1), ["states", "kitchen"]),
    "states empty": (lambda: ca.SafeSet([], 0.1), ["states", "empty"]),
    "states mask shape": (lambda: ca.SafeSet([True, False], 0.1), ["states", "(2,)"]),
    "states no mask": (lambda: ca.SafeSet(np.zeros(3, bool), 0.1), ["states", "empty"]),
    "states None": (lambda: ca.SafeSet(None, 0.1), ["states", "None"]),
    "states ragged": (lambda: ca.SafeSet([[0], [1, 2]], 0.1), ["states"]),
    "states mixed": (lambda: ca.SafeSet([0, "b"], 0.1), ["states"]),
    "sets empty": (lambda: ca.PeakExposure([]), ["sets"]),
    "sets flat": (lambda: ca.PeakExposure([0, 1]), ["sets"]),
    "sets text": (lambda: ca.PeakExposure("all"), ["sets"]),
    "sets number": (lambda: ca.PeakExposure(3), ["sets", "3"]),
    "sets outside": (lambda: ca.PeakExposure([[0], [7]]), ["sets[1]", "7"]),
    "sets unknown name": (lambda: ca.PeakExposure([["a"]]), ["sets[0]", "'a'"]),
    "task_rewards shape": (lambda: ca.TaskFloors(R, [0.0]), ["task_rewards", "(3, 2)"]),
    "task_rewards NaN": (lambda: ca.TaskFloors(altered(R, (0, 0), NAN)[None], [0.0]), ["task_rewards", "nan"]),
    "task_rewards none": (lambda: ca.TaskFloors(np.zeros((0, 3, 2)), []), ["task_rewards", "(0, 3, 2)"]),
    "floors length": (lambda: ca.TaskFloors(R[None], [0.0, 1.0]), ["floors", "(2,)"]),
    "floors NaN": (lambda: ca.TaskFloors(R[None], [NAN]), ["floors", "nan"]),
    "floors inf": (lambda: ca.TaskFloors(R[None], [-INF]), ["floors", "-inf"]),
    "floors text": (lambda: ca.TaskFloors(R[None], ["low"]), ["floors"]),
    "worst task shape": (lambda: ca.WorstTask(R.T[None]), ["task_rewards", "(1, 2, 3)"]),
    "worst task text": (lambda: ca.WorstTask("r"), ["task_rewards"]),
    "KL prior negative": (lambda: ca.KL(altered(UNIFORM, (0, 0), -0.1)), ["prior", "-0.1"]),
    "KL prior sum": (lambda: ca.KL(UNIFORM * 0.9), ["prior", "0.9"]),
    "KL prior shape": (lambda: ca.KL(np.ones((2, 2)) / 4), ["prior", "(2, 2)"]),
    "KL prior NaN": (lambda: ca.KL(altered(UNIFORM, (1, 1), NAN)), ["prior", "nan"]),
    "KL prior text": (lambda: ca.KL("uniform"), ["prior"]),
    "KL prior None": (lambda: ca.KL(None), ["prior"]),
    "KL prior recipe": (lambda: ca.KL(ca.KL(UNIFORM)), ["prior"]),
    "KL state prior sum": (lambda: ca.KL([0.5, 0.5, 0.5]), ["prior", "1.5"]),
    "TV prior negative": (lambda: ca.TotalVariation([1.5, -0.5, 0.0]), ["prior", "-0.5"]),
    "quadratic prior shape": (lambda: ca.Quadratic(np.ones(4) / 4), ["prior", "(4,)"]),
    "quadratic prior inf": (lambda: ca.Quadratic([INF, 0.0, 0.0]), ["prior", "inf"]),
    "wasserstein prior sum": (lambda: ca.Wasserstein([0.5, 0.2, 0.2], METRIC), ["prior", "0.9"]),
    "metric asymmetric": (lambda: ca.Wasserstein([1, 0, 0], altered(METRIC, (0, 1), 5.0)), ["metric", "5.0", "[0, 1]"]),
    "metric negative": (lambda: ca.Wasserstein([1, 0, 0], -METRIC), ["metric", "-1.0"]),
    "metric diagonal": (lambda: ca.Wasserstein([1, 0, 0], METRIC + np.eye(3)), ["metric", "1.0", "[0, 0]"]),
    "metric shape": (lambda: ca.Wasserstein([1, 0, 0], METRIC[:2]), ["metric", "(2, 3)"]),
    "metric NaN": (lambda: ca.Wasserstein([1, 0, 0], altered(METRIC, (0, 1), NAN)), ["metric", "nan"]),
    "metric text": (lambda: ca.Wasserstein([1, 0, 0], "euclidean"), ["metric"]),
    "graph disconnected": (lambda: ca.Wasserstein([1, 0, 0], sp.csr_array(np.diag([1.0, 0.0], 1))), ["metric", "2"]),
    "graph negative": (lambda: ca.Wasserstein([1, 0, 0], sp.csr_array(-METRIC)), ["metric", "-1.0"]),
    "graph two weights": (
        lambda: ca.Wasserstein([1, 0, 0], sp.csr_array(altered(METRIC, (0, 1), 5.0))),
        ["metric", "5.0"],
    ),
    "graph diagonal": (lambda: ca.Wasserstein([1, 0, 0], sp.csr_array(METRIC + np.eye(3))), ["metric", "1.0"]),
    "graph shape": (lambda: ca.Wasserstein([1, 0, 0], sp.csr_array((2, 3))), ["metric", "(2, 3)"]),
    "graph empty": (lambda: ca.Wasserstein([1, 0, 0], sp.csr_array((3, 3))), ["metric"]),
    "graph NaN": (lambda: ca.Wasserstein([1, 0, 0], sp.csr_array(altered(METRIC, (0, 1), NAN))), ["metric", "nan"]),
    "level one": (lambda: ca.CVaR(1.0), ["level", "1.0"]),
    "level negative": (lambda: ca.CVaR(-0.5), ["level", "-0.5"]),
    "level NaN": (lambda: ca.CVaR(NAN), ["level", "nan"]),
    "level text": (lambda: ca.CVaR("0.9"), ["level", "0.9"]),
    "weight negative": (lambda: -1.0 * ca.Entropy(), ["weight", "-1"]),
    "weight NaN": (lambda: NAN * ca.Entropy(), ["weight", "nan"]),
    "weight text": (lambda: "2" * ca.Entropy(), ["weight", "2"]),
    "weight inf": (lambda: INF * ca.Entropy(), ["weight", "inf"]),
}

POLICY = np.full((3, 2), 0.5)
CALLS = {
    "caution negative": (lambda: ca.Problem(model(), ca.Variance(), caution=-1.0), ["caution", "-1"]),
    "caution NaN": (lambda: ca.Problem(model(), ca.Variance(), caution=NAN), ["caution", "nan"]),
    "caution inf": (lambda: ca.Problem(model(), ca.Variance(), caution=INF), ["caution", "inf"]),
    "caution text": (lambda: ca.Problem(model(), ca.Variance(), caution="1"), ["caution", "'1'"]),
    "caution bool": (lambda: ca.Problem(model(), ca.Variance(), caution=True), ["caution", "True"]),
    "model array": (lambda: ca.Problem(P), ["model", "ndarray"]),
    "risk text": (lambda: ca.Problem(model(), "variance"), ["risk", "str"]),
    "risk class": (lambda: ca.Problem(model(), ca.Variance), ["risk"]),
    "risk number": (lambda: ca.Problem(model(), 1.0), ["risk", "float"]),
    "CVaR of hidden spread": (
        lambda: ca.Problem(model(reward_square=R**2 + 1), ca.CVaR(0.9)),
        ["CVaR", "reward_square"],
    ),
    "solve model": (lambda: ca.solve(model()), ["Problem", "MDP"]),
    "solve None": (lambda: ca.solve(None), ["Problem", "None"]),
    "tolerance zero": (lambda: ca.solve(ca.Problem(model()), tolerance=0.0), ["tolerance", "0.0"]),
    "tolerance negative": (lambda: ca.solve(ca.Problem(model()), tolerance=-1e-6), ["tolerance", "-1e-06"]),
    "tolerance NaN": (lambda: ca.solve(ca.Problem(model()), tolerance=NAN), ["tolerance", "nan"]),
    "tolerance text": (lambda: ca.solve(ca.Problem(model()), tolerance="low"), ["tolerance", "low"]),
    "time limit negative": (lambda: ca.solve(ca.Problem(model()), time_limit_seconds=-1), ["time_limit_seconds", "-1"]),
    "time limit NaN": (lambda: ca.solve(ca.Problem(model()), time_limit_seconds=NAN), ["time_limit_seconds", "nan"]),
    "seed negative": (lambda: ca.solve(ca.Problem(model()), seed=-1), ["seed", "-1"]),
    "seed float": (lambda: ca.solve(ca.Problem(model()), seed=0.5), ["seed", "0.5"]),
    "callback": (lambda: ca.solve(ca.Problem(model()), callback=3), ["callback", "int"]),
    "evaluate model": (lambda: ca.evaluate(P, POLICY), ["ndarray"]),
    "evaluate policy shape": (lambda: ca.evaluate(model(), POLICY[:2]), ["policy", "(2, 2)"]),
    "evaluate policy sum": (lambda: ca.evaluate(model(), POLICY * 0.9), ["policy", "0.9"]),
    "evaluate policy negative": (lambda: ca.evaluate(model(), np.tile([1.5, -0.5], (3, 1))), ["policy", "-0.5"]),
    "evaluate policy forbidden": (
        lambda: ca.evaluate(model(allowed=[[1, 0], [1, 1], [1, 1]]), POLICY),
        ["policy", "0.5"],
    ),
    "evaluate episodes": (lambda: ca.evaluate(model(), POLICY, episodes=0), ["episodes", "0"]),
    "evaluate horizon": (lambda: ca.evaluate(model(), POLICY, horizon=-3), ["horizon", "-3"]),
    "evaluate seed": (lambda: ca.evaluate(model(), POLICY, seed=-1), ["seed", "-1"]),
    "frontier model": (lambda: ca.frontier(P, ca.Variance()), ["ndarray"]),
    "frontier risk": (lambda: ca.frontier(model(), None), ["risk", "None"]),
    "frontier cautions negative": (
        lambda: ca.frontier(model(), ca.Variance(), cautions=[1.0, -1.0]),
        ["caution", "-1"],
    ),
    "frontier cautions empty": (lambda: ca.frontier(model(), ca.Variance(), cautions=[]), ["cautions"]),
    "frontier cautions NaN": (lambda: ca.frontier(model(), ca.Variance(), cautions=[NAN]), ["caution", "nan"]),
    "frontier cautions text": (lambda: ca.frontier(model(), ca.Variance(), cautions="many"), ["caution", "many"]),
    "simulator state": (lambda: draw([3], [0]), ["states", "3"]),
    "simulator action": (lambda: draw([0], [-1]), ["actions", "-1"]),
    "simulator lengths": (lambda: draw([0, 1], [0]), ["states", "actions"]),
    "simulator floats": (lambda: draw([0.5], [0]), ["states", "float"]),
}


def draw(states, actions):
    return model().simulator().sample(np.array(states), np.array(actions), np.random.default_rng(0))


def check_refused(call, words):
    with pytest.raises(ca.CautiousError) as caught:
        call()
    message = str(caught.value)
    for word in words:
        assert word in message, f"{word!r} is not in: {message}"


@pytest.mark.parametrize("case", MODELS)
def test_model_refused(case):
    changes, words = MODELS[case]
    check_refused(lambda: model(**changes), words)


@pytest.mark.parametrize("case", RISKS)
def test_risk_refused(case):
    make, words = RISKS[case]
    check_refused(lambda: ca.Problem(model(), make()), words)


@pytest.mark.parametrize("case", CALLS)
def test_call_refused(case):
    check_refused(*CALLS[case])


CRASHERS = {
    "rewards": "matrix = sp.csr_array(np.ones((6, 3))); matrix.indices[0] = 1000000; model(rewards=matrix)",
    "rewards pointer": "matrix = sp.csr_array(np.ones((6, 3))); matrix.indptr[-1] = 1000000; model(rewards=matrix)",
    "rewards per action": (
        "matrix = sp.csr_array(np.ones((3, 3))); matrix.indices[0] = 1000000; model(rewards=[matrix, matrix])"
    ),
    "rewards coordinates": (
        "matrix = sp.coo_array(np.ones((6, 3))); matrix.coords = (matrix.coords[0] + 1000000, matrix.coords[1]);"
        "model(rewards=matrix)"
    ),
    "transitions coordinates": (
        "matrix = sp.coo_array(P.reshape(6, 3)); matrix.coords = (matrix.coords[0] + 1000000, matrix.coords[1]);"
        "model(transitions=matrix)"
    ),
    "metric": (
        "graph = sp.csr_array(METRIC); graph.indices[0] = 1000000;ca.Problem(model(), ca.Wasserstein([1, 0, 0], graph))"
    ),
    "metric columns": (
        "graph = sp.csc_array(METRIC); graph.indices[0] = 1000000;ca.Problem(model(), ca.Wasserstein([1, 0, 0], graph))"
    ),
}


@pytest.mark.parametrize("case", CRASHERS)
def test_sparse_indices_out_of_range_are_refused(case):
    """SciPy's compiled code writes out of bounds on these, so each runs in a process of its own."""
    lines = [
        "from test_bad_input import *",
        "try:",
        f"    {CRASHERS[case]}",
        "except ca.CautiousError as e:",
        "    print(e)",
    ]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)], cwd=Path(__file__).parent, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-500:]
    assert case.split()[0] in done.stdout
    assert "1000000" in done.stdout or "inconsistent" in done.stdout


def test_solution_of_another_model_is_no_prior():
    other = ca.MDP(np.full((2, 2, 2), 0.5), np.zeros((2, 2)))
    solution = ca.solve(ca.Problem(other))
    check_refused(lambda: ca.Problem(model(), ca.KL(solution)), ["KL.prior", "(2, 2)"])


class Stranger(ca.Risk):
    """A user's risk whose answers are wrong in the given way."""

    def __init__(self, value, gradient):
        self.answers = value, gradient

    def value(self, d):
        return self.answers[0]

    def gradient(self, d):
        return self.answers[1]


@pytest.mark.parametrize(
    ("value", "gradient", "words"),
    [
        (np.zeros(2), np.zeros((3, 2)), ["value"]),
        (NAN, np.zeros((3, 2)), ["value", "nan"]),
        (0.0, np.zeros(3), ["gradient", "(3,)"]),
        (0.0, np.full((3, 2), NAN), ["gradient"]),
        ("low", np.zeros((3, 2)), ["value", "low"]),
        (None, np.zeros((3, 2)), ["value", "None"]),
    ],
)
def test_own_risk_refused(value, gradient, words):
    check_refused(lambda: ca.Problem(model(), Stranger(value, gradient)), words)


def saved(tmp_path):
    path = tmp_path / "model.npz"
    model(state_names=["a", "b", "c"]).save(path)
    return path


def repack(path, change):
    """Rewrite a file's members: ``change`` maps name and bytes to bytes, or None to drop the member."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            new = change(name, content)
            if new is not None:
                archive.writestr(name, new)


def with_header(**changes):
    def change(name, content):
        return json.dumps({**json.loads(content), **changes}) if name == "header.json" else content

    return change


def with_array(target, array):
    def change(name, content):
        if name != f"{target}.npy":
            return content
        buffer = io.BytesIO()
        np.save(buffer, array)
        return buffer.getvalue()

    return change


HEADERS = {
    "newer version": ({"version": 99}, ["version", "99"]),
    "version text": ({"version": "two"}, ["version", "two"]),
    "other kind": ({"format": "cautious solution"}, ["cautious solution"]),
    "discount": ({"discount": 1.5}, ["discount", "1.5"]),
    "discount missing": ({"discount": None}, ["discount", "None"]),
    "states": ({"n_states": 10**9}, ["transition"]),
    "states negative": ({"n_states": -3}, ["-3"]),
    "states text": ({"n_states": "many"}, ["many"]),
    "names": ({"state_names": ["a"]}, ["state_names", "1"]),
    "scene": ({"scene": 3}, ["header"]),
}
ARRAYS = {
    "start": (np.array([0.5, 0.5, 0.5]), ["start", "1.5"]),
    "rewards": (np.zeros((2, 2)), ["rewards", "(2, 2)"]),
    "probabilities": (np.ones(2), ["transition"]),
    "indices": (np.full(N_ENTRIES, 10**6), ["transition"]),
    "indptr": (np.array([0.5, 1.0]), ["indptr"]),
    "allowed": (np.zeros((3, 2), bool), ["allowed"]),
    "reward_square": (np.full((3, 2), NAN), ["reward_square", "nan"]),
}


@pytest.mark.parametrize("case", HEADERS)
def test_model_file_with_wrong_header_refused(tmp_path, case):
    changes, words = HEADERS[case]
    path = saved(tmp_path)
    repack(path, with_header(**changes))
    check_refused(lambda: ca.read_model(path), [str(path), *words])


@pytest.mark.parametrize("name", ARRAYS)
def test_model_file_with_wrong_array_refused(tmp_path, name):
    array, words = ARRAYS[name]
    path = saved(tmp_path)
    repack(path, with_array(name, array))
    check_refused(lambda: ca.read_model(path), [str(path), *words])


@pytest.mark.parametrize("name", ["header.json", *(f"{name}.npy" for name in ARRAYS)])
def test_model_file_with_missing_member_refused(tmp_path, name):
    path = saved(tmp_path)
    repack(path, lambda member, content: None if member == name else content)
    check_refused(lambda: ca.read_model(path), [str(path), name.removesuffix(".npy")])


@pytest.mark.parametrize("reader", [ca.read_model, ca.load])
def test_unreadable_files_refused(tmp_path, reader):
    path = tmp_path / "file.npz"
    check_refused(lambda: reader(path), [str(path), "no such file"])
    check_refused(lambda: reader(tmp_path), [str(tmp_path)])
    check_refused(lambda: reader(None), ["None"])
    for content in (b"", b"hello", pickle.dumps({"a": 1}), b"PK\x03\x04" + bytes(40)):
        path.write_bytes(content)
        check_refused(lambda: reader(path), [str(path)])
    np.savez(path, a=np.zeros(3))
    check_refused(lambda: reader(path), [str(path)])


def test_solution_and_model_files_are_told_apart(tmp_path):
    path = saved(tmp_path)
    check_refused(lambda: ca.load(path), [str(path), "cautious model"])
    ca.solve(ca.Problem(model())).save(path)
    check_refused(lambda: ca.read_model(path), [str(path), "cautious solution"])


def test_pickled_array_refused(tmp_path):
    path = saved(tmp_path)
    buffer = io.BytesIO()
    np.save(buffer, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    repack(path, lambda name, content: buffer.getvalue() if name == "start.npy" else content)
    check_refused(lambda: ca.read_model(path), [str(path), "start", "objects"])


def test_expanding_file_refused(tmp_path):
    path = saved(tmp_path)
    with zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("bomb.npy", bytes(20_000_000))
    check_refused(lambda: ca.read_model(path), [str(path), "bomb"])


def test_huge_claim_refused(tmp_path):
    path = saved(tmp_path)
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f8", "fortran_order": False, "shape": (2**40,)})
    repack(path, lambda name, content: buffer.getvalue() if name == "start.npy" else content)
    check_refused(lambda: ca.read_model(path), [str(path), "start"])


def test_truncated_and_flipped_files_never_load_wrong(tmp_path):
    """Every cut and every flipped byte is refused, or hits a byte that carries nothing."""
    path = saved(tmp_path)
    content = path.read_bytes()
    whole = ca.read_model(path)
    rng = np.random.default_rng(0)
    for cut in rng.integers(len(content), size=60):
        path.write_bytes(content[:cut])
        check_refused(lambda: ca.read_model(path), [str(path)])
    for place in rng.integers(len(content), size=400):
        flipped = bytearray(content)
        flipped[place] ^= int(rng.integers(1, 256))
        path.write_bytes(bytes(flipped))
        try:
            found = ca.read_model(path)
        except ca.FileError:
            continue
        assert np.array_equal(found.transitions.toarray(), whole.transitions.toarray())
        assert np.array_equal(found.rewards, whole.rewards)
        assert found.discount == whole.discount


@pytest.mark.parametrize("changes", [{"status": "FINE"}, {"objective": "high"}, {"certificate": {}}, {"model": None}])
def test_solution_file_with_wrong_header_refused(tmp_path, changes):
    path = tmp_path / "solution.npz"
    ca.solve(ca.Problem(model())).save(path)
    repack(path, with_header(**changes))
    check_refused(lambda: ca.load(path), [str(path)])


def test_writing_to_a_missing_folder_refused(tmp_path):
    path = tmp_path / "nowhere" / "model.npz"
    check_refused(lambda: model().save(path), [str(path)])
