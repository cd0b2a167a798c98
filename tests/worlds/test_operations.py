import math

import numpy as np
import pytest

from cautious import worlds
from cautious.errors import InputError
from cautious.occupancy import policy_occupancy
from cautious.planning import plan


def dense(mdp):
    return mdp.transitions.toarray().reshape(*mdp.shape, mdp.n_states)


def best_actions(mdp):
    return plan(mdp, mdp.rewards).actions


def test_a_machine_of_three_levels_by_hand():
    mdp = worlds.machine_replacement(n_levels=3, breakdown=0.4)
    table = dense(mdp)
    np.testing.assert_allclose(table[0, 0], [0.5, 0.35, 0.15, 0])
    np.testing.assert_allclose(table[1, 0], [0, 0.45, 0.45, 0.1])
    np.testing.assert_allclose(table[2, 0], [0, 0, 0.6, 0.4])
    np.testing.assert_array_equal(table[2, 1], [0, 1, 0, 0])
    np.testing.assert_array_equal(table[:, 2, 0], 1)
    assert mdp.allowed[3].tolist() == [False, True, True]
    assert mdp.rewards[1, 0] == pytest.approx(0.9 * 980 - 0.1 * 5000)
    assert mdp.rewards[3].tolist() == [0, -500, -2500]


def test_rewards_of_a_machine_are_not_split_by_rounding():
    paid = np.unique(worlds.machine_replacement().outcome_rewards)
    assert paid.tolist() == [-5000, -2500, -500, *range(820, 1001, 20)]


def test_the_best_machine_policy_is_monotone_in_wear():
    actions = best_actions(worlds.machine_replacement())[:-1]
    assert np.all(np.diff(actions) >= 0)
    assert actions.tolist() == [0, 0, 0, 0, 0, 1, 1, 1, 2, 2]


def test_a_machine_that_never_breaks_nor_costs_is_run_for_ever():
    mdp = worlds.machine_replacement(breakdown=0.0, running_cost=0.0)
    assert plan(mdp, mdp.rewards).lower == pytest.approx(1000 / (1 - 0.99))


def test_a_shop_by_hand():
    mdp = worlds.inventory(
        capacity=2, demand=1.0, price=20, unit_cost=10, order_cost=25, holding_cost=1, lost_sale_cost=2
    )
    p = [math.exp(-1), math.exp(-1), math.exp(-1) / 2]
    table = dense(mdp)
    np.testing.assert_allclose(table[0, 0], [1, 0, 0])
    np.testing.assert_allclose(table[1, 1], [1 - p[0] - p[1], p[1], p[0]])
    np.testing.assert_allclose(table[2, 0], table[1, 1])
    assert mdp.allowed.tolist() == [[True, True, True], [True, True, False], [True, False, False]]
    # expected sales min(2, D), items left (2 - D)+ and lost sales (D - 2)+ for two items on the shelf
    sales = p[1] + 2 * (1 - p[0] - p[1])
    weekly = 20 * sales - (2 * p[0] + p[1]) - 2 * (1 - sales)
    assert mdp.rewards[2, 0] == pytest.approx(weekly)
    assert mdp.rewards[1, 1] == pytest.approx(weekly - 35)
    assert mdp.rewards[0, 0] == pytest.approx(-2)


def test_mean_rewards_of_the_shop_match_a_long_sum_over_demands():
    mdp = worlds.inventory()
    demand = np.arange(200)
    chance = np.exp(demand * np.log(5.0) - 5.0 - np.array([math.lgamma(n + 1) for n in demand]))
    for stock, order in [(0, 0), (3, 10), (20, 0), (0, 20)]:
        sold = np.minimum(demand, stock + order)
        left = stock + order - sold
        weekly = 20 * sold - left - 2 * (demand - sold) - 10 * order - 25 * (order > 0)
        assert mdp.rewards[stock, order] == pytest.approx(chance @ weekly)


def test_the_best_order_policy_is_of_the_kind_s_S():
    actions = best_actions(worlds.inventory())
    orders = np.flatnonzero(actions > 0)
    assert orders.tolist() == list(range(orders.size))
    assert set(orders + actions[orders]) == {17}
    assert orders[-1] == 3


