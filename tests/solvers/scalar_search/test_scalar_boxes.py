"""Variance and CVaR over ranges of their numbers: the lines, the cover, and what the search may cost."""

import itertools

import numpy as np
import pytest

import cautious as ca
from cautious.certificate.bounds import Box, Cover, Witness, _covers, upper_bound
from cautious.occupancy import policy_occupancy
from cautious.planning import plan
from cautious.risks.scalar import _reach, _upper_quantile
from cautious.solvers.choose import choose
from cautious.solvers.scalar_search import inner_problems
from cautious.solvers.scalar_search.search_history import MAX_COVER_GROWTH, Incumbent, SearchHistory
from cautious.worlds import garnet


def coin_model(rng, n_states=5, n_actions=2, outcomes=True, levels=None):
    """A small dense model; rewards by outcome, from few values when ``levels`` is given."""
    shape = (n_states, n_actions, n_states)
    chances = rng.dirichlet(np.full(n_states, 0.4), size=shape[:2])
    pays = rng.normal(size=shape) if levels is None else rng.integers(levels, size=shape).astype(float)
    start = rng.dirichlet(np.ones(n_states))
    return ca.MDP(chances, pays if outcomes else pays[:, :, 0], float(rng.choice([0.0, 0.5, 0.9])), start)


def occupancies(rng, mdp, n):
    """Behaviours of random policies, some of them deterministic."""
    for k in range(n):
        policy = rng.dirichlet(np.full(mdp.n_actions, 1.0 if k % 2 else 1e-3), size=mdp.n_states)
        yield policy_occupancy(mdp, policy / policy.sum(axis=1, keepdims=True)).occupancy


def deterministic(mdp):
    for actions in itertools.product(range(mdp.n_actions), repeat=mdp.n_states):
        yield np.eye(mdp.n_actions)[list(actions)]


def brute_force(problem):
    return max(problem.objective(policy_occupancy(problem.mdp, p).occupancy) for p in deterministic(problem.mdp))


def random_risk(rng):
    return ca.Variance() if rng.random() < 0.5 else ca.CVaR(float(rng.choice([0.0, 0.5, 0.9])))


@pytest.mark.parametrize("seed", range(20))
def test_lines_stay_below_the_risk_of_the_range(seed):
    rng = np.random.default_rng(seed)
    mdp = coin_model(rng, levels=None if seed % 2 else 4)
    for recipe in (ca.Variance(), ca.CVaR(0.0), ca.CVaR(0.5), ca.CVaR(0.9)):
        risk = recipe.bind(mdp)
        start, end = risk.interval()
        for d in occupancies(rng, mdp, 6):
            t, value = risk.best(d), risk.value(d)
            for _ in range(10):
                low, high = t - rng.exponential(0.3), t + rng.exponential(0.3) * (rng.random() < 0.7)
                low, high = (max(low, start), max(min(high, end), t)) if rng.random() < 0.7 else (low, high)
                at = rng.choice([low, high, t, rng.uniform(start - 1, end + 1)])
                table, offset = risk.line(low, high, at)
                assert np.sum(d * table) + offset <= value + 1e-12 * (1 + abs(value) + np.abs(table).max())


def test_a_line_of_a_wider_range_can_fail_outside_it():
    """So the test above can: for a loss outside the range the line lies above the risk."""
    mdp = ca.MDP(np.ones((1, 2, 1)), np.array([[0.0, 1.0]]), 0.5)
    for recipe in (ca.Variance(), ca.CVaR(0.5)):
        risk = recipe.bind(mdp)
        low, high = risk.interval()
        d = np.array([[1.0, 0.0]]) if risk.best(np.array([[1.0, 0.0]])) == high else np.array([[0.0, 1.0]])
        table, offset = risk.line(low, (low + high) / 2, low)
        assert np.sum(d * table) + offset > risk.value(d) + 0.01


@pytest.mark.parametrize("seed", range(10))
def test_ranges_around_a_number_hold_it_and_lose_little(seed):
    rng = np.random.default_rng(seed)
    mdp = coin_model(rng, levels=None if seed % 2 else 3)
    for recipe in (ca.Variance(), ca.CVaR(0.6)):
        risk = recipe.bind(mdp)
        for d in occupancies(rng, mdp, 4):
            for room in (1e-9, 1e-3, 0.1):
                t, (low, high) = risk.best(d), risk.around(d, room)
                assert low < t <= high
                table, offset = risk.line(low, high, risk.touch(low, high, t))
                assert risk.value(d) - np.sum(d * table) - offset <= 3 * room + 1e-12


@pytest.mark.parametrize("seed", range(30))
def test_quantiles_match_sorting(seed):
    rng = np.random.default_rng(seed)
    size = int(rng.integers(1, 400))
    losses = rng.normal(size=size) if seed % 2 else rng.integers(4, size=size).astype(float)
    weights, tail = rng.dirichlet(np.ones(size)), float(rng.random())
    expected = min(t for t in losses if weights[losses > t].sum() <= tail)
    different, place = np.unique(losses, return_inverse=True)
    assert _upper_quantile(different, np.bincount(place, weights), tail) == expected


