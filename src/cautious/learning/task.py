"""What is to be learned, checked before the first draw.

The transitions are unknown, so a risk is bound to a *stand-in*: a model with the simulator's sizes, names and discount
in which every pair stays where it is. Risks that look at the occupancy alone never notice. Variance and CVaR look at
rewards: they are kept apart as ``scalars``, and priors given as policies are refused (their occupancy is unknown).
"""

import hashlib
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

from cautious.arrays import Array, Indices, Mask
from cautious.checks import as_count, as_distribution, as_mask, as_number, as_seed
from cautious.errors import CautiousWarning, IncompatibleError, InputError
from cautious.models.horizons import require_discounting
from cautious.models.simulator_checks import check_members, padded
from cautious.models.simulators import Known, Simulator, TableSimulator, known_of
from cautious.models.tabular import MDP
from cautious.problem import Problem
from cautious.risks.base import Risk, Sum, terms_of
from cautious.risks.returns import ReturnRisk
from cautious.risks.scalar import RewardRisk

# first states drawn to learn their distribution: as many as there are samples, at most
MOST_START_DRAWS = 100_000
# sums of counts are doubles in places
MOST_SAMPLES = 2**53
# variances of payoffs have fourth powers of rewards, and those must be doubles too
SMALLEST_REWARDS, LARGEST_REWARDS = 1e-50, 1e50
LARGEST_CAUTION = 1e100


@dataclass(frozen=True)
class Task:
    """Simulator, risk and caution; ``allowed`` (S, A) the pairs that exist."""

    simulator: Simulator
    unbound_risk: Risk | None
    caution: float
    samples: int
    seed: int
    allowed: Mask
    known: Known

    @property
    def shape(self) -> tuple[int, int]:
        """(S, A)."""
        return self.allowed.shape[0], self.allowed.shape[1]

    @property
    def discount(self) -> float:
        """The simulator's."""
        return float(self.simulator.discount)

    @property
    def reward_range(self) -> tuple[float, float]:
        """(low, high), promised by the simulator and checked at every draw."""
        low, high = self.simulator.reward_range
        return float(low), float(high)

    @property
    def padded_range(self) -> tuple[float, float]:
        """``reward_range`` with what the check of a draw lets through for rounding."""
        return padded(self.reward_range)

    @property
    def start_draws(self) -> int:
        """How many first states tell where episodes begin."""
        return min(MOST_START_DRAWS, self.samples)

    @property
    def pairs(self) -> int:
        """How many pairs exist."""
        return int(np.count_nonzero(self.allowed))

    @cached_property
    def weighted(self) -> tuple[tuple[float, Risk], ...]:
        """(caution * weight, risk as given) of every term that counts."""
        terms = () if self.unbound_risk is None else terms_of(self.unbound_risk)
        return tuple((self.caution * w, risk) for w, risk in terms if self.caution * w > 0)

    @cached_property
    def scalars(self) -> tuple[tuple[float, RewardRisk], ...]:
        """The terms that look at rewards."""
        return tuple((w, risk) for w, risk in self.weighted if isinstance(risk, RewardRisk))

    @cached_property
    def others(self) -> tuple[tuple[float, Risk], ...]:
        """The terms that look at the occupancy alone."""
        return tuple((w, risk) for w, risk in self.weighted if not isinstance(risk, RewardRisk))

    @property
    def bound_by_user(self) -> bool:
        """Whether a user's own code decides what some term means in a model."""
        return any(_bound_by_user(recipe) for _, recipe in self.weighted)

    @cached_property
    def known_terms(self) -> tuple[tuple[float, Risk | None], ...]:
        """The terms of ``others``, bound without knowing the model; None where that is impossible.

        Priors given as policies, and a user's risk with a ``bind`` of its own, mean something only in the true model.
        """
        found: list[tuple[float, Risk | None]] = []
        for weight, recipe in self.others:
            bound: Risk | None = None
            if not _bound_by_user(recipe):
                with suppress(IncompatibleError):
                    bound = recipe.bind(self.stand_in)
            found.append((weight, bound))
        return tuple(found)

    @cached_property
    def problem(self) -> Problem:
        """The terms that look at the occupancy alone, bound to the stand-in; caution is inside the weights."""
        return Problem(self.stand_in, Sum(self.others) if self.others else None, 1.0)

    @cached_property
    def stand_in(self) -> MDP:
        """A model of the right sizes in which every pair stays where it is, and which says so."""
        mdp = self._stand_in()
        mdp.known_transitions = False
        return mdp

    def _stand_in(self) -> MDP:
        (n_states, n_actions), size = self.shape, self.allowed.size
        rows = sp.csr_array(
            (np.ones(size), np.repeat(np.arange(n_states), n_actions), np.arange(size + 1)), shape=(size, n_states)
        )
        return MDP(
            rows,
            np.zeros(self.shape),
            self.discount,
            allowed=self.allowed,
            state_names=self.known.state_names,
            action_names=self.known.action_names,
            scene=self.known.scene,
        )

    @property
    def risk_label(self) -> str:
        """What reports call the risk; "none" where it plays no part."""
        return "none" if not self.weighted or self.unbound_risk is None else self.unbound_risk.label

    def fingerprint(self) -> dict[str, Any]:
        """What must be equal for a checkpoint to be continued; a risk is known by its values at two places."""
        label = "none" if self.unbound_risk is None else self.unbound_risk.label
        return {
            "shape": list(self.shape),
            "discount": self.discount,
            "reward_range": list(self.reward_range),
            "pairs": self.pairs,
            "model": self._model_digest(),
            "risk": label,
            "risk values": [repr(value) for value in self._risk_values()],
            "caution": self.caution,
            "samples": self.samples,
            "seed": self.seed,
        }

    def _model_digest(self) -> str:
        """What is known of the model: the pairs that exist, the start, and the tables where there are any."""
        arrays: list[Any] = [self.allowed, self.known.start]
        if isinstance(self.simulator, TableSimulator):
            table = self.simulator
            arrays += [table.rows.indptr, table.rows.indices, table.rows.data, table.pay]
        found = hashlib.sha256()
        for array in arrays:
            found.update(b"none" if array is None else np.ascontiguousarray(array).tobytes())
        return found.hexdigest()

    def _risk_values(self) -> list[float]:
        bound = self._bound
        if bound is None:
            return []
        weights = np.where(self.allowed, np.arange(1, self.allowed.size + 1).reshape(self.shape), 0.0)
        places = [self.allowed / self.pairs, weights / weights.sum()]
        return [float(bound.value(np.asarray(place))) for place in places]

    @cached_property
    def _bound(self) -> Risk | None:
        """The whole risk bound to a stand-in: only its checks and its identity are wanted; policies may be priors."""
        return Problem(self._stand_in(), self.unbound_risk, self.caution).risk


