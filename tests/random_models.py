"""Seeded random models and risks for property tests, as plain arrays that references can use without our code."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import scipy.sparse as sp

import cautious as ca
import reference

CONVEX_KINDS = (
    "SafeSet",
    "TaskFloors",
    "PeakExposure",
    "WorstTask",
    "KL",
    "KL states",
    "TotalVariation",
    "TotalVariation states",
    "Quadratic",
    "Quadratic states",
    "Wasserstein",
    "Wasserstein crooked",
    "Wasserstein graph",
    "Entropy",
)
SIZES = {"tiny": (2, 4), "small": (3, 14), "medium": (15, 40), "large": (100, 200)}


@dataclass(frozen=True)
class RawModel:
    """Dense arrays; ``rewards`` is (S, A) or (S, A, S); ``encoding`` says how ``mdp`` hands them over."""

    transitions: np.ndarray
    rewards: np.ndarray
    discount: float
    start: np.ndarray
    allowed: np.ndarray
    reward_square: np.ndarray | None = None
    encoding: str = "dense"

    @property
    def shape(self):
        return self.allowed.shape

    @property
    def n_states(self):
        return self.allowed.shape[0]

    @property
    def n_actions(self):
        return self.allowed.shape[1]

    @cached_property
    def kernel(self):
        """Transitions with empty rows for forbidden pairs."""
        return np.where(self.allowed[:, :, None], self.transitions, 0.0)

    def outcome_mean(self, function):
        """E[function(reward)] over the outcomes of each pair."""
        if self.rewards.ndim == 2:
            return np.where(self.allowed, function(self.rewards), 0.0)
        return np.einsum("sat,sat->sa", self.kernel, function(self.rewards))

    @cached_property
    def mean_reward(self):
        return self.outcome_mean(lambda r: r)

    @cached_property
    def hidden_spread(self):
        """Variance of a pair's reward that only ``reward_square`` shows."""
        if self.reward_square is None:
            return np.zeros(self.shape)
        return np.where(self.allowed, self.reward_square - self.rewards**2, 0.0)

    def outcomes(self, d):
        """Loss and probability of every outcome of one step."""
        if self.rewards.ndim == 2:
            return -self.rewards[self.allowed], d[self.allowed]
        here = self.kernel > 0
        return -self.rewards[here], (d[:, :, None] * self.kernel)[here]

    def mdp(self, **more):
        transitions, rewards = self.transitions, self.rewards
        if self.encoding == "sparse":
            transitions = sp.csr_array(transitions.reshape(-1, self.n_states))
            rewards = sp.coo_array(rewards.reshape(-1, self.n_states)) if rewards.ndim == 3 else rewards
        elif self.encoding == "per action":
            transitions = [sp.csc_array(transitions[:, a]) for a in range(self.n_actions)]
            rewards = [rewards[:, a] for a in range(self.n_actions)] if rewards.ndim == 3 else rewards
        allowed = None if self.allowed.all() else self.allowed
        options = {"allowed": allowed, "reward_square": self.reward_square, **more}
        return ca.MDP(transitions, rewards, self.discount, self.start, **options)


@dataclass(frozen=True)
class Term:
    """A risk by name and data; ``given`` replaces data in the call (a policy instead of its occupancy)."""

    kind: str
    data: dict
    given: dict = field(default_factory=dict)

    def risk(self):
        return getattr(ca, self.kind)(**{**self.data, **self.given})


@dataclass(frozen=True)
class Case:
    raw: RawModel
    terms: tuple[tuple[float, Term], ...]
    caution: float

    def problem(self):
        weight, first = self.terms[0]
        risk = first.risk() if weight == 1 and len(self.terms) == 1 else weight * first.risk()
        for w, term in self.terms[1:]:
            risk = risk + w * term.risk()
        return ca.Problem(self.raw.mdp(), risk, self.caution)

    def objective(self, policy):
        return reference.objective(self.raw, self.terms, self.caution, reference.occupancy(self.raw, policy))


