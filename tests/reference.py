"""The independent truth: every risk from its definition in DESIGN.md, on plain dense arrays, solved by CVXPY.

Nothing here uses the package. A model is a ``RawModel`` and a risk a ``Term`` of ``random_models``.
"""

import contextlib
import itertools
import warnings
from dataclasses import dataclass

import cvxpy as cp
import numpy as np
import scipy.sparse as sp
from scipy.optimize import linprog
from scipy.sparse.csgraph import floyd_warshall

LINEAR = {"PeakExposure", "WorstTask", "TotalVariation", "Wasserstein"}
CLARABEL_OPTIONS = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11, "max_iter": 200}
SCS_OPTIONS = {"eps_abs": 1e-10, "eps_rel": 1e-10, "max_iters": 100_000}


def occupancy(raw, policy):
    """Occupancy (S, A) of a policy by one dense solve; batches of policies (n, S, A) work too."""
    chain = np.einsum("...sa,sat->...st", policy, raw.kernel)
    system = np.eye(raw.n_states) - raw.discount * np.swapaxes(chain, -1, -2)
    states = np.linalg.solve(system, np.broadcast_to((1 - raw.discount) * raw.start, chain.shape[:-1])[..., None])[
        ..., 0
    ]
    return states[..., None] * policy


def expected_return(raw, d):
    return float(np.sum(d * raw.mean_reward)) / (1 - raw.discount)


def objective(raw, terms, caution, d):
    risk = sum(weight * risk_value(raw, term, d) for weight, term in terms)
    return expected_return(raw, d) - caution * risk


def risk_value(raw, term, d):
    """The definition, in NumPy."""
    return _VALUES[term.kind](raw, term.data, d)


def _returns(raw, data, d):
    return np.einsum("jsa,sa->j", data["task_rewards"], d) / (1 - raw.discount)


def _safe_set(raw, data, d):
    slack = d[data["states"]].sum() - (1 - data["slack"])
    return -np.log(slack) if slack > 0 else np.inf


def _task_floors(raw, data, d):
    slack = _returns(raw, data, d) - data["floors"]
    return -np.log(slack).sum() if np.all(slack > 0) else np.inf


def _entries(data, d):
    return d.sum(axis=1) if data["prior"].ndim == 1 else d


def _kl(raw, data, d):
    x, p = _entries(data, d), data["prior"]
    if np.any((x > 0) & (p == 0)):
        return np.inf
    return float(sum(a * np.log(a / b) for a, b in zip(x[x > 0], p[x > 0], strict=True)))


def _variance(raw, data, d):
    mean = np.sum(d * raw.mean_reward)
    return float(np.sum(d * raw.outcome_mean(lambda r: (r - mean) ** 2))) + float(np.sum(d * raw.hidden_spread))


def _cvar(raw, data, d):
    """Mean of the worst 1 - level share of the losses, by sorting the outcomes."""
    losses, mass = raw.outcomes(d)
    order = np.argsort(-losses)
    before = np.cumsum(mass[order]) - mass[order]
    taken = np.clip(1 - data["level"] - before, 0, mass[order])
    return float(losses[order] @ taken) / (1 - data["level"])


def distances(metric):
    """The ground distance as a dense table: the matrix as given, or shortest paths of the undirected graph."""
    return np.asarray(metric) if not sp.issparse(metric) else floyd_warshall(sp.csr_array(metric), directed=False)


def transport_cost(x, q, distance):
    """Cheapest plan with row sums x and column sums q, as the transport LP.

    The solver's absolute tolerances are met by a wide margin: masses are scaled up. What a plan still misses is moved
    at the largest distance, so the cost is never too low.
    """
    n, scale, largest = x.size, 1e5, max(float(distance.max()), 1e-300)
    rows = sp.kron(sp.eye_array(n), np.ones((1, n)))
    columns = sp.kron(np.ones((1, n)), sp.eye_array(n))
    both = sp.csr_array(sp.vstack([rows, columns]))
    right = np.concatenate([x / x.sum(), q / q.sum()])
    options = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}
    found = linprog(distance.ravel() / largest, A_eq=both, b_eq=right * scale, method="highs-ds", options=options)
    assert found.status == 0, found.message
    plan = np.maximum(found.x, 0) / scale
    return float(distance.ravel() @ plan) + largest * float(np.abs(both @ plan - right).sum())


def _wasserstein(raw, data, d):
    return transport_cost(d.sum(axis=1), data["prior"], distances(data["metric"]))


