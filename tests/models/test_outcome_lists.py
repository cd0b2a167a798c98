"""Lists of outcomes as models, against sums by hand."""

import numpy as np
import pytest

import cautious as ca
from cautious.models.outcome_lists import OutcomeList, merged_outcomes

SHAPE = (4, 3)


def outcomes(rng, n_pairs, rewards):
    """A few outcomes for some pairs, in any order and with repetitions."""
    rows = np.repeat(rng.permutation(SHAPE[0] * SHAPE[1])[:n_pairs], 5)
    weights = rng.uniform(0.1, 1, size=(n_pairs, 5))
    chances = (weights / weights.sum(axis=1, keepdims=True)).ravel()
    found = OutcomeList(rows, rng.integers(SHAPE[0], size=rows.size), chances, rng.choice(rewards, rows.size))
    return found.at(rng.permutation(rows.size))


@pytest.mark.parametrize("seed", range(20))
def test_moments_are_sums_over_the_list(seed):
    rng = np.random.default_rng(seed)
    listed = outcomes(rng, 9, [1e6, 1e6 + 1, -3.0])
    beside = rng.normal(size=SHAPE) if seed % 2 else None
    chance, mean, square = np.zeros((12, 4)), np.zeros(12), np.zeros(12)
    for row, target, p, r in zip(listed.rows, listed.next_states, listed.probabilities, listed.rewards, strict=True):
        paid = r + (0 if beside is None else beside.ravel()[row])
        chance[row, target] += p
        mean[row] += p * paid
        square[row] += p * paid**2
    found = merged_outcomes(SHAPE, listed, pair_reward=beside)
    assert found.allowed.ravel().tolist() == (chance.sum(axis=1) > 0).tolist()
    assert found.transitions.toarray() == pytest.approx(chance)
    used = found.allowed.ravel()
    assert found.rewards.ravel()[used] == pytest.approx(mean[used])
    assert found.reward_square.ravel()[used] == pytest.approx(square[used])
    assert np.all(found.reward_square >= found.rewards**2)


def one_pair(rewards, targets=(0, 0, 1), **options):
    """State 0 has three outcomes, the others lead to themselves."""
    listed = OutcomeList(
        np.array([0, 0, 0, 1]), np.array([*targets, 1]), np.array([0.25, 0.25, 0.5, 1]), np.array([*rewards, 0.0])
    )
    return merged_outcomes((2, 1), listed, **options)


def test_rewards_stay_with_their_outcomes_where_that_hides_nothing():
    assert one_pair([1, 1, 1]).rewards.tolist() == [[1], [0]]
    assert one_pair([1, 1, 1], per_outcome=True).rewards.toarray().tolist() == [[1, 1], [0, 0]]
    assert one_pair([1, 1, 2]).rewards.toarray().tolist() == [[1, 2], [0, 0]]
    assert one_pair([1, 1, 2], pair_reward=np.array([[10.0], [20.0]])).rewards.toarray().tolist() == [[11, 12], [0, 20]]
    spread = one_pair([1, 3, 2])
    assert spread.rewards.tolist() == [[2], [0]]
    assert spread.reward_square.tolist() == [[4.5], [0]]


def test_rounding_is_no_spread_and_nothing_else_is_rounded():
    computed = one_pair([0.3, 0.1 + 0.2, 0.3])
    assert computed.reward_square is None
    assert computed.rewards.tolist() == [[0.3], [0]]
    apart = one_pair([0.3, 0.3, 0.1 + 0.2])
    assert apart.rewards.toarray()[0].tolist() == [0.3, 0.1 + 0.2]


def test_without_rewards_only_pairs_pay():
    listed = OutcomeList(np.array([0, 1]), np.array([1, 0]), np.ones(2), None)
    assert merged_outcomes((2, 1), listed).rewards.tolist() == [[0], [0]]
    assert merged_outcomes((2, 1), listed, pair_reward=np.array([[3.0], [4.0]])).rewards.tolist() == [[3], [4]]


def test_rows_that_do_not_sum_to_one_are_rescaled_with_their_rewards(tmp_path):
    path = tmp_path / "half.csv"
    path.write_text("state,action,next_state,probability,reward\n0,0,0,0.25,1\n0,0,0,0.25,3\n")
    mdp = ca.read_model(path, discount=0.9, normalise=True)
    assert (mdp.rewards.tolist(), mdp.reward_square.tolist()) == ([[2]], [[5]])
