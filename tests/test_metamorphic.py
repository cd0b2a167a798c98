"""Changes of a problem that change its answer in a known way: no reference solver is needed to see a wrong one.

Two answers are compared by their proofs: the objective of one may not exceed the upper bound of the other.
"""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import cautious as ca
from cautious.testing import strategies

FEW = settings(max_examples=60, deadline=None, derandomize=True)


def arrays(mdp):
    """Transitions (S, A, S) and rewards as the model was given them."""
    transitions = mdp.transitions.toarray().reshape(*mdp.shape, mdp.n_states)
    if mdp.outcome_rewards is None:
        return transitions, np.array(mdp.rewards)
    rewards = np.zeros_like(transitions)
    rewards[transitions > 0] = mdp.outcome_rewards
    return transitions, rewards


def agree(one, other, scale=1.0):
    """The proofs of two answers allow the same best objective; the second is ``scale`` times the first."""
    room = 1e-9 * max(1.0, abs(one.objective) * scale)
    assert scale * one.objective <= other.upper_bound + room
    assert other.objective <= scale * one.upper_bound + room
    for found in (one, other):
        assert found.gap <= 1e-5 * max(1.0, abs(found.objective)), found


@given(st.data())
@FEW
def test_states_and_actions_in_another_order(data):
    mdp = data.draw(strategies.models())
    prior, caution = data.draw(strategies.policies(mdp)), data.draw(st.sampled_from((0.1, 1.0)))
    states = np.array(data.draw(st.permutations(range(mdp.n_states))))
    actions = np.array(data.draw(st.permutations(range(mdp.n_actions))))
    transitions, rewards = arrays(mdp)
    pairs = np.ix_(states, actions)
    moved = ca.MDP(
        transitions[np.ix_(states, actions, states)],
        rewards[pairs] if rewards.ndim == 2 else rewards[np.ix_(states, actions, states)],
        mdp.discount,
        mdp.start[states],
    )
    for risk, same in (
        (None, None),
        (ca.Variance(), ca.Variance()),
        (ca.Entropy(), ca.Entropy()),
        (ca.TotalVariation(prior), ca.TotalVariation(prior[pairs])),
        (ca.CVaR(0.5), ca.CVaR(0.5)),
    ):
        agree(ca.solve(ca.Problem(mdp, risk, caution)), ca.solve(ca.Problem(moved, same, caution)))


@given(strategies.models(), st.sampled_from((0.25, 8.0, 1000.0)))
@FEW
def test_scaled_rewards(mdp, scale):
    """The objective scales with the rewards if caution * risk does."""
    transitions, rewards = arrays(mdp)
    scaled = ca.MDP(transitions, scale * rewards, mdp.discount, mdp.start)
    for risk, caution in ((None, 1.0), (ca.Entropy(), scale), (ca.Variance(), 1 / scale), (ca.CVaR(0.5), 1.0)):
        agree(ca.solve(ca.Problem(mdp, risk, 1.0)), ca.solve(ca.Problem(scaled, risk, caution)), scale)


@given(st.data())
@FEW
def test_a_state_split_in_two(data):
    """Its copies do the same, and each gets half of what came to it."""
    mdp = data.draw(strategies.models())
    chosen = data.draw(st.integers(0, mdp.n_states - 1))
    transitions, rewards = arrays(mdp)
    source = np.append(np.arange(mdp.n_states), chosen)
    share = np.where(source == chosen, 0.5, 1.0)
    split = ca.MDP(
        transitions[source][:, :, source] * share,
        rewards[source] if rewards.ndim == 2 else rewards[source][:, :, source],
        mdp.discount,
        mdp.start[source] * share,
    )
    others = np.flatnonzero(np.arange(mdp.n_states) != chosen)
    pairs = [(None, None), (ca.Variance(), ca.Variance()), (ca.CVaR(0.9), ca.CVaR(0.9))]
    if others.size:
        both = [chosen, mdp.n_states]
        pairs.append((ca.PeakExposure([[chosen], others]), ca.PeakExposure([both, others])))
    for risk, same in pairs:
        agree(ca.solve(ca.Problem(mdp, risk, 1.0)), ca.solve(ca.Problem(split, same, 1.0)))


@given(st.data())
@FEW
def test_an_action_twice(data):
    mdp = data.draw(strategies.models())
    prior = np.full(mdp.n_states, 1 / mdp.n_states)
    transitions, rewards = arrays(mdp)
    again = data.draw(st.integers(0, mdp.n_actions - 1))
    columns = np.append(np.arange(mdp.n_actions), again)
    doubled = ca.MDP(transitions[:, columns], rewards[:, columns], mdp.discount, mdp.start)
    for risk in (None, ca.Variance(), ca.CVaR(0.5), ca.KL(prior), ca.Quadratic(prior)):
        agree(ca.solve(ca.Problem(mdp, risk, 1.0)), ca.solve(ca.Problem(doubled, risk, 1.0)))


@given(strategies.models(), st.integers(1, 3))
@FEW
def test_states_that_cannot_be_reached(mdp, more):
    """They lead anywhere and pay a lot, and nobody comes there."""
    transitions, rewards = arrays(mdp)
    n, m = mdp.shape
    wide = np.zeros((n + more, m, n + more))
    wide[:n, :, :n] = transitions
    wide[n:] = 1 / (n + more)
    paid = np.full((n + more, m), 100.0) if rewards.ndim == 2 else np.full((n + more, m, n + more), 100.0)
    paid[(slice(0, n), slice(None), slice(0, n))[: rewards.ndim]] = rewards
    wider = ca.MDP(wide, paid, mdp.discount, np.append(mdp.start, np.zeros(more)))
    for risk in (None, ca.Variance(), ca.Entropy(), ca.CVaR(0.5), ca.PeakExposure([[0]])):
        agree(ca.solve(ca.Problem(mdp, risk, 1.0)), ca.solve(ca.Problem(wider, risk, 1.0)))


@given(st.data())
@FEW
def test_more_caution_never_buys_more_risk(data):
    """And the objective falls with the caution, from the risk-neutral return on, if risks are not negative."""
    mdp = data.draw(strategies.models())
    risk = data.draw(strategies.risks(mdp, ("PeakExposure", "Variance", "TotalVariation", "Quadratic", "Wasserstein")))
    found = [ca.solve(ca.Problem(mdp, risk, caution)) for caution in (1e-9, 0.1, 10.0, 1e6)]
    neutral = ca.solve(ca.Problem(mdp))
    largest = max(abs(one.risk) for one in found)
    # objectives are computed with rounding, which the gaps contain
    rounding = 1e-9 * max(1.0, abs(neutral.objective))
    assert found[0].objective <= neutral.upper_bound + rounding
    assert neutral.objective <= found[0].upper_bound + rounding + 1e-8 * largest
    for low, high in pairwise(found):
        room = (low.gap + high.gap) / (high.caution - low.caution)
        assert high.risk <= low.risk + room + 1e-9 * max(1.0, largest)
        assert high.objective <= low.upper_bound + rounding


@given(strategies.problems())
@settings(max_examples=150, deadline=None, derandomize=True)
def test_random_problems_are_solved_with_a_proof(problem):
    solution = ca.solve(problem, time_limit_seconds=20.0)
    assert solution.status in (ca.Status.SOLVED, ca.Status.STATIONARY, ca.Status.INFEASIBLE)
    if solution.status is not ca.Status.INFEASIBLE:
        assert solution.objective <= solution.upper_bound
        assert solution.policy.sum(axis=1) == pytest.approx(np.ones(problem.mdp.n_states))