_VALUES = {
    "SafeSet": _safe_set,
    "TaskFloors": _task_floors,
    "PeakExposure": lambda raw, data, d: max(d[list(one)].sum() for one in data["sets"]),
    "WorstTask": lambda raw, data, d: -_returns(raw, data, d).min(),
    "Variance": _variance,
    "CVaR": _cvar,
    "KL": _kl,
    "TotalVariation": lambda raw, data, d: 0.5 * np.abs(_entries(data, d) - data["prior"]).sum(),
    "Quadratic": lambda raw, data, d: 0.5 * ((_entries(data, d) - data["prior"]) ** 2).sum(),
    "Wasserstein": _wasserstein,
    "Entropy": lambda raw, data, d: float(np.sum(d[d > 0] * np.log(d[d > 0]))),
}


@dataclass(frozen=True)
class Answer:
    """``value``: what the solver reports; ``proved``: the objective of the policy read off it, so a lower bound."""

    value: float
    proved: float
    solver: str
    policy: np.ndarray


def solve_convex(raw, terms, caution, solver, extra_reward=None, constant=0.0):
    """Maximise <d, r>/(1-gamma) + <d, extra_reward> + constant - caution * risk(d) with one CVXPY solver."""
    centre = raw.mean_reward[raw.allowed].mean()
    reward = (raw.mean_reward - centre) / (1 - raw.discount)
    if extra_reward is not None:
        reward = reward + extra_reward
    scale = max(np.abs(reward[raw.allowed]).max(), 1e-9)
    d = cp.Variable(raw.shape, nonneg=True)
    inflow = raw.discount * raw.kernel.reshape(-1, raw.n_states).T @ cp.reshape(d, (d.size,), order="C")
    limits = [cp.sum(d, axis=1) == (1 - raw.discount) * raw.start + inflow, d[~raw.allowed] == 0]
    total = cp.sum(cp.multiply(d, reward / scale))
    for weight, term in terms:
        expression, more = _EXPRESSIONS[term.kind](raw, term.data, d)
        total -= caution * weight / scale * expression
        limits += more
    problem = cp.Problem(cp.Maximize(total), limits)
    options = {"CLARABEL": CLARABEL_OPTIONS, "SCS": SCS_OPTIONS}.get(solver, {})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem.solve(solver=solver, **options)
    if problem.status not in ("optimal", "optimal_inaccurate"):
        raise cp.SolverError(f"{solver}: {problem.status}")
    shift = centre / (1 - raw.discount) + constant
    policy = read_policy(raw, terms, np.maximum(d.value, 0))
    found = occupancy(raw, policy)
    extra = 0.0 if extra_reward is None else float(np.sum(found * extra_reward))
    proved = objective(raw, terms, caution, found) + extra + constant
    return Answer(problem.value * scale + shift, proved, solver, policy)


def read_policy(raw, terms, d):
    """Rows of an occupancy; pairs with a zero KL prior stay empty, rows without mass are uniform."""
    open_pairs = raw.allowed.copy()
    for _, term in terms:
        if term.kind == "KL":
            p = term.data["prior"]
            open_pairs &= (p > 0)[:, None] if p.ndim == 1 else p > 0
    d = np.where(open_pairs, d, 0)
    mass = d.sum(axis=1, keepdims=True)
    usable = np.where(open_pairs.any(axis=1, keepdims=True), open_pairs, raw.allowed)
    default = usable / usable.sum(axis=1, keepdims=True)
    return np.where(mass > 1e-13, d / np.where(mass > 0, mass, 1), default)


def reference_answers(raw, terms, caution):
    """One answer per solver: Clarabel, and a second one where it is accurate; none from a solver that fails."""
    solvers = ["CLARABEL"]
    if all(term.kind in LINEAR for _, term in terms):
        solvers.append("HIGHS")
    elif raw.n_states * raw.n_actions <= 40:
        solvers.append("SCS")
    answers = []
    for solver in solvers:
        with contextlib.suppress(cp.SolverError):
            answers.append(solve_convex(raw, terms, caution, solver))
    return answers


def _flat(d):
    return cp.reshape(d, (d.size,), order="C")


def _x(data, d):
    return (cp.sum(d, axis=1), data["prior"]) if data["prior"].ndim == 1 else (_flat(d), data["prior"].ravel())


def _cp_safe_set(raw, data, d):
    return -cp.log(cp.sum(d[data["states"], :]) - (1 - data["slack"])), []


def _cp_task_floors(raw, data, d):
    terms = []
    for reward, floor in zip(data["task_rewards"], data["floors"], strict=True):
        size = max(np.abs(reward).max() / (1 - raw.discount), abs(floor), 1e-12)
        gain = cp.sum(cp.multiply(d, reward / (1 - raw.discount) / size)) - floor / size
        terms.append(-cp.log(gain) - np.log(size))
    return sum(terms), []