def test_without_a_fixed_cost_the_shop_orders_up_to_one_level():
    mdp = worlds.inventory(order_cost=0.0)
    actions = best_actions(mdp)
    level = actions[0]
    np.testing.assert_array_equal(actions, np.maximum(level - np.arange(21), 0))
    # one week decides: an item kept is worth its price of purchase next week (newsvendor quantile)
    under, over = 20 + 2 - 10, 10 + 1 - 0.98 * 10
    law = np.cumsum([math.exp(-5) * 5**n / math.factorial(n) for n in range(21)])
    assert level == np.argmax(law >= under / (under + over))


def test_orders_can_be_limited():
    mdp = worlds.inventory(capacity=10, max_order=3)
    assert mdp.shape == (11, 4)
    assert mdp.allowed.sum(axis=1).tolist() == [4] * 8 + [3, 2, 1]


def test_a_desk_by_hand():
    mdp = worlds.queue(capacity=2)
    table = dense(mdp)
    np.testing.assert_allclose(table[0, 0], [0.6, 0.4, 0])
    np.testing.assert_allclose(table[1, 0], [1 / 3, 1 - 1 / 3 - 0.4, 0.4])
    np.testing.assert_allclose(table[1, 1], [0.6, 0, 0.4])
    assert mdp.transitions[[1 * 4 + 1]].nnz == 2
    np.testing.assert_allclose(table[1, 3], [0.6, 0.4, 0])
    assert mdp.allowed[2].tolist() == [False, False, True, True]
    assert mdp.rewards[1, 0] == pytest.approx(0.4 * 10 - (2 + 20) / 30)
    assert mdp.rewards[2, 3] == pytest.approx(-(4 + 80) / 30)
    assert mdp.rewards[0, 0] == pytest.approx(0.4 * 10)


def test_the_best_desk_admits_below_a_threshold_and_serves_faster_when_full():
    mdp = worlds.queue(waiting_cost_per_hour=6.0)
    actions = best_actions(mdp)
    rejects, fast = actions >= 2, actions % 2
    assert np.all(np.diff(rejects.astype(int)) >= 0)
    assert np.all(np.diff(fast[1:]) >= 0)
    assert 0 < rejects.sum() < 16
    assert 0 < fast.sum() < 15


def test_a_desk_that_admits_everybody_is_the_textbook_queue():
    # stationary law of M/M/1 with room for 15: geometric in arrivals / services
    mdp = worlds.queue(services_per_hour=[18.0], service_costs_per_hour=[0.0])
    chain = dense(mdp)[np.arange(16), [*[0] * 15, 1]]
    # a rejecting full desk has the same law of presence as one that loses its arrivals
    law = (12 / 18) ** np.arange(16)
    law /= law.sum()
    np.testing.assert_allclose(law @ chain, law, atol=1e-14)


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
        (lambda: worlds.machine_replacement(n_levels=1), "n_levels must be a whole number of at least 2"),
        (lambda: worlds.machine_replacement(breakdown=1.5), "breakdown is 1.5"),
        (lambda: worlds.machine_replacement(repair_cost=-1), "repair_cost is -1"),
        (lambda: worlds.inventory(capacity=2.5), "capacity must be a whole number"),
        (lambda: worlds.inventory(max_order=21), "max_order is 21; it cannot exceed capacity, which is 20"),
        (lambda: worlds.inventory(demand=0), "demand is 0"),
        (lambda: worlds.queue(capacity=0), "capacity must be a whole number"),
        (lambda: worlds.queue(services_per_hour=[]), "services_per_hour must be a non-empty sequence"),
        (lambda: worlds.queue(services_per_hour=[1.0]), "service_costs_per_hour has 2 entries; expected 1"),
        (lambda: worlds.queue(services_per_hour=[1.0, 1.0]), "every speed must be given once"),
        (lambda: worlds.queue(services_per_hour=[1.0, -2.0]), r"services_per_hour\[1\] is -2.0"),
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
