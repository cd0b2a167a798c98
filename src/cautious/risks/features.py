"""Risks of m numbers that are linear in the occupancy: barriers and worst cases, and functions of your own.

    LogBarrier:  rho(d) = - sum_j log( <f_j, d> - b_j ),     line:  -log x >= 1 + log w - w x   for any w > 0
    WorstOf:     rho(d) = max_j <f_j, d>,                    line:  sum_j w_j <f_j, d>          for any weights w

The user-facing recipes of the paper's Examples 1 and 2 (``SafeSet``, ``TaskFloors``, ``PeakExposure``,
``WorstTask``) bind to these two. Returns of tasks carry their factor 1/(1-gamma) from here on.
"""

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from cautious.arrays import Array, Indices, Mask
from cautious.checks import as_floats, as_number, check_shape, is_listable
from cautious.errors import CautiousWarning, IncompatibleError, InputError, shown
from cautious.models.encodings import EPS, check_magnitude
from cautious.models.tabular import MDP
from cautious.risks.base import ConicRisk, Cut, Risk, Structure, UnboundRisk
from cautious.risks.epigraph import Epigraph


class FeatureRisk(Risk):
    """A function of m numbers that are linear in the occupancy: risk(d) = outer( <f_1, d>, ..., <f_m, d> ).

    Give it the ``features``, m tables (S, A), and write ``outer`` and ``outer_gradient``: value and gradient follow.
    Local models solve it, with a proof if ``outer`` is convex. The barriers and worst cases of this file say more, and
    are planned for.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> import numpy as np, cautious as ca
    >>> from cautious.risks.features import FeatureRisk
    >>> @dataclass(frozen=True, eq=False)
    ... class SquaredExposure(FeatureRisk):
    ...     features: np.ndarray
    ...     def outer(self, numbers): return float(np.sum(numbers**2))
    ...     def outer_gradient(self, numbers): return 2 * numbers
    >>> mdp = ca.worlds.queue()
    >>> crowded = np.zeros((1, *mdp.shape))
    >>> crowded[0, 8:] = 1.0
    >>> ca.solve(ca.Problem(mdp, SquaredExposure(crowded), caution=500.0)).status.name
    'SOLVED'
    """

    features: Any

    @abstractmethod
    def outer(self, numbers: Array) -> float:
        """The risk as a function of its numbers (m,)."""

    @abstractmethod
    def outer_gradient(self, numbers: Array) -> Array:
        """The gradient (m,) of ``outer``."""

    def bind(self, mdp: MDP) -> Risk:
        """This risk, if its features are tables of the model."""
        shape = np.shape(self.features)
        if shape[1:] != mdp.shape:
            raise IncompatibleError(
                f"{self.label}.features has shape {shape}; expected (m, {mdp.n_states}, {mdp.n_actions}) = (m, S, A)"
            )
        return self

    def numbers(self, d: Array) -> Array:
        """The m numbers of an occupancy."""
        return np.tensordot(self.features, d, axes=2)

    def weighted(self, weights: Array) -> Array:
        """sum_j w_j f_j as a table (S, A)."""
        return np.tensordot(weights, self.features, axes=1)

    def value(self, d: Array) -> float:
        """The risk of the numbers of d."""
        return self.outer(self.numbers(d))

    def gradient(self, d: Array) -> Array:
        """At the numbers of d."""
        return self.weighted(self.outer_gradient(self.numbers(d)))


