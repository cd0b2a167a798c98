"""Certificates against exact arithmetic: rational numbers, and 50-digit logarithms, with zero tolerance.

The optimum is exact for neutral problems (policy iteration in fractions), Variance and CVaR (every deterministic
policy), PeakExposure, WorstTask, TotalVariation and Quadratic (optimality conditions of a guessed support, checked in
fractions). For risks with logarithms it is bounded from below by the exact objective of a precise policy.
"""

import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import linprog

import cautious as ca
import reference
from cautious.certificate.bounds import Box, Cover, Witness, upper_bound
from cautious.planning import plan
from cautious.risks.features import LogBarrier, WorstOf
from cautious.risks.separable import SeparableRisk
from random_models import RawModel, case_for, random_case, random_model, random_term

ZERO, ONE = Fraction(0), Fraction(1)


def fractions(values):
    return [Fraction(float(value)) for value in np.ravel(values)]


def normalised(values):
    exact = fractions(values)
    total = sum(exact)
    return [value / total for value in exact]


def solve_exactly(matrix, right):
    """Fraction-free elimination; None when singular."""
    n = len(matrix)
    rows = []
    for row, value in zip(matrix, right, strict=True):
        entries = [*row, value]
        scale = math.lcm(*(entry.denominator for entry in entries))
        rows.append([int(entry * scale) for entry in entries])
    last = 1
    for k in range(n):
        pivot = next((i for i in range(k, n) if rows[i][k]), None)
        if pivot is None:
            return None
        rows[k], rows[pivot] = rows[pivot], rows[k]
        for i in range(n):
            if i != k:
                rows[i] = [(rows[k][k] * a - rows[i][k] * b) // last for a, b in zip(rows[i], rows[k], strict=True)]
        last = rows[k][k]
    return [Fraction(rows[k][n], rows[k][k]) for k in range(n)]


class Exact:
    """A model in fractions: rows normalised exactly."""

    def __init__(self, raw):
        self.raw, self.gamma = raw, Fraction(raw.discount)
        self.horizon = 1 / (1 - self.gamma)
        self.start = normalised(raw.start)
        self.n, self.m = raw.shape
        pairs = list(itertools.product(range(self.n), range(self.m)))
        self.pairs = [pair for pair in pairs if raw.allowed[pair]]
        self.rows = {pair: normalised(raw.transitions[pair]) for pair in self.pairs}
        self.outcomes = {pair: self._outcomes(pair) for pair in self.pairs}
        self.reward = {pair: sum(p * r for p, r in self.outcomes[pair]) for pair in self.pairs}

    def _outcomes(self, pair):
        if self.raw.rewards.ndim == 2:
            return [(ONE, Fraction(float(self.raw.rewards[pair])))]
        return [(p, r) for p, r in zip(self.rows[pair], fractions(self.raw.rewards[pair]), strict=True) if p]

    def occupancy(self, policy):
        """{pair: d} of a float policy whose rows are normalised here."""
        rows = [normalised(row) for row in policy]
        chain = [
            [sum(rows[s][a] * self.rows[s, a][t] for a in range(self.m) if rows[s][a]) for t in range(self.n)]
            for s in range(self.n)
        ]
        matrix = [[(s == t) - self.gamma * chain[s][t] for s in range(self.n)] for t in range(self.n)]
        states = solve_exactly(matrix, [(1 - self.gamma) * x for x in self.start])
        return {(s, a): states[s] * rows[s][a] for s, a in self.pairs}

    def mean(self, d, table):
        return sum(d[pair] * table[pair] for pair in self.pairs)

    def best_value(self, guess):
        """The neutral optimum by policy iteration."""
        actions = list(guess)
        while True:
            matrix = [
                [(s == t) - self.gamma * self.rows[s, actions[s]][t] for t in range(self.n)] for s in range(self.n)
            ]
            values = solve_exactly(matrix, [self.reward[s, actions[s]] for s in range(self.n)])
            worth = {
                pair: self.reward[pair] + self.gamma * sum(map(_times, self.rows[pair], values)) for pair in self.pairs
            }
            better = {s: (s, a) for s, a in self.pairs if worth[s, a] > values[s]}
            if not better:
                return sum(map(_times, self.start, values))
            for s, (_, a) in better.items():
                actions[s] = a

    def deterministic(self):
        choices = [[a for a in range(self.m) if self.raw.allowed[s, a]] for s in range(self.n)]
        for actions in itertools.product(*choices):
            yield self.occupancy(np.eye(self.m)[list(actions)])


def _times(a, b):
    return a * b


def table(exact, values):
    return {pair: Fraction(float(values[pair])) for pair in exact.pairs}


def exact_risk(exact, term, d):
    """The definition in fractions; risks with logarithms to 50 digits."""
    data = term.data
    match term.kind:
        case "Variance":
            mean = exact.mean(d, exact.reward)
            return sum(d[pair] * p * (r - mean) ** 2 for pair in exact.pairs for p, r in exact.outcomes[pair])
        case "CVaR":
            share = left = 1 - Fraction(data["level"])
            losses = sorted(((-r, d[pair] * p) for pair in exact.pairs for p, r in exact.outcomes[pair]), reverse=True)
            total = ZERO
            for loss, mass in losses:
                total += loss * min(mass, left)
                left -= min(mass, left)
            return total / share
        case "PeakExposure":
            return max(sum(d[s, a] for s, a in exact.pairs if s in one) for one in map(set, data["sets"]))
        case "WorstTask":
            return max(-exact.horizon * exact.mean(d, table(exact, task)) for task in data["task_rewards"])
        case "TotalVariation":
            return sum(abs(x - p) for x, p in entries(exact, data, d)) / 2
        case "Quadratic":
            return sum((x - p) ** 2 for x, p in entries(exact, data, d)) / 2
        case "KL":
            return sum(x * log(x / p) for x, p in entries(exact, data, d) if x)
        case "Entropy":
            return sum(x * log(x) for x in d.values() if x)
        case "SafeSet":
            inside = {int(s) for s in data["states"]}
            return -log(sum(d[s, a] for s, a in exact.pairs if s in inside) - (1 - Fraction(data["slack"])))
        case "TaskFloors":
            gains = [exact.horizon * exact.mean(d, table(exact, task)) for task in data["task_rewards"]]
            return -sum(
                log(gain - Fraction(floor)) for gain, floor in zip(gains, map(float, data["floors"]), strict=True)
            )


def log(x):
    """Natural logarithm of a positive fraction, to 50 digits, as a fraction."""
    with localcontext() as context:
        context.prec = 50
        return Fraction((Decimal(x.numerator) / Decimal(x.denominator)).ln())


def entries(exact, data, d):
    """(occupancy, prior) of every entry; forbidden pairs have no occupancy but may have a prior."""
    prior = data["prior"]
    weights = normalised(prior)
    if prior.ndim == 1:
        mass = [sum(d.get((s, a), ZERO) for a in range(exact.m)) for s in range(exact.n)]
        return list(zip(mass, weights, strict=True))
    keys = itertools.product(range(exact.n), range(exact.m))
    return [(d.get(pair, ZERO), p) for pair, p in zip(keys, weights, strict=True)]


def exact_objective(exact, case, d):
    risk = sum(Fraction(weight) * exact_risk(exact, term, d) for weight, term in case.terms)
    return exact.horizon * exact.mean(d, exact.reward) - Fraction(case.caution) * risk


def check_sound(solution, best, delivered):
    """No tolerance anywhere: the bound is above the optimum, the gap above the loss, the objective within its error."""
    assert solution.status is ca.Status.SOLVED
    assert Fraction(solution.upper_bound) >= best
    assert Fraction(solution.gap) >= best - delivered
    assert solution.gap > 0
    assert abs(Fraction(solution.objective) - delivered) <= Fraction(solution.certificate.objective_error)


def mutated_witness(rng, problem, solution):
    """What a broken or hostile solver could send: true ingredients, perturbed by anything from rounding to nonsense."""
    size = 10.0 ** rng.uniform(-15, 1)
    d, active = solution.occupancy, problem.active

    def shake(x):
        x = np.asarray(x, dtype=float)
        return x * (1 + size * rng.normal(size=x.shape)) + size * rng.normal(size=x.shape) * (rng.random() < 0.5)

    cuts = []
    for _, risk in problem.terms:
        if isinstance(risk, LogBarrier):
            cuts.append(shake(1 / risk.slack(d)))
        elif isinstance(risk, WorstOf):
            cuts.append(shake(rng.dirichlet(np.ones(len(risk.names)))))
        elif isinstance(risk, SeparableRisk):
            slope = np.where(
                risk.entries(d) > 0, risk.gradient(d).max(axis=1) if risk.on_states else risk.gradient(d), 0
            )
            cuts.append(shake(slope[risk.active_entries(active)]))
    return Witness(shake(solution.multipliers), tuple(cuts))


def check_mutations(rng, problem, solution, best, count=5):
    for _ in range(count):
        assert upper_bound(problem, mutated_witness(rng, problem, solution)) >= best


def rational_model(rng, size="tiny", **options):
    """A tiny random model; every second one with powers of two as probabilities, which floats hold exactly."""
    raw = random_model(rng, size, **options)
    if rng.random() < 0.5:
        return raw
    weights = rng.multinomial(64, np.full(raw.n_states, 1 / raw.n_states), size=raw.shape) / 64
    return RawModel(weights, raw.rewards, raw.discount, raw.start, raw.allowed, raw.reward_square, raw.encoding)


def check_neutral(seed):
    rng = np.random.default_rng([1, seed])
    raw = rational_model(rng, "tiny" if seed % 2 else "small")
    exact = Exact(raw)
    problem = ca.Problem(raw.mdp())
    solution = ca.solve(problem)
    d = exact.occupancy(solution.policy)
    best = exact.best_value(np.argmax(solution.policy, axis=1))
    check_sound(solution, best, exact.horizon * exact.mean(d, exact.reward))
    check_mutations(rng, problem, solution, best)


def check_scalar(kind, seed):
    rng = np.random.default_rng([2, len(kind), seed])
    raw = rational_model(rng)
    case = case_for(rng, raw, [random_term(rng, raw, kind)])
    exact = Exact(raw)
    problem = case.problem()
    solution = ca.solve(problem)
    best = max(exact_objective(exact, case, d) for d in exact.deterministic())
    check_sound(solution, best, exact_objective(exact, case, exact.occupancy(solution.policy)))
    for _ in range(5):
        assert upper_bound(problem, mutated_cover(rng, problem)) >= best


def mutated_cover(rng, problem):
    """Boxes with holes, overlaps, foreign tangent points and arbitrary multipliers."""
    ((_, risk),) = problem.terms
    low, high = risk.interval()
    ends = np.sort(np.concatenate([[low, high], rng.uniform(low, high, size=3)]))
    boxes = []
    for a, b in itertools.pairwise(ends):
        a, b = (x + (high - low) * rng.normal() * (rng.random() < 0.2) for x in (a, b))
        at = rng.uniform(low, high)
        values = plan(problem.mdp, problem.mdp.rewards).values + rng.normal()
        boxes.append(Box((a,), (b,), (at,), Witness(values)))
    keep = rng.random(len(boxes)) < 0.9
    return Cover(tuple(itertools.compress(boxes, keep)))


def linear_optimum(exact, case):
    """Exact optimum of a polyhedral problem: HiGHS guesses the basis, fractions prove it; None when they cannot."""
    ((_, term),), n = case.terms, exact.n
    pairs, caution = exact.pairs, Fraction(case.caution)
    index = {pair: i for i, pair in enumerate(pairs)}
    matrix = [[(s == t) - exact.gamma * exact.rows[s, a][t] for s, a in pairs] for t in range(n)]
    right = [(1 - exact.gamma) * x for x in exact.start]
    gain = [exact.horizon * exact.reward[pair] for pair in pairs]
    free = []
    if term.kind == "TotalVariation":
        for (x, p), key in zip(
            entries(exact, term.data, dict.fromkeys(pairs, ZERO)), entry_keys(exact, term.data), strict=True
        ):
            assert x == 0
            row = [ZERO] * len(gain)
            for pair in key:
                if pair in index:
                    row[index[pair]] = ONE
            for other in matrix:
                other.extend([ZERO, ZERO])
            gain += [-caution / 2, -caution / 2]
            matrix.append([*row, -ONE, ONE])
            right.append(p)
    else:
        features = exact_features(exact, term)
        for row in matrix:
            row.extend([ZERO] * (1 + len(features)))
        for j, feature in enumerate(features):
            matrix.append(
                [*(feature[pair] for pair in pairs), -ONE, *(ONE if i == j else ZERO for i in range(len(features)))]
            )
            right.append(ZERO)
        gain += [-caution, *[ZERO] * len(features)]
        free = [len(pairs)]
    return verified_optimum(matrix, right, gain, free)


def entry_keys(exact, data):
    if data["prior"].ndim == 1:
        return [[(s, a) for a in range(exact.m)] for s in range(exact.n)]
    return [[pair] for pair in itertools.product(range(exact.n), range(exact.m))]


def exact_features(exact, term):
    if term.kind == "PeakExposure":
        return [{(s, a): Fraction(int(s in set(one))) for s, a in exact.pairs} for one in term.data["sets"]]
    tables = [table(exact, task) for task in term.data["task_rewards"]]
    return [{pair: -exact.horizon * value for pair, value in one.items()} for one in tables]


def verified_optimum(matrix, right, gain, free):
    floats = np.array([[float(x) for x in row] for row in matrix])
    scale = max(1.0, max(abs(float(g)) for g in gain))
    bounds = [(None, None) if i in free else (0, None) for i in range(len(gain))]
    found = linprog(
        [-float(g) / scale for g in gain], A_eq=floats, b_eq=[float(b) for b in right], bounds=bounds, method="highs-ds"
    )
    basis = independent(floats, free, found.x, found.lower.marginals)
    if len(basis) != len(matrix):
        return None
    x = solve_exactly([[row[i] for i in basis] for row in matrix], right)
    y = solve_exactly([[row[i] for row in matrix] for i in basis], [gain[i] for i in basis])
    if x is None or y is None or any(v < 0 for i, v in zip(basis, x, strict=True) if i not in free):
        return None
    columns = zip(*matrix, strict=True)
    if any(sum(map(_times, column, y)) < g for column, g in zip(columns, gain, strict=True)):
        return None
    return sum(gain[i] * v for i, v in zip(basis, x, strict=True))


def independent(matrix, free, x, reduced):
    """A basis: free and positive columns first, then those with the smallest reduced cost."""
    first = [i for i in range(x.size) if i in free or x[i] > 1e-9]
    basis = []
    for i in [*first, *(int(i) for i in np.argsort(reduced) if i not in first)]:
        if len(basis) < len(matrix) and np.linalg.matrix_rank(matrix[:, [*basis, i]], tol=1e-9) > len(basis):
            basis.append(i)
    return basis


def quadratic_optimum(exact, case):
    """Exact optimum of Quadratic(prior (S, A)): optimality conditions on the support of a precise float solution."""
    ((_, term),), n = case.terms, exact.n
    answer = reference.solve_convex(case.raw, case.terms, case.caution, "CLARABEL")
    found = reference.occupancy(case.raw, answer.policy)
    caution = Fraction(case.caution)
    prior = dict(zip(itertools.product(range(n), range(exact.m)), normalised(term.data["prior"]), strict=True))
    column = {(s, a): [(s == t) - exact.gamma * exact.rows[s, a][t] for t in range(n)] for s, a in exact.pairs}
    pull = {pair: caution * prior[pair] + exact.horizon * exact.reward[pair] for pair in exact.pairs}
    support = [pair for pair in exact.pairs if found[pair] > 1e-6]
    k = len(support)
    matrix = [[caution if i == j else ZERO for j in range(k)] + column[pair] for i, pair in enumerate(support)]
    matrix += [[column[pair][t] for pair in support] + [ZERO] * n for t in range(n)]
    solved = solve_exactly(matrix, [pull[pair] for pair in support] + [(1 - exact.gamma) * x for x in exact.start])
    if solved is None or min(solved[:k]) < 0:
        return None
    y = solved[k:]
    if any(sum(map(_times, column[pair], y)) < pull[pair] for pair in exact.pairs if pair not in support):
        return None
    d = dict.fromkeys(exact.pairs, ZERO) | dict(zip(support, solved[:k], strict=True))
    return exact_objective(exact, case, d)


def check_convex(kind, seed):
    """Whether the exact optimum was found; without it the exact objective of our own policy stands in."""
    rng = np.random.default_rng([3, sum(map(ord, kind)), seed])
    raw = rational_model(rng)
    start = rng.dirichlet(np.ones(raw.n_states))
    raw = RawModel(raw.transitions, raw.rewards, raw.discount, start, raw.allowed, None, raw.encoding)
    case = case_for(rng, raw, [random_term(rng, raw, kind)])
    exact = Exact(raw)
    problem = case.problem()
    solution = ca.solve(problem)
    best = quadratic_optimum(exact, case) if kind == "Quadratic" else linear_optimum(exact, case)
    delivered = exact_objective(exact, case, exact.occupancy(solution.policy))
    check_sound(solution, delivered if best is None else best, delivered)
    check_mutations(rng, problem, solution, delivered if best is None else best)
    return best is not None


def check_logarithms(kind, seed):
    rng = np.random.default_rng([4, sum(map(ord, kind)), seed])
    case = random_case(rng, [kind], "tiny")
    exact = Exact(case.raw)
    problem = case.problem()
    solution = ca.solve(problem)
    precise = ca.solve(problem, tolerance=1e-9).policy
    answers = [precise, *(answer.policy for answer in reference.reference_answers(case.raw, case.terms, case.caution))]
    delivered = exact_objective(exact, case, exact.occupancy(solution.policy))
    best = max(delivered, *(exact_objective(exact, case, exact.occupancy(policy)) for policy in answers))
    check_sound(solution, best, delivered)
    check_mutations(rng, problem, solution, best)


@pytest.mark.parametrize("block", range(10))
def test_neutral(block):
    for seed in range(80):
        check_neutral(80 * block + seed)


@pytest.mark.parametrize("kind", ["Variance", "CVaR"])
@pytest.mark.parametrize("block", range(5))
def test_scalar(kind, block):
    for seed in range(40):
        check_scalar(kind, 40 * block + seed)


@pytest.mark.parametrize("kind", ["PeakExposure", "WorstTask", "TotalVariation", "TotalVariation states", "Quadratic"])
def test_convex(kind):
    proved = [check_convex(kind, seed) for seed in range(100)]
    assert np.mean(proved) > 0.7


@pytest.mark.parametrize("kind", ["KL", "KL states", "Entropy", "SafeSet", "TaskFloors"])
def test_logarithms(kind):
    for seed in range(60):
        check_logarithms(kind, seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(100))
def test_many(block):
    for seed in range(10_000 + 800 * block, 10_000 + 800 * (block + 1)):
        check_neutral(seed)
    for seed in range(10_000 + 40 * block, 10_000 + 40 * (block + 1)):
        for kind in ("Variance", "CVaR"):
            check_scalar(kind, seed)
        for kind in ("PeakExposure", "WorstTask", "TotalVariation", "Quadratic"):
            check_convex(kind, seed)
        for kind in ("KL", "SafeSet", "TaskFloors"):
            check_logarithms(kind, seed)