def make_task(simulator: Any, risk: Any, caution: float, samples: int, seed: int) -> Task:
    """Everything checked before any work."""
    if isinstance(simulator, MDP):
        raise IncompatibleError("ca.learn draws from a simulator; for a known model pass mdp.simulator()")
    if isinstance(simulator, type):
        raise IncompatibleError(f"simulator is the class {simulator.__name__}; make one: {simulator.__name__}(...)")
    if not isinstance(simulator, Simulator):
        raise IncompatibleError(
            f"{type(simulator).__name__} is not a simulator: it needs n_states, n_actions, discount, reward_range, "
            "start_states(n, rng) and sample(states, actions, rng); ca.FunctionSimulator makes one of a function, "
            "ca.GymSimulator of a Gymnasium environment"
        )
    check_members(simulator)
    task = checked_task(simulator, risk, caution, samples, seed)
    if risk is not None and task.caution == 0:
        warnings.warn("caution is 0: the risk plays no part", CautiousWarning, stacklevel=3)
    if task.scalars:
        refuse_hidden_spread(simulator, task.scalars[0][1].label)
    if task.samples < task.pairs:
        raise InputError(
            f"samples is {task.samples}; each of the {task.pairs} state-action pairs must be tried at least once"
        )
    return task


def refuse_hidden_spread(simulator: Simulator, label: str) -> None:
    """Refuse a risk of the spread of rewards with the simulator of a model that pays averages."""
    if isinstance(simulator, TableSimulator) and simulator.hides_spread:
        raise IncompatibleError(
            f"{label} looks at the spread of rewards, and this model only knows it through reward_square: its "
            "simulator pays the averages; give rewards (S, A, S) or sparse (S*A, S)"
        )


def checked_task(simulator: Simulator, risk: Any, caution: float, samples: int, seed: int) -> Task:
    """The task, with its numbers and its risk checked."""
    require_discounting("ca.learn", simulator.discount)
    known = known_of(simulator)
    shape = (int(simulator.n_states), int(simulator.n_actions))
    if known.allowed is None:
        allowed = np.ones(shape, dtype=np.bool_)
    else:
        allowed = as_mask("simulator.known.allowed", known.allowed, shape, "(S, A)")
    if known.start is not None:
        as_distribution("simulator.known.start", known.start, shape[:1], "(S,)")
    caution, samples = as_number("caution", caution, 0.0), as_count("samples", samples, high=MOST_SAMPLES)
    task = Task(simulator, risk, caution, samples, as_seed(seed), allowed, known)
    for _, term in task.weighted:
        if isinstance(term, ReturnRisk):
            raise IncompatibleError(
                f"the rows of a log prove nothing about {term.label}, a risk of the return; solve the counted model: "
                "ca.solve(ca.Problem(mdp, risk))"
            )
    # binding checks the kind of risk and its data
    _ = task._bound
    for weight, term in task.weighted:
        if weight > LARGEST_CAUTION:
            raise InputError(
                f"caution times the weight of {term.label} is {weight:g}; it must be at most {LARGEST_CAUTION:g}, "
                "because its square must be a number of double precision too"
            )
    size = max(abs(end) for end in task.reward_range)
    if size > 0 and not SMALLEST_REWARDS <= size <= LARGEST_REWARDS:
        raise InputError(
            f"reward_range is {task.reward_range}; its larger end must be zero or of size {SMALLEST_REWARDS:g} to "
            f"{LARGEST_REWARDS:g}: rescale the rewards"
        )
    return task


def _bound_by_user(recipe: Risk) -> bool:
    return not type(recipe).__module__.startswith("cautious.") and type(recipe).bind is not Risk.bind


def start_distribution(task: Task, draw_starts: Callable[[int], Indices]) -> Array:
    """The start distribution (S,): as the simulator tells it, else from first states."""
    if task.known.start is not None:
        return np.asarray(task.known.start, dtype=np.float64)
    states = draw_starts(task.start_draws)
    return np.asarray(np.bincount(states, minlength=task.shape[0]) / states.size)