def random_model(rng, size="small", *, outcome_rewards=None, masks=True, reward_square=False):
    low, high = SIZES[size]
    n, m = int(rng.integers(low, high + 1)), int(rng.integers(2, 4 if size == "tiny" else 6))
    transitions = rng.dirichlet(np.ones(n) * rng.choice([0.3, 1.0, 5.0]), size=(n, m))
    if rng.random() < 0.6:
        transitions = _thin(transitions, rng, per_row=int(rng.integers(1, 5)))
    allowed = np.ones((n, m), dtype=bool)
    if masks and rng.random() < 0.3:
        allowed = rng.random((n, m)) < 0.7
        allowed[np.arange(n), rng.integers(m, size=n)] = True
    by_outcome = rng.random() < 0.4 if outcome_rewards is None else outcome_rewards
    shape = (n, m, n) if by_outcome else (n, m)
    # rounded half of the time, so that ties and repeated losses occur
    rewards = rng.normal(size=shape) if rng.random() < 0.5 else rng.integers(-3, 4, size=shape).astype(float)
    rewards = (rewards + rng.choice([0.0, 0.0, 5.0, -20.0])) * 10.0 ** rng.integers(-3, 4)
    square = rewards**2 + rng.exponential(size=shape) if reward_square and not by_outcome else None
    discount = float(rng.choice([0.5, 0.8, 0.9, 0.95, 0.99]))
    encoding = str(rng.choice(["dense", "sparse", "per action"]))
    return RawModel(transitions, rewards, discount, _start(rng, n), allowed, square, encoding)


def _thin(transitions, rng, per_row):
    """Keep a few successors of each row."""
    noise = rng.random(transitions.shape)
    few = np.argsort(noise, axis=2)[:, :, : min(per_row, transitions.shape[2])]
    kept = np.zeros_like(transitions)
    np.put_along_axis(kept, few, rng.dirichlet(np.ones(few.shape[2]), size=few.shape[:2]), axis=2)
    return kept


def _start(rng, n):
    kind = rng.integers(3)
    if kind == 0:
        return np.full(n, 1 / n)
    support = rng.choice(n, size=1 if kind == 1 else int(rng.integers(1, n + 1)), replace=False)
    start = np.zeros(n)
    start[support] = rng.dirichlet(np.ones(support.size))
    return start


def random_policy(rng, raw, support=None):
    """Random rows on the allowed pairs, or on a given support."""
    support = raw.allowed if support is None else support
    weights = rng.exponential(size=raw.shape) * support
    return weights / weights.sum(axis=1, keepdims=True)


def random_support(rng, raw):
    """At least one allowed action in every state: whatever stays on it is a policy."""
    keep = raw.allowed & (rng.random(raw.shape) < 0.6)
    keep[np.arange(raw.n_states), np.argmax(rng.random(raw.shape) * raw.allowed, axis=1)] = True
    return keep


def random_term(rng, raw, kind):
    name, _, flavour = kind.partition(" ")
    return _TERMS[name](rng, raw, flavour)


def random_case(rng, kinds, size="small", **options):
    """A model with one term per kind and a caution that makes return and risk comparable."""
    raw = random_model(rng, size, **options)
    return case_for(rng, raw, [random_term(rng, raw, kind) for kind in kinds])


def case_for(rng, raw, terms):
    weights = [1.0] if len(terms) == 1 else [float(w) for w in 10 ** rng.uniform(-0.5, 0.5, len(terms))]
    weighted = tuple(zip(weights, terms, strict=True))
    policies = [random_policy(rng, raw, random_support(rng, raw)) for _ in range(5)]
    found = [reference.occupancy(raw, policy) for policy in policies]
    gains = [reference.expected_return(raw, d) for d in found]
    risks = np.array([sum(w * reference.risk_value(raw, t, d) for w, t in weighted) for d in found])
    risks = risks[np.isfinite(risks)]
    # one weight for the return's spread over the risk's; a barrier or KL may be infinite at all five
    spread = np.ptp(risks) if risks.size > 1 else 1.0
    caution = max(np.ptp(gains), 1e-6) / max(spread, 1e-3) * 10 ** rng.uniform(-1, 1)
    return Case(raw, weighted, float(caution))


def _states_with_mass(rng, raw):
    d = reference.occupancy(raw, random_policy(rng, raw))
    mass = d.sum(axis=1)
    chosen = rng.random(raw.n_states) < 0.4
    chosen[int(np.argmax(mass))] = True
    return np.flatnonzero(chosen), float(mass[chosen].sum())


def _safe_set(rng, raw, _):
    states, share = _states_with_mass(rng, raw)
    floor = share * (1 - 10 ** rng.uniform(-2, -0.5))
    return Term("SafeSet", {"states": states, "slack": 1 - floor})


