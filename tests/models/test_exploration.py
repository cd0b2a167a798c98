"""Models from functions: our worlds written down again, a search of our own, names, limits, and mistakes of users."""

import io
import math
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import pytest
from rich.console import Console
from scipy.stats import poisson

import cautious as ca
from cautious.models import exploration


def agree(mdp, world, state_of, action_of):
    """Both models, pair by pair; ``state_of`` and ``action_of`` turn the world's numbers into the user's objects."""
    assert (mdp.n_states, mdp.n_actions) == world.shape
    states = np.array([mdp.index(state_of(s)) for s in range(world.n_states)])
    actions = np.array([mdp.actions.index(action_of(a)) for a in range(world.n_actions)])
    shape = (*world.shape, world.n_states)
    ours = mdp.transitions.toarray().reshape(shape)[np.ix_(states, actions, states)]
    assert np.allclose(ours, world.transitions.toarray().reshape(shape), rtol=1e-12, atol=1e-15)
    pairs = np.ix_(states, actions)
    assert np.array_equal(mdp.allowed[pairs], world.allowed)
    assert np.allclose(mdp.rewards[pairs], world.rewards, rtol=1e-12, atol=1e-12)
    assert np.allclose(mdp.reward_square[pairs], world.reward_square, rtol=1e-12, atol=1e-12)
    assert np.allclose(mdp.start[states], world.start)


