"""What a model is said to be, against definitions applied by hand."""

import re
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse as sp

import cautious as ca
from cautious.models.ends import components_of


def random_model(seed, n_states=5, n_actions=2):
    rng = np.random.default_rng(seed)
    transitions = rng.dirichlet(np.ones(n_states), size=(n_states, n_actions))
    transitions[rng.random(transitions.shape) < 0.75] = 0.0
    empty = transitions.sum(axis=2) == 0
    transitions[empty, rng.integers(n_states)] = 1.0
    transitions /= transitions.sum(axis=2, keepdims=True)
    allowed = rng.random((n_states, n_actions)) < 0.8
    allowed[~allowed.any(axis=1), 0] = True
    return ca.MDP(transitions, rng.normal(size=(n_states, n_actions)), 0.9, allowed=allowed)


def components_by_definition(mdp):
    """All sets of states with actions that stay inside, strongly connected; the largest ones."""
    support = mdp.transitions.toarray().reshape(*mdp.shape, mdp.n_states) > 0
    found = []
    for size in range(mdp.n_states, 0, -1):
        for states in combinations(range(mdp.n_states), size):
            inside = np.isin(np.arange(mdp.n_states), states)
            staying = mdp.allowed & ~(support & ~inside).any(axis=2)
            edges = (support & staying[:, :, None]).any(axis=1)
            reach = np.eye(mdp.n_states, dtype=bool) | (edges & inside[:, None])
            for _ in range(mdp.n_states):
                reach = (reach.astype(int) @ reach.astype(int)) > 0
            closed = all(staying[s].any() for s in states) and reach[np.ix_(states, states)].all()
            if closed and not any(set(states) <= other for other in found):
                found.append(set(states))
    return found


@pytest.mark.parametrize("seed", range(60))
def test_end_components(seed):
    mdp = random_model(seed)
    label = components_of(mdp.csr[:2], mdp.allowed).number
    found = [set(np.flatnonzero(label == number).tolist()) for number in np.unique(label[label >= 0])]
    assert sorted(found, key=min) == sorted(components_by_definition(mdp), key=min)
    inspection = ca.inspect_model(mdp)
    assert inspection.end_components == len(found)
    assert inspection.largest_end_component == max(map(len, found))


def test_a_long_line_needs_no_deep_stack():
    n = 50_000
    transitions = [sparse_line(n, 1), sparse_line(n, -1)]
    mdp = ca.MDP(transitions, np.zeros((n, 2)), 0.9, np.eye(1, n)[0])
    found = ca.inspect_model(mdp)
    assert (found.end_components, found.largest_end_component, found.n_reachable) == (1, n, n)


def sparse_line(n, step):
    target = np.clip(np.arange(n) + step, 0, n - 1)
    return sp.csr_array((np.ones(n), target, np.arange(n + 1)), shape=(n, n))


def test_figures():
    transitions = np.zeros((4, 2, 4))
    transitions[0, 0, 1] = transitions[0, 1, 2] = transitions[1, :, 1] = transitions[2, 0, 3] = transitions[3, :, 0] = 1
    transitions[2, 1] = [0.5, 0, 0, 0.5]
    allowed = np.array([[1, 1], [1, 0], [1, 1], [1, 1]], bool)
    rewards = np.array([[1.0, 2], [0, 0], [3, -4], [0, 0]])
    found = ca.inspect_model(ca.MDP(transitions, rewards, 0.9, [1, 0, 0, 0], allowed=allowed))
    assert (found.n_states, found.n_actions, found.n_pairs, found.n_forbidden, found.n_transitions) == (4, 2, 7, 1, 8)
    assert (found.n_reachable, found.n_absorbing, found.n_without_choice, found.n_start_states) == (4, 1, 1, 1)
    assert (found.end_components, found.largest_end_component) == (2, 3)
    assert found.deterministic_share == pytest.approx(6 / 7)
    assert found.density == pytest.approx(8 / 28)
    assert (found.reward_range, found.rewards_of) == ((-4.0, 3.0), "pairs")
    assert found.suspicions == ()
    assert dict(found.table())["pairs"] == "7, 1 forbidden"