@dataclass(frozen=True)
class PlannedFeatures(ConicRisk, FeatureRisk):
    """The features of this package's own risks, (m, S*A) sparse; ``names`` say what each number is.

    Lines below these risks, their conic forms and their errors are known, and solvers know both kinds: a barrier, and
    the largest of the numbers.
    """

    features: sp.csr_array
    names: tuple[str, ...]
    shape: tuple[int, int]
    title: str
    structure = Structure.FEATURES
    is_barrier: ClassVar[bool] = False

    def bind(self, mdp: MDP) -> Risk:
        """This risk: it was made for a model."""
        return self

    @abstractmethod
    def outer_error(self, numbers: Array, errors: Array) -> float:
        """How far the risk can be off, if its numbers (m,) are known up to these errors (m,)."""

    @property
    def sign(self) -> int:
        """1 where the risk rises with its numbers, -1 where it falls."""
        return -1 if self.is_barrier else 1

    def value_error(self, d: Array, value: float, slope: Array, distance: float) -> float:
        """By the errors of the numbers."""
        return self.outer_error(self.numbers(d), self.number_errors(d, distance))

    @property
    def label(self) -> str:
        """The recipe's name."""
        return self.title

    def numbers(self, d: Array) -> Array:
        """The m numbers of an occupancy."""
        return np.asarray(self.features @ np.ravel(d))

    @cached_property
    def _has_signs(self) -> bool:
        """Whether any entry of a feature is negative."""
        return bool(self.features.data.min(initial=0.0) < 0)

    @property
    def sizes(self) -> sp.csr_array:
        """|features|, with the same places in memory; the features themselves where no entry is negative."""
        own = self.features
        return sp.csr_array((np.abs(own.data), own.indices, own.indptr), shape=own.shape) if self._has_signs else own

    @cached_property
    def by_pair(self) -> sp.csc_array:
        """The features with a row for every pair, (S*A, m); the same numbers in memory."""
        return self.features.T

    def restricted(self, mdp: MDP, states: Indices) -> "PlannedFeatures":
        """The features of the pairs of these states."""
        pairs = (states[:, None] * self.shape[1] + np.arange(self.shape[1])).ravel()
        return replace(self, features=sp.csr_array(self.features[:, pairs]), shape=mdp.shape)

    @property
    def typical_slope(self) -> float:
        """The largest entry of a feature."""
        return float(np.abs(self.features.data).max(initial=0.0))

    def weighted(self, weights: Array) -> Array:
        """sum_j w_j f_j as a table (S, A)."""
        return np.asarray(self.by_pair @ weights).reshape(self.shape)

    def weighted_size(self, weights: Array) -> Array:
        """sum_j |w_j f_j| as a table (S, A): features may cancel, their rounding does not."""
        by_pair = self.sizes.T if self._has_signs else self.by_pair
        return np.asarray(by_pair @ np.abs(weights)).reshape(self.shape)

    def number_errors(self, d: Array, distance: float) -> Array:
        """How far each of the m numbers of d can be off; see ``Risk.value_error``."""
        flat, size = np.ravel(d), self.sizes
        # a number rounds once per product and sum
        rounding = EPS * (np.diff(size.indptr) + 4) * (size @ flat)
        used = np.where(flat[size.indices] > 0, size.data, 0.0)
        steepest = np.array([used[first:last].max(initial=0.0) for first, last in pairwise(size.indptr)])
        return np.asarray(steepest * distance + rounding)