def random_tasks(rng, raw):
    tasks = rng.normal(size=(int(rng.integers(1, 4)), *raw.shape))
    return tasks * 10.0 ** rng.integers(-1, 2)


def _task_floors(rng, raw, _):
    tasks = random_tasks(rng, raw)
    reached = np.einsum("jsa,sa->j", tasks, reference.occupancy(raw, random_policy(rng, raw))) / (1 - raw.discount)
    margin = np.abs(tasks).max(axis=(1, 2)) / (1 - raw.discount) * 10 ** rng.uniform(-2, -0.5)
    return Term("TaskFloors", {"task_rewards": tasks, "floors": reached - margin})


def _peak(rng, raw, _):
    count = int(rng.integers(1, 5))
    sets = [
        rng.choice(raw.n_states, size=int(rng.integers(1, max(2, raw.n_states // 2))), replace=False)
        for _ in range(count)
    ]
    given = [np.isin(np.arange(raw.n_states), one) if rng.random() < 0.5 else one for one in sets]
    return Term("PeakExposure", {"sets": sets}, {"sets": given})


def _worst_task(rng, raw, _):
    return Term("WorstTask", {"task_rewards": random_tasks(rng, raw)})


def _kl(rng, raw, flavour):
    support = random_support(rng, raw) if rng.random() < 0.5 else raw.allowed
    reached = reference.occupancy(raw, random_policy(rng, raw, support)) > 0
    if flavour == "states":
        weights = rng.exponential(size=raw.n_states)
        if rng.random() < 0.5:
            weights = weights * reached.any(axis=1)
        return Term("KL", {"prior": weights / weights.sum()})
    if rng.random() < 0.25:
        policy = random_policy(rng, raw, support)
        return Term("KL", {"prior": reference.occupancy(raw, policy)}, {"prior": policy})
    weights = rng.exponential(size=raw.shape) * (reached if rng.random() < 0.3 else support)
    return Term("KL", {"prior": weights / weights.sum()})


def _distance(kind):
    def make(rng, raw, flavour):
        shape = raw.n_states if flavour == "states" else raw.shape
        weights = rng.exponential(size=shape) * (rng.random(shape) < rng.choice([0.3, 1.0]))
        weights[(0,) * weights.ndim] += 0.1
        return Term(kind, {"prior": weights / weights.sum()})

    return make


def _wasserstein(rng, raw, flavour):
    n = raw.n_states
    weights = rng.exponential(size=n) * (rng.random(n) < rng.choice([0.4, 1.0]))
    weights[int(rng.integers(n))] += 0.1
    scale = 10.0 ** rng.integers(-2, 3)
    if flavour == "graph":
        metric = _random_graph(rng, n) * scale
    elif flavour == "crooked":
        upper = np.triu(rng.uniform(0.01, 1, size=(n, n)) ** 3, 1)
        metric = (upper + upper.T) * scale
    else:
        points = rng.normal(size=(n, 2)) * scale
        metric = np.linalg.norm(points[:, None] - points[None], axis=2)
    return Term("Wasserstein", {"prior": weights / weights.sum(), "metric": metric})


def _random_graph(rng, n):
    """A random tree with chords, each edge stored once or in both directions."""
    edges = {(int(rng.integers(i)), i) for i in range(1, n)}
    edges |= {tuple(sorted(int(k) for k in rng.choice(n, 2, replace=False))) for _ in range(n // 2)}
    i, j = np.array(sorted(edges)).T
    half = sp.csr_array((rng.uniform(0.1, 1, size=i.size), (i, j)), shape=(n, n))
    return half if rng.random() < 0.5 else sp.csr_array(half + half.T)


_TERMS = {
    "SafeSet": _safe_set,
    "TaskFloors": _task_floors,
    "PeakExposure": _peak,
    "WorstTask": _worst_task,
    "KL": _kl,
    "TotalVariation": _distance("TotalVariation"),
    "Quadratic": _distance("Quadratic"),
    "Wasserstein": _wasserstein,
    "Entropy": lambda rng, raw, _: Term("Entropy", {}),
    "Variance": lambda rng, raw, _: Term("Variance", {}),
    "CVaR": lambda rng, raw, _: Term("CVaR", {"level": float(rng.choice([0.0, 0.3, 0.5, 0.8, 0.9, 0.95]))}),
}