def _cp_worst_task(raw, data, d):
    losses = [-cp.sum(cp.multiply(d, r)) / (1 - raw.discount) for r in data["task_rewards"]]
    return cp.max(cp.hstack(losses)), []


def _cp_kl(raw, data, d):
    x, p = _x(data, d)
    here = np.flatnonzero(p > 0)
    zero = np.flatnonzero(p == 0)
    return cp.sum(cp.rel_entr(x[here], p[here])), ([x[zero] == 0] if zero.size else [])


def _cp_wasserstein(raw, data, d):
    n = raw.n_states
    plan = cp.Variable((n, n), nonneg=True)
    limits = [cp.sum(plan, axis=1) == cp.sum(d, axis=1), cp.sum(plan, axis=0) == data["prior"]]
    return cp.sum(cp.multiply(plan, distances(data["metric"]))), limits


def _cp_total_variation(raw, data, d):
    x, p = _x(data, d)
    return 0.5 * cp.norm1(x - p), []


def _cp_quadratic(raw, data, d):
    x, p = _x(data, d)
    return 0.5 * cp.sum_squares(x - p), []


_EXPRESSIONS = {
    "SafeSet": _cp_safe_set,
    "TaskFloors": _cp_task_floors,
    "PeakExposure": lambda raw, data, d: (cp.maximum(*[cp.sum(d[list(s), :]) for s in data["sets"]], 0), []),
    "WorstTask": _cp_worst_task,
    "KL": _cp_kl,
    "TotalVariation": _cp_total_variation,
    "Quadratic": _cp_quadratic,
    "Wasserstein": _cp_wasserstein,
    "Entropy": lambda raw, data, d: (-cp.sum(cp.entr(d)), []),
}


def deterministic_policies(raw):
    """Every deterministic policy, (n, S, A)."""
    choices = [np.flatnonzero(row) for row in raw.allowed]
    return np.eye(raw.n_actions)[np.array(list(itertools.product(*choices)))]


def brute_force(raw, terms, caution):
    """The best deterministic policy: the optimum whenever every risk is concave in d."""
    return max(objective(raw, terms, caution, d) for d in occupancy(raw, deterministic_policies(raw)))


def solve_with_variance(raw, variance_weight, terms, caution, gap=1e-8):
    """Variance plus convex risks: (lower, upper) bound of the optimum, by branch and bound over the mean m.

    With m fixed the problem is convex with value C(m) - k m^2, C convex: a chord of C bounds it between two points.
    """
    k = caution * variance_weight
    low, high = raw.mean_reward[raw.allowed].min(), raw.mean_reward[raw.allowed].max()
    middle = (low + high) / 2
    square = raw.outcome_mean(lambda r: (r - middle) ** 2) + raw.hidden_spread
    best = -np.inf
    full = [*terms, (variance_weight, VARIANCE)]

    def convex_part(m):
        nonlocal best
        extra = -k * (square - 2 * (m - middle) * (raw.mean_reward - middle))
        answer = solve_convex(raw, terms, caution, "CLARABEL", extra_reward=extra)
        best = max(best, objective(raw, full, caution, occupancy(raw, answer.policy)))
        return max(answer.value, answer.proved)

    def top(a, b, ca, cb):
        """Largest value of (chord of C) - k (m - middle)^2 on [a, b]."""
        slope = (cb - ca) / (b - a)
        m = np.clip(middle + slope / (2 * k), a, b)
        return ca + slope * (m - a) - k * (m - middle) ** 2

    points = [(m, convex_part(m)) for m in np.linspace(low, high, 5)]
    boxes = [(top(a, b, ca, cb), a, b, ca, cb) for (a, ca), (b, cb) in itertools.pairwise(points)]
    for _ in range(200):
        boxes.sort(key=lambda box: box[0])
        upper, a, b, ca, cb = boxes[-1]
        if upper - best <= gap * max(1, abs(best)):
            break
        boxes.pop()
        m = (a + b) / 2
        cm = convex_part(m)
        boxes += [(top(a, m, ca, cm), a, m, ca, cm), (top(m, b, cm, cb), m, b, cm, cb)]
    return best, max(boxes)[0]


def solve_with_cvar(raw, cvar_weight, level, terms, caution):
    """CVaR plus convex risks: the best t is one of the losses, so trying each is exact."""
    losses, _ = raw.outcomes(np.ones(raw.shape))
    best = -np.inf
    k = caution * cvar_weight
    for t in np.unique(losses):
        extra = -k * raw.outcome_mean(lambda r, t=t: np.maximum(-r - t, 0)) / (1 - level)
        best = max(best, solve_convex(raw, terms, caution, "CLARABEL", extra, -k * t).proved)
    return best


@dataclass(frozen=True)
class _Named:
    kind: str
    data: dict


VARIANCE = _Named("Variance", {})