@dataclass(frozen=True)
class LogBarrier(PlannedFeatures):
    """Keeps every number strictly above its floor."""

    floors: Array
    is_barrier = True

    def slack(self, d: Array) -> Array:
        """How far each number is above its floor; (m,)."""
        return self.numbers(d) - self.floors

    def outer(self, numbers: Array) -> float:
        """- sum of logs of the slacks."""
        slack = numbers - self.floors
        return float(-np.log(slack).sum()) if np.all(slack > 0) else np.inf

    def outer_gradient(self, numbers: Array) -> Array:
        """Minus one by the slacks."""
        return np.asarray(-1 / (numbers - self.floors))

    def saturated_gradient(self, d: Array, least: Array) -> Array:
        """The gradient with every slack taken as at least this (m,), so that it stays bounded."""
        return -self.weighted(1 / np.maximum(self.slack(d), least))

    def with_floors(self, errors: Array) -> Array:
        """How far slacks can be off (m,), if the numbers are known up to these errors (m,)."""
        return np.asarray(errors + 2 * EPS * np.abs(self.floors))

    def outer_error(self, numbers: Array, errors: Array) -> float:
        """Each logarithm by itself: opposite requirements may cancel in the slope, their errors add up."""
        slack, error = numbers - self.floors, self.with_floors(errors)
        if not np.all(error < slack):
            return np.inf
        return float(np.log1p(error / (slack - error)).sum()) + 4 * EPS * float(np.abs(np.log(slack)).sum())

    def witness_at(self, d: Array, active: Mask) -> Array:
        """1/slack, with no slack below a thousandth of the size of its requirement."""
        return np.asarray(1 / np.maximum(self.slack(d), 1e-3 * self.scales))

    def simple_witness(self, active: Mask) -> Array:
        """1/slack where each number is the largest possible."""
        most = np.array([row.toarray().ravel()[active.ravel()].max(initial=0.0) for row in self.features])
        return np.asarray(1 / np.maximum(most - self.floors, 1e-9))

    def cut(self, witness: Any, active: Mask) -> Cut:
        """Tangents of the logarithms; the witness is w = 1/slack (m,)."""
        w = np.maximum(np.asarray(witness, dtype=np.float64), 1e-300)
        intercept = float(np.sum(1 + np.log(w) + w * self.floors))
        size = float(np.sum(1 + np.abs(np.log(w)) + w * np.abs(self.floors)))
        return Cut(-self.weighted(w), intercept, self.weighted_size(w), size)

    def epigraph(self, active: Mask) -> Epigraph:
        """Rows (-t, 1, slack / scale) in the exponential cone: t >= -log(slack / scale)."""
        m = self.floors.size
        scale = self.scales
        on_own = sp.csr_array((np.ones(m), (3 * np.arange(m), np.arange(m))), shape=(3 * m, m))
        place = sp.csr_array((-1 / scale, (3 * np.arange(m) + 2, np.arange(m))), shape=(3 * m, m))
        rhs = np.zeros(3 * m)
        rhs[1::3] = 1
        rhs[2::3] = -self.floors / scale
        return Epigraph(
            cost=np.ones(m),
            on_pairs=sp.csr_array(place @ self.features),
            on_own=on_own,
            rhs=rhs,
            cones=(("exponential", 3),) * m,
            witness=lambda z: np.abs(z[2::3]) / scale,
        )

    @cached_property
    def scales(self) -> Array:
        """The size of each requirement, to compare and scale them: the spread of its feature and its floor."""
        spread = np.array([np.abs(row.data).max(initial=0.0) for row in self.features])
        return np.asarray(np.maximum(np.maximum(spread, np.abs(self.floors)), 1e-300))


@dataclass(frozen=True)
class WorstOf(PlannedFeatures):
    """The largest of the numbers."""

    smooth = False

    @property
    def floors(self) -> Array:
        """Nothing is required of the numbers: zeros (m,)."""
        return np.zeros(len(self.names))

    def outer(self, numbers: Array) -> float:
        """The largest number."""
        return float(numbers.max())

    def outer_gradient(self, numbers: Array) -> Array:
        """All weight on the first number that attains the maximum."""
        return np.asarray(np.eye(len(self.names))[int(np.argmax(numbers))])

    def witness_at(self, d: Array, active: Mask) -> Array:
        """The gradient of the maximum: weights of the numbers."""
        return self.outer_gradient(self.numbers(d))

    def simple_witness(self, active: Mask) -> Array:
        """Equal weights."""
        return np.ones(len(self.names))

    def cut(self, witness: Any, active: Mask) -> Cut:
        """Any weights give a line; they are normalised here, whatever the solver sent."""
        w = np.maximum(np.asarray(witness, dtype=np.float64), 0.0)
        w = w / w.sum() if w.sum() > 0 else np.full(w.size, 1 / w.size)
        return Cut(self.weighted(w), 0.0, self.weighted_size(w), 0.0)

    def outer_error(self, numbers: Array, errors: Array) -> float:
        """The largest error of a number: near d another one may be the largest."""
        return float(errors.max())

    def epigraph(self, active: Mask) -> Epigraph:
        """One number t with f_j d <= t for all j."""
        m = len(self.names)
        scale = max(float(np.abs(self.features.data).max(initial=0.0)), 1e-300)
        return Epigraph(
            cost=np.array([scale]),
            on_pairs=self.features / scale,
            on_own=sp.csr_array(-np.ones((m, 1))),
            rhs=np.zeros(m),
            cones=(("nonnegative", m),),
            witness=lambda z: np.asarray(z),
        )