def test_machine_replacement_written_as_functions():
    def actions(wear):
        return ["repair", "replace"] if wear == "broken" else ["operate", "repair", "replace"]

    def outcomes(wear, action):
        if action == "replace":
            return [(1.0, 0, -2500.0)]
        if action == "repair":
            return [(1.0, 9 if wear == "broken" else wear // 2, -500.0)]
        fails = 0.1 * (wear / 9) ** 2
        grown = [
            ((1 - fails) * p, min(wear + more, 9), 1000.0 - 20 * wear) for more, p in ((0, 0.5), (1, 0.35), (2, 0.15))
        ]
        return [*grown, (fails, "broken", -5000.0)]

    world = ca.worlds.machine_replacement()
    mdp = ca.from_function([0], actions, outcomes, discount=0.99)
    agree(mdp, world, lambda s: "broken" if s == 10 else s, lambda a: world.action_names[a])
    ca.testing.check_model(mdp)
    one, two = (ca.solve(ca.Problem(model, ca.Variance(), caution=1e-4)).objective for model in (mdp, world))
    assert one == pytest.approx(two, rel=1e-6)


def test_queue_written_as_a_generator():
    class Choice(NamedTuple):
        admits: bool
        speed: float

    slots = 12.0 + 18.0

    def actions(present):
        return [
            Choice(admits, speed) for admits in (True, False) for speed in (10.0, 18.0) if present < 15 or not admits
        ]

    def outcomes(present, choice):
        cost = (2.0 * present + {10.0: 20.0, 18.0: 80.0}[choice.speed] * (present > 0)) / slots
        comes, leaves = 12.0 / slots * choice.admits, choice.speed / slots * (present > 0)
        yield comes, present + 1, 10.0 - cost
        yield leaves, present - 1, -cost
        yield 1 - comes - leaves, present, -cost

    world = ca.worlds.queue()
    choices = [Choice(True, 10.0), Choice(True, 18.0), Choice(False, 10.0), Choice(False, 18.0)]
    agree(ca.from_function([0], actions, outcomes, 0.99), world, lambda s: s, lambda a: choices[a])


def test_inventory_has_the_mean_of_every_demand_written_out():
    capacity, mean = 6, 2.0

    def outcomes(stock, order):
        for demand in range(60):
            chance = poisson.pmf(demand, mean) if demand < 59 else poisson.sf(58, mean)
            sold = min(stock + order, demand)
            left = stock + order - sold
            yield chance, left, 20 * sold - 10 * order - 25 * (order > 0) - left - 2 * (demand - sold)

    mdp = ca.from_function(range(7), lambda stock: range(capacity - stock + 1), outcomes, 0.98)
    world = ca.worlds.inventory(capacity=capacity, demand=mean)
    # the world averages the lost sales of one outcome; written out, they are a spread
    assert np.allclose(mdp.rewards, world.rewards, rtol=1e-10)
    assert np.allclose(mdp.transitions.toarray(), world.transitions.toarray(), atol=1e-14)
    assert (mdp.reward_square >= world.reward_square - 1e-9).all()
    assert mdp.has_reward_spread
    with pytest.raises(ca.IncompatibleError, match="CVaR"):
        ca.Problem(mdp, ca.CVaR(0.9))


@pytest.mark.parametrize("seed", range(10))
def test_random_models_equal_a_search_of_our_own(seed):
    rng = np.random.default_rng(seed)
    n, size = 40, 3
    table = {
        (s, a): [
            (float(p), int(t), float(r))
            for p, t, r in zip(rng.dirichlet(np.ones(3)), *rng.integers(n, size=(2, 3)), strict=True)
        ]
        for s in range(n)
        for a in rng.permutation(size)[: rng.integers(1, size + 1)].tolist()
    }
    offered = {s: [a for t, a in table if t == s] for s in range(n)}
    mdp = ca.from_function({3: 0.25, 7: 0.75}, offered.get, lambda s, a: table[s, a], 0.9)
    reached, border = {3, 7}, [3, 7]
    while border:
        s = border.pop()
        for t in {t for a in offered[s] for _, t, _ in table[s, a]} - reached:
            reached.add(t)
            border.append(t)
    assert set(mdp.states) == reached
    assert mdp.start[mdp.index(7)] == 0.75
    for s in reached:
        for a in range(size):
            i, j = mdp.index(s), mdp.actions.index(a) if a in mdp.actions else None
            assert (j is not None and mdp.allowed[i, j]) == (a in offered[s])
            if a in offered[s]:
                for power, moment in ((1, mdp.rewards), (2, mdp.reward_square)):
                    assert moment[i, j] == pytest.approx(sum(p * r**power for p, _, r in table[s, a]))
                for t in reached:
                    chance = sum(p for p, there, _ in table[s, a] if there == t)
                    assert mdp.transitions[i * mdp.n_actions + j, mdp.index(t)] == pytest.approx(chance, abs=1e-15)


def walk(n):
    return lambda s: ["left", "right"] if 0 < s < n else [], lambda s, a: [(1.0, s + (1 if a == "right" else -1), -1.0)]


def test_states_without_actions_absorb_or_restart():
    actions, outcomes = walk(3)
    stays = ca.from_function([1, 2], actions, outcomes, 0.9, at_end="absorb")
    assert stays.states == (1, 2, 0, 3)
    assert stays.allowed.all()
    assert stays.transitions.toarray()[[4, 5, 6, 7]].tolist() == [[0, 0, 1, 0]] * 2 + [[0, 0, 0, 1]] * 2
    assert stays.rewards.tolist() == [[-1, -1], [-1, -1], [0, 0], [0, 0]]
    again = ca.from_function({1: 0.25, 2: 0.75}, actions, outcomes, 0.9, at_end="restart")
    assert again.transitions.toarray()[[4, 5, 6, 7]].tolist() == [[0.25, 0.75, 0, 0]] * 4


def test_names_reach_risks_predictions_and_files(tmp_path):
    @dataclass(frozen=True)
    class Depot:
        stock: int

        def __str__(self):
            return f"{self.stock} pallets"

    mdp = ca.from_function(
        [Depot(2)],
        lambda depot: ["ship", "fill"] if depot.stock else ["fill"],
        lambda depot, action: [(1.0, Depot(depot.stock - 1 if action == "ship" else 2), float(action == "ship"))],
        scene=ca.Scene("Depot"),
    )
    assert mdp.state_names == ("2 pallets", "1 pallets", "0 pallets")
    assert mdp.action_names == ("ship", "fill")
    solution = ca.solve(ca.Problem(mdp, ca.SafeSet(["1 pallets", "2 pallets"], slack=0.4), caution=0.01))
    assert mdp.where(lambda depot: depot.stock == 0).tolist() == [mdp.index(Depot(0))] == [2]
    assert mdp.actions[solution.predict("0 pallets")[0]] == "fill"
    mdp.save(tmp_path / "depot.npz")
    assert ca.read_model(tmp_path / "depot.npz").state_names == mdp.state_names


def test_names_that_do_not_tell_apart():
    def hop(states):
        return ca.from_function(
            states[:1], lambda s: ["hop"], lambda s, a: [(1.0, states[(states.index(s) + 1) % 2], 0)]
        )

    assert hop([1, "1"]).state_names == ("1", "'1'")
    assert hop([object(), object()]).state_names is None
    with pytest.raises(ca.InputError, match="'nowhere' is none of the 2 states"):
        hop([1, "1"]).index("nowhere")


def test_what_counts_as_the_same():
    # equal keys are one state, chances of zero lead nowhere, and any number is a number
    mdp = ca.from_function(
        [1], lambda s: [0], lambda s, a: [(Fraction(1, 3), 1.0, 2), (np.float64(2 / 3), True, 2.0), (0, 9, 5)]
    )
    assert mdp.shape == (1, 1)
    assert mdp.rewards.tolist() == [[2.0]]
    # rewards that differ by rounding alone are one reward
    near = ca.from_function([0], lambda s: [0], lambda s, a: [(0.25, 0, 0.1 + 0.2), (0.25, 0, 0.3), (0.5, 1, 7.0)])
    assert near.outcome_rewards.tolist()[1] == 7.0
    assert not near.has_reward_spread


def test_progress_is_told_and_shown_only_on_request(capsys, monkeypatch):
    monkeypatch.setattr(exploration, "EVERY_SECONDS", 0.0)
    actions, outcomes = walk(50)
    seen = []
    ca.from_function([25], actions, outcomes, at_end="absorb", callback=seen.append)
    assert [one.explored for one in seen] == list(range(1, 52))
    assert (seen[-1].found, seen[-1].outcomes) == (51, 98)
    assert capsys.readouterr() == ("", "")
    # nowhere to draw a bar
    ca.from_function([25], actions, outcomes, at_end="absorb", progress=True)
    assert capsys.readouterr() == ("", "")
    screen = io.StringIO()
    monkeypatch.setattr(exploration, "Console", lambda stderr: Console(file=screen, force_terminal=True))
    ca.from_function([25], actions, outcomes, at_end="absorb", progress=True)
    assert "51 of 51 states found" in screen.getvalue()


def stay(state, action):
    return [(1.0, state, 0.0)]


def one_action(state):
    return ["go"]


def made(initial_states=(0,), actions=one_action, outcomes=stay, **options):
    return lambda: ca.from_function(initial_states, actions, outcomes, **options)


def giving(*listed):
    return made(outcomes=lambda s, a: list(listed))


BAD = {
    "a string": (made("new"), "initial_states is 'new'; expected a list of states, such as ['new'], or a mapping"),
    "one state": (made(3), "initial_states is 3; expected a list of states"),
    "no state": (made([]), "initial_states is empty"),
    "twice": (made((0, 0)), "initial_states holds 0 twice; give a mapping"),
    "chances": (made({0: 0.5}), "the chances of initial_states sum to 0.5"),
    "a chance": (made({"a": 1.5, "b": -0.5}), "initial_states['a'] is 1.5"),
    "unhashable start": (made([[0]]), "a state of initial_states is [0], which is not hashable"),
    "discount": (made(discount=1.5), "discount is 1.5"),
    "callback": (made(callback=3), "callback must be a function, found 3"),
    "functions": (made(actions=["go"]), "actions must be a function, found ['go']"),
    "no list": (made(actions=lambda s: None), "actions(0) gives None; expected a list of actions"),
    "a word": (made(actions=lambda s: "go"), "actions(0) gives 'go'; expected a list of actions"),
    "no action": (made(["goal"], actions=lambda s: []), "actions('goal') gives no action; say what follows: at_end="),
    "nothing to do": (made(actions=lambda s: [], at_end="absorb"), "no initial state has an action"),
    "action twice": (made(actions=lambda s: ["a", "a"]), "actions(0) gives an action twice, found ['a', 'a']"),
    "unhashable action": (made(actions=lambda s: [{}]), "an action of actions(0) is {}, which is not hashable"),
    "no outcomes": (made(outcomes=lambda s, a: None), "outcomes(0, 'go') gives None; expected a list of outcomes"),
    "two numbers": (giving((1.0, 0)), "outcomes(0, 'go') gives (1.0, 0); expected a number, a state and a number"),
    "text": (giving(("1", 0, 0.0)), "outcomes(0, 'go') gives ('1', 0, 0.0); expected a number"),
    "too large": (giving((1.0, 0, 10**400)), "outcomes(0, 'go') gives (1.0, 0, 1000"),
    "negative": (giving((-0.1, 0, 0.0)), "outcomes(0, 'go') gives the probability -0.1; expected 0 to 1"),
    "nan": (giving((math.nan, 0, 0.0)), "outcomes(0, 'go') gives the probability nan"),
    "reward": (giving((1.0, 0, math.inf)), "outcomes(0, 'go') gives the reward inf; it must be finite"),
    "sum": (
        giving((0.5, 0, 0.0), (0.4, 1, 0.0)),
        "the probabilities of outcomes(0, 'go') sum to 0.9; they must sum to",
    ),
    "empty": (giving(), "the probabilities of outcomes(0, 'go') sum to 0"),
    "unhashable": (giving((1.0, [0], 0.0)), "the next state of outcomes(0, 'go') is [0], which is not hashable"),
    "at_end": (made(at_end="stop"), "at_end is 'stop'"),
    "cap": (
        made(outcomes=lambda s, a: [(1.0, s + 1, 0.0)], max_states=100),
        "more than max_states = 100 states can be reached; the next one is 100, from outcomes(99, 'go')",
    ),
    "cap of nothing": (made(max_states=0), "max_states must be a whole number of at least 1"),
    "actions named by place": (
        made(actions=lambda s: [(s, k) for k in range(40)], outcomes=lambda s, a: [(1.0, (s + 1) % 1000, 0.0)]),
        "1000 states and 40000 different actions make 4e+07 pairs, of which 40000 are in use; call actions by what",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_users_get_wrong_is_named(case):
    make, message = BAD[case]
    with pytest.raises(ca.InputError, match=re.escape(message)):
        make()


@pytest.mark.parametrize(
    ("make", "note"),
    [
        (made([(0, 5)], outcomes=lambda s, a: [(1.0, s, 1 / s[0])]), "raised by outcomes((0, 5), 'go')"),
        (made([(0, 5)], outcomes=lambda s, a: ((1.0, s, 1 / x) for x in (1, 0))), "raised by outcomes((0, 5), 'go')"),
        (made([0], actions=lambda s: [1 / s]), "raised by actions(0)"),
    ],
)
def test_errors_of_user_functions_say_where(make, note):
    with pytest.raises(ZeroDivisionError) as caught:
        make()
    assert caught.value.__notes__ == [note]