def test_reach_stops_where_the_room_ends():
    assert _reach(np.array([3.0, 1.0, 2.0]), np.ones(3), 3.5) == 2.0
    assert _reach(np.array([3.0, 1.0]), np.ones(2), 0.5) == 0.0


@pytest.mark.parametrize("seed", range(20))
def test_the_search_matches_brute_force_and_mutated_covers_stay_above(seed):
    rng = np.random.default_rng([7, seed])
    mdp = coin_model(rng, n_states=4, levels=None if seed % 2 else 3)
    risk = random_risk(rng) if seed % 3 else 0.7 * random_risk(rng) + 1.3 * random_risk(rng)
    problem = ca.Problem(mdp, risk, float(10 ** rng.uniform(-2, 2)))
    best, solution = brute_force(problem), ca.solve(problem)
    assert solution.status is ca.Status.SOLVED
    assert solution.certificate.kind == "global"
    assert solution.objective == pytest.approx(best, abs=1e-6 * max(1.0, abs(best)))
    assert solution.upper_bound >= best - 1e-12 * max(1.0, abs(best))
    for _ in range(5):
        assert upper_bound(problem, random_cover(rng, problem)) >= best - 1e-12 * max(1.0, abs(best))


def random_cover(rng, problem):
    """Boxes with arbitrary edges, some missing, foreign lines and multipliers that belong to other problems."""
    edges = []
    for _, risk in problem.terms:
        low, high = risk.interval()
        edges.append(np.unique([low, high, *rng.uniform(low, high, size=2)]))
    boxes = []
    for cell in itertools.product(*(list(itertools.pairwise(line)) for line in edges)):
        at = tuple(rng.uniform(low - 0.1, high + 0.1) for low, high in cell)
        values = plan(problem.mdp, problem.reward + 0.1 * rng.normal(size=problem.mdp.shape)).values
        box = Box(tuple(low for low, _ in cell), tuple(high for _, high in cell), at, Witness(values))
        if rng.random() < 0.97:
            boxes.append(box)
    return Cover(tuple(boxes))


def test_a_cover_in_two_dimensions_has_no_corner_missing():
    mdp = coin_model(np.random.default_rng(0))
    problem = ca.Problem(mdp, ca.Variance() + ca.CVaR(0.5), 1.0)
    (low, high), (start, end) = (risk.interval() for _, risk in problem.terms)
    middle, centre = (low + high) / 2, (start + end) / 2
    zero = Witness(np.zeros(mdp.n_states))

    def box(a, b, c, e):
        return Box((a, c), (b, e), (b, e), zero)

    left, corner = box(low, middle, start, end), box(middle, high, start, centre)
    last = box(middle, high, centre, end)
    assert upper_bound(problem, Cover((left, corner))) == np.inf
    assert upper_bound(problem, Cover((left, last))) == np.inf
    assert np.isfinite(upper_bound(problem, Cover((left, corner, last))))
    assert np.isfinite(upper_bound(problem, Cover((box(low, high, start, end),))))
    assert upper_bound(problem, Cover((left, corner, box(middle, high, np.nan, end)))) == np.inf


def test_a_constant_reward_has_no_range_to_search():
    mdp = ca.MDP(np.full((3, 2, 3), 1 / 3), np.full((3, 2), 2.0), 0.9)
    for risk, value in ((ca.Variance(), 0.0), (ca.CVaR(0.9), -2.0)):
        solution = ca.solve(ca.Problem(mdp, risk, 3.0)).require()
        assert solution.objective == pytest.approx(20.0 - 3.0 * value)
        assert solution.certificate.kind == "global"


@pytest.fixture
def planning_calls(monkeypatch):
    calls = []

    def counted(*args, **options):
        calls.append(options["tolerance"])
        return plan(*args, **options)

    monkeypatch.setattr(inner_problems, "plan", counted)
    return calls


def rough_ground(discount):
    return ca.MDP(*_grid(20), discount)


def _grid(side):
    """A slippery grid with a different reward in every cell."""
    cells = np.arange(side * side)
    row, column = np.divmod(cells, side)
    compass, chances = ((-1, 0), (0, 1), (1, 0), (0, -1)), np.zeros((cells.size, 4, cells.size))
    for action, (turn, chance) in itertools.product(range(4), ((0, 0.8), (1, 0.1), (3, 0.1))):
        down, right = compass[(action + turn) % 4]
        target = np.clip(row + down, 0, side - 1) * side + np.clip(column + right, 0, side - 1)
        np.add.at(chances, (cells, action, target), chance)
    pay = 0.3 * np.random.default_rng(0).random(cells.size)
    pay[-1] = 1.0
    return chances, np.repeat(pay[:, None], 4, axis=1)