@dataclass(frozen=True, eq=False)
class SafeSet(UnboundRisk):
    """Stay in ``states`` for more than the share 1 - slack of discounted time: -log( d(states) - (1 - slack) ).

    ``states``: indices, a mask or state names. ``slack`` in (0, 1].

    Examples
    --------
    >>> import cautious as ca
    >>> mdp = ca.worlds.machine_replacement()
    >>> working = [name for name in mdp.state_names if name != "broken"]
    >>> solution = ca.solve(ca.Problem(mdp, ca.SafeSet(working, slack=0.005), caution=1.0))
    >>> bool(solution.occupancy[-1].sum() < 0.005)
    True
    """

    summary = "how close the time spent outside the safe states comes to its limit (a logarithmic barrier)"
    fields_in_files: ClassVar = {"states": "states", "slack": "share"}
    of_shares = True

    states: Any
    slack: float

    @property
    def as_constraint(self) -> str:
        """Time in the states."""
        return f"ca.Exposure(states) >= {1 - float(self.slack):g}"

    def bind(self, mdp: MDP) -> LogBarrier:
        """The barrier in this model."""
        slack = as_number("SafeSet.slack", self.slack, 0, 1, open_ends="(")
        states = mdp.state_indices("SafeSet.states", self.states)
        if states.size == 0:
            raise InputError("SafeSet.states is empty; no policy can stay in an empty set")
        features = indicators(mdp, [states])
        return LogBarrier(features, ("share of time in the safe set",), mdp.shape, "SafeSet", np.array([1 - slack]))


@dataclass(frozen=True, eq=False)
class TaskFloors(UnboundRisk):
    """Keep the return of each task above its floor: -sum_j log( return of task j - floor_j ).

    ``task_rewards`` (m, S, A); ``floors`` (m,), as discounted returns.

    Examples
    --------
    >>> import numpy as np, cautious as ca
    >>> mdp = ca.worlds.clinic()
    >>> treated = ca.worlds.clinic_tasks(mdp)  # urgent and routine patients, per slot
    >>> floors = np.array([0.4, 0.4]) / (1 - mdp.discount)
    >>> solution = ca.solve(ca.Problem(mdp, ca.TaskFloors(treated, floors), caution=1.0))
    >>> bool(all(np.sum(solution.occupancy * task) > 0.4 for task in treated))
    True
    """

    summary = "how close the return of each task comes to its floor (logarithmic barriers)"
    fields_in_files: ClassVar = {"task_rewards": "array", "floors": "array"}

    task_rewards: Any
    floors: Any

    @property
    def as_constraint(self) -> str:
        """Returns of the tasks."""
        return "ca.Return(task_rewards[j]) >= floors[j] for every j"

    def bind(self, mdp: MDP) -> LogBarrier:
        """The barrier in this model."""
        features, names = _task_returns("TaskFloors.task_rewards", self.task_rewards, mdp)
        floors = np.atleast_1d(as_floats("TaskFloors.floors", self.floors))
        check_shape("TaskFloors.floors", floors, (len(names),), "(m,), one per task")
        check_magnitude("TaskFloors.floors", floors)
        return LogBarrier(features, names, mdp.shape, "TaskFloors", floors)


