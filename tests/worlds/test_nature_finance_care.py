import math

import numpy as np
import pytest

from cautious import worlds
from cautious.errors import InputError
from cautious.occupancy import policy_occupancy
from cautious.planning import plan


def dense(mdp):
    return mdp.transitions.toarray().reshape(*mdp.shape, mdp.n_states)


def test_a_forest_by_hand():
    mdp = worlds.forest(n_ages=3)
    np.testing.assert_allclose(dense(mdp)[:, 0], [[0.05, 0.95, 0], [0.05, 0, 0.95], [0.05, 0, 0.95]])
    np.testing.assert_array_equal(dense(mdp)[:, 1, 0], 1)
    assert mdp.rewards[2, 1] == pytest.approx(60 * 600 * (1 - math.exp(-0.6)) ** 3 - 2000)
    assert mdp.rewards[0, 0] == pytest.approx(-100)


def test_the_best_rotation_is_faustmanns():
    mdp = worlds.forest()
    keep, burn, gamma = 0.95, 0.05, 0.82

    def bare_land_value(rotation):
        """Value of fresh planting when cutting at this age: renewal at the first fire or at the cut."""
        timber = 60 * 600 * (1 - math.exp(-0.3 * rotation)) ** 3 - 2000
        fires = sum(gamma * burn * (gamma * keep) ** k for k in range(rotation))
        survives = (gamma * keep) ** rotation
        return (survives * timber - 2000 * fires / gamma) / (1 - fires - survives * gamma)

    best = max(range(1, 12), key=bare_land_value)
    found = plan(mdp, mdp.rewards)
    assert found.actions.tolist() == [0] * best + [1] * (12 - best)
    assert found.values[0] == pytest.approx(bare_land_value(best))


def test_a_sale_by_hand():
    mdp = worlds.liquidation(n_blocks=2, n_prices=3, max_sale=2)
    table = dense(mdp)
    two_mid, one_low, one_high, one_top = 2 * 3 + 1, 3 + 0, 3 + 2, 3 + 2
    np.testing.assert_allclose(table[two_mid, 1, [one_low, one_high]], [0.52, 0.48])
    # one block kept moves by 2, selling one costs 0.3, keeping one 0.3
    assert mdp.rewards[two_mid, 1] == pytest.approx(0.48 * 2 - 0.52 * 2 - 0.6)
    assert table[one_top, 0, one_top] == pytest.approx(0.5)
    assert mdp.allowed[:3].tolist() == [[True, False, False]] * 3
    assert mdp.state_names[two_mid] == "2 blocks, level 1 (100)"
    assert mdp.start[two_mid] == 1
    np.testing.assert_array_equal(mdp.rewards[:3], 0)


def test_what_is_sold_stays_sold_and_the_best_plan_sells_everything():
    mdp = worlds.liquidation()
    blocks = np.repeat(np.arange(11), 9)
    state, _, there = np.nonzero(dense(mdp))
    assert np.all(blocks[there] <= blocks[state])
    policy = plan(mdp, mdp.rewards).policy(5)
    left = policy_occupancy(mdp, policy).occupancy.sum(axis=1).reshape(11, 9).sum(axis=1)
    assert left[0] > 0.5


def test_without_impact_a_costly_holding_is_sold_at_once():
    mdp = worlds.liquidation(impact=0.0, pressure=0.0, tick=0.0)
    actions = plan(mdp, mdp.rewards).actions.reshape(11, 9)
    np.testing.assert_array_equal(actions, np.minimum(np.arange(11), 4)[:, None].repeat(9, axis=1))


def test_a_clinic_by_hand():
    mdp = worlds.clinic(max_urgent=1, max_routine=1, urgent_arrivals=0.5, routine_arrivals=0.25, deterioration=0.2)
    table = dense(mdp)
    # one urgent and one routine waiting (state 3); the urgent one is treated, the other may get worse
    none_new, urgent_new, routine_new, both_new = 0.5 * 0.75, 0.5 * 0.75, 0.5 * 0.25, 0.5 * 0.25
    expected = np.zeros(4)
    expected[1] += 0.8 * (none_new + routine_new)
    expected[3] += 0.8 * (urgent_new + both_new)
    expected[2] += 0.2 * (none_new + urgent_new)
    expected[3] += 0.2 * (routine_new + both_new)
    np.testing.assert_allclose(table[3, 0], expected)
    assert mdp.rewards[3].tolist() == pytest.approx([5 - 0.55, 3 - 0.55, -0.55])
    assert mdp.allowed.tolist() == [[False, False, True], [False, True, True], [True, False, True], [True, True, True]]
    assert mdp.start.tolist() == [1, 0, 0, 0]


def test_the_tasks_of_a_clinic_count_patients_treated():
    mdp = worlds.clinic()
    tasks = worlds.clinic_tasks(mdp)
    np.testing.assert_array_equal(tasks.sum(axis=0)[:, :2], mdp.allowed[:, :2])
    assert not tasks[:, :, 2].any()
    assert tasks[0, mdp.state_names.index("2 urgent, 0 routine")].tolist() == [1, 0, 0]


def test_the_best_clinic_never_pauses_and_treats_urgent_patients_first():
    mdp = worlds.clinic()
    actions = plan(mdp, mdp.rewards).actions.reshape(6, 9)
    assert np.all(actions[1:] == 0)
    assert actions[0, 0] == 2
    assert np.all(actions[0, 1:] == 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: worlds.forest(n_ages=1), "n_ages must be a whole number of at least 2"),
        (lambda: worlds.forest(fire=-0.1), "fire is -0.1"),
        (lambda: worlds.liquidation(n_prices=2), "n_prices must be a whole number of at least 3"),
        (lambda: worlds.liquidation(pressure=0.2), "pressure is 0.2; with max_sale 4 it must be at most 0.125"),
        (lambda: worlds.clinic(urgent_arrivals=2), "urgent_arrivals is 2"),
        (lambda: worlds.clinic(max_routine=0), "max_routine must be a whole number of at least 1"),
        (lambda: worlds.clinic_tasks(worlds.forest()), "the tasks belong to a clinic"),
    ],
)
def test_wrong_input_is_refused_by_name(call, message):
    with pytest.raises(InputError, match=message):
        call()
