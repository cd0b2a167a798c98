import math

import numpy as np
import pytest

from cautious import worlds
from cautious.errors import InputError
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
    ],
)
def test_wrong_input_is_refused_by_name(call, message):
    with pytest.raises(InputError, match=message):
        call()