@pytest.mark.parametrize("discount", [0.95, 0.99])
@pytest.mark.parametrize("make", [rough_ground, lambda discount: garnet(400, 4, 5, discount=discount)])
@pytest.mark.parametrize(("risk", "caution", "most"), [(ca.Variance(), 10.0, 12), (ca.CVaR(0.9), 5.0, 30)])
def test_planning_calls_stay_few(planning_calls, discount, make, risk, caution, most):
    solution = ca.solve(ca.Problem(make(discount), risk, caution)).require()
    assert solution.certificate.kind == "global"
    assert len(planning_calls) <= most
    assert solution.certificate.facts["boxes"] <= most / 2


def test_a_stopped_search_still_proves_a_bound():
    mdp = garnet(30, discount=0.9)
    problem = ca.Problem(mdp, ca.Variance() + ca.Quadratic(np.full(mdp.shape, 1 / mdp.rewards.size)), 5.0)
    solution = ca.solve(problem, callback=lambda progress: True)
    assert solution.status is ca.Status.STOPPED
    assert np.isfinite(solution.gap)


def test_requirements_that_cannot_be_met_are_proved_so_beside_a_scalar():
    mdp = garnet(30, discount=0.9)
    risk = ca.Variance() + ca.SafeSet([0], slack=0.01)
    assert ca.solve(ca.Problem(mdp, risk, 1.0)).status is ca.Status.INFEASIBLE


def test_scalar_risks_are_searched_first():
    problem = ca.Problem(garnet(10), ca.CVaR(0.5) + ca.Entropy(), 1.0)
    assert choose(problem)[0].name == "scalar search"


def incumbent(*ranges):
    numbers = tuple((low + high) / 2 for low, high in ranges)
    return Incumbent(0.0, np.ones((1, 1)), np.ones(1), numbers, ranges)


@pytest.mark.parametrize("seed", range(20))
def test_a_moved_cover_still_covers_everything(seed):
    """Random cuts of two intervals, moved with the incumbent's ranges anywhere, even beyond the ends."""
    rng = np.random.default_rng(seed)
    intervals = [(0.0, 1.0), (-2.0, 3.0)]
    boxes = [((0.0, -2.0), (1.0, 3.0))]
    for _ in range(8):
        lows, highs = boxes.pop(int(rng.integers(len(boxes))))
        k = int(rng.integers(2))
        t = rng.uniform(lows[k], highs[k])
        boxes.append((lows, (*highs[:k], t, *highs[k + 1 :])))
        boxes.append(((*lows[:k], t, *lows[k + 1 :]), highs))
    old, new = (incumbent(*[tuple(sorted(rng.uniform(low, high, 2))) for low, high in intervals]) for _ in range(2))
    past = SearchHistory().of(intervals)
    past.add(2.0, old, [Box(*ends, (0.0, 0.0), Witness(np.zeros(1))) for ends in boxes], fresh=True)
    moved = past.moved(2.5, new)
    assert _covers(intervals, [Box(*box.ends, (0.0, 0.0), Witness(np.zeros(1))) for box in moved])
    # boxes around the old incumbent are now around the new one
    edges = sorted({x for box in past.moved(2.5, old) for x in (box.ends[0][0], box.ends[1][0])})
    assert edges == pytest.approx(sorted({x for box in boxes for x in (box[0][0], box[1][0])}))


def test_a_cover_that_has_grown_too_much_is_made_anew():
    past, best = SearchHistory().of([(0.0, 1.0)]), incumbent((0.4, 0.6))
    values = [np.array([1.0, 5.0]), np.array([3.0, 4.0])]
    halves = [
        Box((0.0,), (0.5,), (0.3,), Witness(values[0])),
        Box((0.5,), (1.0,), (0.7,), Witness(values[1])),
    ]
    past.add(1.0, best, halves, fresh=True)
    moved = past.moved(1.1, best)
    assert [box.ends for box in moved] == [(box.lows, box.highs) for box in halves]
    # the incumbent is in the first half; what the other is apart from it grows with the caution
    assert np.array_equal(moved[0].apart, np.zeros(2))
    assert moved[1].apart == pytest.approx(1.1 * (values[1] - values[0]))
    assert past.moved(100.0, best) == []
    past.add(1.1, best, halves * 2, fresh=False)
    assert len(halves * 2) > MAX_COVER_GROWTH * len(halves)
    assert past.moved(1.2, best) == []


def test_numbers_ahead_are_on_the_line_in_the_logarithm_and_inside():
    past = SearchHistory().of([(0.0, 1.0)])
    assert past.ahead(1.0) is None
    past.add(1.0, incumbent((0.1, 0.3)), [], fresh=True)
    past.add(2.0, incumbent((0.4, 0.6)), [], fresh=True)
    assert past.ahead(4.0) == pytest.approx((0.8,))
    assert past.ahead(7.9) == (1.0,)
    assert past.ahead(1e9) is None
    assert past.of([(0.0, 2.0)]).ahead(4.0) is None