@dataclass(frozen=True, eq=False)
class PeakExposure(UnboundRisk):
    """The largest share of discounted time spent in one of the danger sets: max_j d(set_j).

    ``sets``: a sequence of sets, each as indices, a mask or state names.

    Examples
    --------
    >>> import cautious as ca
    >>> queue = ca.worlds.queue()
    >>> crowded, idle = list(range(8, 16)), [0]
    >>> solution = ca.solve(ca.Problem(queue, ca.PeakExposure([crowded, idle]), caution=50.0))
    >>> bool(solution.risk < 0.2)
    True
    """

    summary = "the share of time spent in the worst of the danger sets"
    fields_in_files: ClassVar = {"sets": "sets"}

    sets: Sequence[Any]
    smooth = False

    def bind(self, mdp: MDP) -> WorstOf:
        """The worst case in this model."""
        if not isinstance(self.sets, Sequence | np.ndarray) or not is_listable(self.sets) or len(self.sets) == 0:
            raise InputError(
                f"PeakExposure.sets must be a non-empty sequence of sets of states, found {shown(self.sets)}"
            )
        if not all(is_listable(one) for one in self.sets):
            raise InputError("PeakExposure.sets must be a sequence of sets; wrap a single set in a list")
        groups = [mdp.state_indices(f"PeakExposure.sets[{j}]", one) for j, one in enumerate(self.sets)]
        for j, group in enumerate(groups):
            if group.size == 0:
                warnings.warn(f"PeakExposure.sets[{j}] is empty: its exposure is 0", CautiousWarning, stacklevel=2)
        names = tuple(f"exposure to set {j}" for j in range(len(groups)))
        return WorstOf(indicators(mdp, groups), names, mdp.shape, "PeakExposure")


@dataclass(frozen=True, eq=False)
class WorstTask(UnboundRisk):
    """The loss of the worst task: max_j -(return of task j). ``task_rewards`` (m, S, A).

    Examples
    --------
    >>> import numpy as np, cautious as ca
    >>> mdp = ca.worlds.clinic()
    >>> treated = ca.worlds.clinic_tasks(mdp)
    >>> solution = ca.solve(ca.Problem(mdp, ca.WorstTask(treated), caution=5.0))
    >>> print([f"{np.sum(solution.occupancy * task):.2f}" for task in treated])  # urgent, routine per slot
    ['0.48', '0.48']
    """

    summary = "the loss of the worst task"
    fields_in_files: ClassVar = {"task_rewards": "array"}

    task_rewards: Any
    smooth = False

    def bind(self, mdp: MDP) -> WorstOf:
        """The worst case in this model."""
        features, names = _task_returns("WorstTask.task_rewards", self.task_rewards, mdp)
        return WorstOf(-features, tuple(f"minus {name}" for name in names), mdp.shape, "WorstTask")


def indicators(mdp: MDP, groups: Sequence[Indices]) -> sp.csr_array:
    """A row (S*A,) for every group of sorted states: one on all their pairs."""
    size = mdp.n_states * mdp.n_actions
    index = np.int32 if len(groups) * size < 2**31 else np.int64
    pairs = [(mdp.n_actions * group[:, None] + np.arange(mdp.n_actions)).ravel() for group in groups]
    ends = np.cumsum([0, *(one.size for one in pairs)]).astype(index)
    places = np.concatenate(pairs).astype(index)
    return sp.csr_array((np.ones(places.size), places, ends), shape=(len(groups), size))


def _task_returns(name: str, task_rewards: Any, mdp: MDP) -> tuple[sp.csr_array, tuple[str, ...]]:
    tasks = as_floats(name, task_rewards)
    if tasks.ndim != 3 or tasks.shape[0] == 0 or tasks.shape[1:] != mdp.shape:
        raise InputError(f"{name} has shape {tasks.shape}; expected (m, {mdp.n_states}, {mdp.n_actions}) = (m, S, A)")
    check_magnitude(name, tasks, 1 / mdp.normaliser)
    features = compressed(tasks.reshape(len(tasks), -1) / mdp.normaliser)
    return features, tuple(f"return of task {j}" for j in range(len(tasks)))


def compressed(table: Array) -> sp.csr_array:
    """A table (m, n) by its rows; looking for zeros takes longer than all the rest where there are none."""
    m, n = table.shape
    if np.count_nonzero(table) < table.size:
        return sp.csr_array(table)
    index = np.int32 if table.size < 2**31 else np.int64
    places = np.tile(np.arange(n, dtype=index), m), n * np.arange(m + 1, dtype=index)
    return sp.csr_array((table.ravel(), *places), shape=(m, n))