def suspicious(**changes):
    transitions = np.array([[[0.5, 0.5, 0], [0.2, 0.8, 0]], [[1, 0, 0], [0, 1, 0]], [[0, 0, 1], [1, 0, 0]]], float)
    parts = {
        "transitions": transitions,
        "rewards": np.array([[1.0, 2], [3, 4], [5, 6]]),
        "discount": 0.9,
        "start": None,
    }
    parts |= changes
    return ca.MDP(parts.pop("transitions"), parts.pop("rewards"), parts.pop("discount"), parts.pop("start"), **parts)


STILL = np.repeat(np.eye(3)[:, None, :], 2, axis=1)
SUSPICIONS = {
    "nothing": ({}, None),
    "unreachable": ({"start": [1, 0, 0]}, "state 2 can never be reached from the start"),
    "no choice": ({"allowed": np.array([[1, 0]] * 3, bool)}, "no state has a choice"),
    "absorbing start": ({"transitions": STILL, "start": [1, 0, 0]}, "the start is absorbing"),
    "discount": ({"discount": 0.0}, "the discount is 0"),
    "equal rewards": ({"rewards": np.ones((3, 2))}, "every reward is 1: no policy is better than another"),
    "scales": ({"rewards": np.array([[1e-9, 2], [3, 4], [5, 6e5]])}, "very different sizes: 1e-09 and 600000"),
    "rescaled": ({"transitions": STILL * 0.9, "normalise": True}, "did not sum to one and were rescaled"),
    "twins": ({"transitions": STILL, "rewards": np.ones((3, 1)) * [[1, 1]]}, "actions 0 and 1 do and pay the same"),
    "names": ({"start": [1, 0, 0], "state_names": ["a", "b", "c"]}, r"state 2 \('c'\) can never be reached"),
}


@pytest.mark.parametrize("name", SUSPICIONS)
def test_suspicions(name):
    changes, message = SUSPICIONS[name]
    found = ca.inspect_model(suspicious(**changes)).suspicions
    assert found == () if message is None else any(re.search(message, one) for one in found), found


def test_more_suspicions():
    tiny = np.array([[[1 - 1e-13, 1e-13], [1, 0]], [[0, 1], [0, 1]]])
    found = ca.inspect_model(ca.MDP(tiny, np.array([[1.0, 2], [7, 7]]), 0.9)).suspicions
    assert "1 probabilities are below 1e-12, the first is 1e-13 (state 0, action 0, to state 1)" in found
    assert "state 1 cannot be left and pays for ever (7 per step there)" in found
    with pytest.warns(ca.CautiousWarning, match="within 1e-6"):
        near = suspicious(discount=1 - 1e-7)
    assert any("within 1e-6 of one" in one for one in ca.inspect_model(near).suspicions)


def test_the_worlds_are_not_suspicious_without_reason():
    for name in ("maze", "machine_replacement", "inventory", "queue", "river_swim"):
        assert ca.inspect_model(getattr(ca.worlds, name)()).suspicions == (), name


def test_a_log_shows_its_rows_and_what_it_hardly_tried(tmp_path):
    rows = [("well", "wait", 1.0, "well")] * 1500 + [("ill", "treat", -2.0, "well"), ("well", "wait", 1.0, "ill")]
    logged = ca.from_transitions(rows, 0.9, untried="pessimistic", reward_range=(-100, 5))
    found = ca.inspect_model(logged)
    assert (found.n_rows, found.least_tried, found.rewards_seen) == (1502, ("ill", "treat", 1), (-2.0, 1.0))
    table = dict(found.table())
    assert table["rows of the log"] == "1,502"
    assert table["least tried pair"] == "action treat in state ill, once"
    assert table["rewards"] == "-2 to 1 in the log, -100 to 5 possible, per outcome"
    logged.save(tmp_path / "log.npz")
    saved = ca.inspect_model(ca.read_model(tmp_path / "log.npz"))
    assert (saved.n_rows, saved.least_tried, saved.rewards_seen) == (1502, ("ill", "treat", 1), None)
    assert dict(saved.table())["rewards"] == "-100 to 5, per outcome"
    assert "rows of the log" not in dict(ca.inspect_model(ca.worlds.river_swim()).table())
