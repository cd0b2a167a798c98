"""``Solution``: a policy, what it is worth, and the proof; saved and loaded without pickle."""

import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np

from cautious import storage as _storage
from cautious.arrays import Array, Mask
from cautious.certificate.bounds import Certificate
from cautious.certificate.proof_storage import StoredProof, stored_proof
from cautious.checks import as_flag
from cautious.errors import FileError, IncompatibleError, InputError, SolveError
from cautious.history import History
from cautious.horizons.visits import PolicyOccupancy
from cautious.models.formats.own import model_from_storage, model_to_storage
from cautious.models.horizons import Horizon, as_horizon, require_room
from cautious.models.memory import with_memory
from cautious.models.tabular import MDP, Memory
from cautious.prediction import predicted
from cautious.problem import Problem
from cautious.returns.forward import ReturnDistribution
from cautious.returns.memory_policy import MemoryPolicy
from cautious.returns.plain import return_distribution
from cautious.solution_agent import SolutionAgent
from cautious.status import Status
from cautious.tables.notebook import html_table


@dataclass(frozen=True)
class ConstraintValue:
    """What a solution says of one constraint.

    ``value`` of the measure at the delivered policy, its ``bound``, and ``slack``: how far the value is from the bound,
    negative where it is missed. ``price``: what one more unit of room adds to the objective at most; infinite
    where the constraint is part of a conflict, or nothing was proved.

    Examples
    --------
    >>> import cautious as ca
    >>> machine = ca.worlds.machine_replacement()
    >>> (row,) = ca.solve(ca.Problem(machine, constraints=[ca.Exposure("broken") <= 0.004])).constraints
    >>> row.name, row.bound, row.value <= row.bound, row.price > 0
    ('Exposure(broken) <= 0.004', 0.004, True, True)
    """

    name: str
    value: float
    bound: float
    slack: float
    price: float


@dataclass(frozen=True, eq=False)
class Solution:
    """What ``ca.solve`` and ``ca.learn`` return.

    Attributes
    ----------
    status
        How the run ended.
    objective
        ``expected_return - caution * risk`` of the delivered policy; minus infinity if there is none.
    expected_return, risk
        Return from the start distribution, added up as the horizon says; the risk, 0 if it plays no part.
    upper_bound, gap
        No policy exceeds the bound (none close by, where the certificate is "stationary"); ``upper_bound - objective``.
    policy
        (S, A): rows that sum to one; with a finite horizon (T, S, A), a table for each step. Of a policy that remembers
        what was earned these are averages: how often each action is taken in a state, in the long run of many episodes.
    memory_policy
        With a risk of the return, the policy itself: a ``MemoryPolicy``; else None. ``agent()`` plays it.
    multipliers, adjusted_reward
        (S,) and (S, A): the proof, values of a risk-neutral planner and the reward that planner is paid. With a finite
        horizon the values are (T, S).
    certificate
        What was checked, and by how much.
    mdp
        The model. Of a learned solution the counted one, or, where none was counted, a stand-in with the right sizes
        and names (``mdp.known_transitions`` is then False).
    problem
        What was solved (the counted problem of a learned solution). It lives in memory only: a risk may hold functions
        of the user's, so it is not saved, and ``ca.load`` gives None.
    caution, risk_label, risk_terms, tolerance
        What was asked, in words that can be saved.
    constraints
        A ``ConstraintValue`` for every constraint, in the order given: name, value, bound, slack and price.
    method, steps, seconds, memory_bytes
        Which solver ran last, after how much; the most memory it added to the process, where the system says.
    history
        The course of a learning run, else None.
    proof
        Problem and witness as a file saved with ``witness=True`` holds them, else None; ``ca.verify`` reads them.

    Examples
    --------
    >>> import cautious as ca
    >>> solution = ca.solve(ca.worlds.problem("clinic")).require()
    >>> solution.policy.shape, solution.method, solution.certificate.kind
    ((54, 3), 'column generation', 'optimal')
    >>> abs(solution.expected_return - solution.caution * solution.risk - solution.objective) < 1e-9
    True
    """

    status: Status
    objective: float
    expected_return: float
    risk: float
    upper_bound: float
    gap: float
    policy: Array
    multipliers: Array
    adjusted_reward: Array
    certificate: Certificate
    mdp: MDP
    caution: float
    risk_label: str
    tolerance: float
    seconds: float
    steps: int
    method: str
    risk_terms: tuple[dict[str, Any], ...] = ()
    constraints: tuple[ConstraintValue, ...] = ()
    history: History | None = None
    memory_bytes: int | None = None
    memory_policy: MemoryPolicy | None = field(default=None, repr=False)
    problem: Problem | None = field(default=None, repr=False)
    proof: StoredProof | None = field(default=None, repr=False)

    def require(self) -> "Solution":
        """This solution if it is SOLVED; otherwise a SolveError that says what happened."""
        if self.status is not Status.SOLVED:
            raise SolveError(f"{self.status.value}. {self.certificate.statement}")
        return self

    @property
    def horizon(self) -> Horizon:
        """What was asked: None (discounted, for ever), a number of steps, "average" or "total"."""
        return self.mdp.horizon

    @property
    def occupancy(self) -> Array:
        """Where the policy spends its time; computed on first use if the problem has no risk.

        (S, A), the discounted shares of time, which sum to one. With a finite horizon (T, S, A), step by step; with
        "average" the shares of time in the long run; with "total" the expected visits, which do not sum to one.
        """
        return self.certificate.visits.occupancy

    @property
    def reached(self) -> Mask:
        """(S,) marks the states the policy visits; its rows of states that no policy can visit have no effect."""
        return self.certificate.visits.reached

    @property
    def policy_risk(self) -> float | None:
        """The risk of the policy also at caution 0, where ``risk`` is 0 because it plays no part; None if unknown."""
        if self.caution > 0 and self.risk_label != "none":
            return self.risk
        if self.problem is None or self.problem.risk is None:
            return None
        of_return = self.problem.risk_of_policy(self.policy)
        if of_return is not None:
            return of_return
        return float(self.problem.risk.value(self.certificate.visits.pairs))

    def predict(
        self,
        observation: Any,
        state: Any = None,
        episode_start: Any = None,
        deterministic: bool = False,
        rng: np.random.Generator | None = None,
    ) -> tuple[Any, Any]:
        """The policy's action where this is observed, called like ``predict`` of Stable-Baselines3.

        ``observation`` is a state's number or name, or an array or list of them. The action is a number, or an array
        of them, drawn by the policy's chances from ``rng``; a fresh generator by default. ``deterministic=True`` takes
        the likeliest action instead, which is another policy wherever this one mixes.

        With a finite horizon ``state`` is the number of steps taken, and with ``ca.Reach`` it also says which states
        have been entered: None or 0 at the start of an episode; give back the one that was returned. Where
        ``episode_start`` is true it starts again from 0. With a risk of the return it is an array that says what the
        policy remembers of its rewards: those that the model pays; others can be told to ``agent()``. Other policies
        remember nothing: ``state`` is handed back and ``episode_start`` is ignored.

        Examples
        --------
        >>> import numpy as np, cautious as ca
        >>> solution = ca.solve(ca.worlds.problem("machine_replacement"))
        >>> action, _ = solution.predict("broken", rng=np.random.default_rng(0))
        >>> solution.mdp.action_names[action]
        'repair'
        """
        return predicted(
            self.mdp, self.policy, self.memory_policy, observation, state, episode_start, deterministic, rng
        )

    def agent(self) -> SolutionAgent:
        """Something that plays the policy: ``reset(seed)``, ``act(state)``, ``observe(reward, next_state)``.

        It remembers what the policy needs; see ``ca.SolutionAgent``.

        Examples
        --------
        >>> import cautious as ca
        >>> solution = ca.solve(ca.worlds.problem("machine_replacement"))
        >>> agent = solution.agent()
        >>> agent.reset(seed=0)
        >>> solution.mdp.action_names[agent.act("broken")]
        'repair'
        """
        return SolutionAgent(self.mdp, self.policy, self.memory_policy)

    def return_distribution(self) -> ReturnDistribution:
        """How the return of an episode is distributed: computed from the model, not simulated.

        Of a learned solution this is the return in the counted model. See ``ca.ReturnDistribution``.

        Examples
        --------
        >>> import cautious as ca
        >>> machine = ca.worlds.machine_replacement()
        >>> returns = ca.solve(ca.Problem(machine, horizon=12)).return_distribution()
        >>> low, high = returns.quantile(0.05)
        >>> round(low), returns.is_exact
        (2563, False)
        """
        self.mdp.require_transitions("the distribution of the return")
        return return_distribution(self.mdp, self.policy, self.memory_policy)

    def report(self, path: str | os.PathLike[str], problem: Problem | None = None) -> None:
        """Write one self-contained HTML page about this solution (extra ``plot``).

        A solution from a file does not know its problem; with ``problem`` its page is as full as before.
        """
        from cautious.report.solution_page import write_report

        self.mdp.require_matrix("a report")
        write_report(self, path, problem=problem)

    def plot(self) -> Any:
        """The behaviour as a matplotlib figure (extra ``plot``)."""
        from cautious.report.plots import plot_solution

        self.mdp.require_matrix("a plot")
        return plot_solution(self)

    def plot_return(self) -> Any:
        """How the return of an episode is distributed, as a matplotlib figure (extra ``plot``).

        Computed by ``return_distribution``; mean, quantiles and the mean of the worst returns are marked.
        """
        from cautious.report.plots import plot_return

        return plot_return(self)

    def explore(self, height: int = 860) -> Any:
        """The problem in the studio, in a notebook: a widget that starts at this solution (extra ``notebook``).

        Caution, limits and horizon can be changed there, walkers follow the policy, and every answer is computed in
        the kernel. A solution from a file does not know its problem: ``ca.solve`` it again.
        """
        from cautious.studio.explorer import explore_solution

        return explore_solution(self, height)

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write a row for every state and action that the policy takes, by name, as csv.

        Columns: step (over a number of steps, counted from 0), state, action, probability, and the share of time of the
        pair, or its visits until an end.
        """
        from cautious.report.writing import write_policy

        write_policy(self, path)

    def to_frame(self) -> Any:
        """The same rows as a pandas DataFrame (extra ``excel``)."""
        from cautious.report.writing import policy_frame

        return policy_frame(self)

    def to_excel(self, path: str | os.PathLike[str]) -> None:
        """The same rows, and the figures of the solution, as two sheets of a workbook of Excel (extra ``excel``)."""
        from cautious.report.writing import write_workbook

        write_workbook(self, path)

    def __repr__(self) -> str:
        horizon = "" if self.horizon is None else f", horizon={self.horizon!r}"
        return (
            f"Solution({self.status.name}, objective={self.objective:.8g}, gap={self.gap:.2g}, "
            f"expected_return={self.expected_return:.8g}, risk={self.risk:.8g}, {self.certificate.kind}{horizon})"
        )

    def _repr_html_(self) -> str:
        from cautious.report.text_tables import solution_table

        table = solution_table(self)
        return html_table(table.headers, table.rows)

    def save(self, path: str | os.PathLike[str], witness: bool = False) -> None:
        """Write everything, the model included, to one file; atomically, without pickle.

        With ``witness=True`` the file also holds the problem and what the upper bound rests on, so that anyone can
        check the proof from the file alone (``ca.verify``, ``cautious verify FILE``).
        """
        witness = as_flag("witness", witness)
        if witness and self.certificate.kind == "estimated":
            raise IncompatibleError("a learned solution has no witness: its statement is a matter of probability")
        _storage.write(path, "solution", *self.to_storage(witness))

    def to_storage(self, witness: bool) -> tuple[dict[str, Any], dict[str, Any]]:
        """Header and arrays of the file that ``save`` writes."""
        self.mdp.require_matrix("a file or a verification, which has the model in it,")
        model_header, model_arrays = model_to_storage(self.mdp)
        header = {
            "model": model_header,
            "horizon": self.mdp.horizon,
            "status": self.status.name,
            "certificate": {name: _storage.plain(getattr(self.certificate, name)) for name in _PROVED},
            "risk_label": self.risk_label,
            "risk_terms": _storage.plain(self.risk_terms),
            "constraints": _storage.plain([asdict(row) for row in self.constraints]),
            "steps": self.steps,
            "memory_bytes": self.memory_bytes,
            "method": self.method,
            **{name: _storage.plain(getattr(self, name)) for name in _NUMBERS},
        }
        arrays = {f"model.{name}": array for name, array in model_arrays.items()}
        arrays |= {name: getattr(self, name) for name in _TABLES}
        if self.mdp.memory is not None:
            header["memory"], base = model_to_storage(self.mdp.memory.base)
            arrays |= {f"base.{name}": array for name, array in base.items()}
            arrays |= {f"memory.{number}": states for number, states in enumerate(self.mdp.memory.sets)}
        if self.memory_policy is not None:
            header["memory_policy"], own = self.memory_policy.to_storage()
            arrays |= {f"memory_policy.{name}": array for name, array in own.items()}
        if self.history is not None:
            arrays |= {f"history.{name}": getattr(self.history, name) for name in _COLUMNS}
        proof = self._stored_proof() if witness else None
        if proof is not None:
            header["proof"] = _storage.plain(proof.header)
            arrays |= proof.arrays
        return header, arrays

    def _stored_proof(self) -> StoredProof | None:
        """Problem and witness; none of a learned solution, which has no proof."""
        if self.proof is not None or self.certificate.kind == "estimated":
            return self.proof
        if self.problem is None:
            raise InputError(
                "this solution comes from a file that was saved without its witness; solve the problem again, or ask "
                "for a file written by solution.save(path, witness=True)"
            )
        if (self.problem.is_of_return and self.caution > 0) or self.problem.parts.return_limits:
            about = self.risk_label if self.problem.is_of_return else self.constraints[0].name
            raise IncompatibleError(
                f"the bound of {about} rests on planning over states and targets, which is not part of a "
                "file, and cannot be verified"
            )
        if "nodes" in self.certificate.facts:
            raise IncompatibleError(
                "the bound of this solution holds for deterministic policies; it rests on a search, which is not part "
                "of a file, and cannot be verified"
            )
        return stored_proof(self.problem, self.certificate.witness, self.certificate.visits.pairs)


_NUMBERS = ("objective", "expected_return", "risk", "upper_bound", "gap", "caution", "tolerance", "seconds")
_PROVED = ("kind", "statement", "upper_bound", "gap", "occupancy_error", "objective_error", "facts")
_COLUMNS = tuple(column.name for column in fields(History))
_TABLES = ("policy", "occupancy", "multipliers", "adjusted_reward", "reached")


def load(path: str | os.PathLike[str]) -> Solution:
    """A solution written by ``solution.save``.

    Examples
    --------
    >>> import cautious as ca
    >>> ca.solve(ca.worlds.problem("queue")).save("queue.npz")
    >>> ca.load("queue.npz").certificate.kind
    'optimal'
    """
    header, arrays = _storage.read(path, "solution")
    try:
        mdp = model_from_storage(path, header["model"], _storage.part_of(arrays, "model."))
        mdp = mdp.with_horizon(as_horizon(header.get("horizon"), mdp.discount))
        require_room(mdp.horizon, mdp.shape)
        if "memory" in header:
            mdp.memory = _memory(path, header["memory"], arrays, mdp)
        certificate = {key: _storage.unplain(value) for key, value in header["certificate"].items()}
        numbers: dict[str, Any] = {name: float(_storage.unplain(header[name])) for name in _NUMBERS}
        tables: dict[str, Any] = {name: _storage.take(path, arrays, name) for name in _TABLES}
        for name, table in tables.items():
            expected = _shape_of(name, mdp)
            dtype = np.dtype(np.bool_ if name == "reached" else np.float64)
            if table.shape != expected or table.dtype != dtype:
                found = f"has shape {table.shape} and dtype {table.dtype}"
                raise FileError(f"{path}: the array {name!r} {found}, expected {expected} and {dtype}")
        visits = PolicyOccupancy(tables.pop("occupancy"), tables.pop("reached"), certificate.pop("occupancy_error"))
        return Solution(
            status=Status[header["status"]],
            certificate=Certificate(visits=visits, **certificate),
            mdp=mdp,
            risk_label=str(header["risk_label"]),
            risk_terms=tuple(_storage.unplain(header["risk_terms"])),
            constraints=tuple(ConstraintValue(**row) for row in _storage.unplain(header.get("constraints", []))),
            steps=int(header["steps"]),
            method=str(header["method"]),
            memory_bytes=header.get("memory_bytes"),
            memory_policy=_memory_policy(path, header, arrays, mdp),
            history=_history(path, arrays),
            proof=_proof(header, arrays),
            **numbers,
            **tables,
        )
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError, RecursionError) as error:
        if isinstance(error, FileError):
            raise
        raise FileError(f"{path}: the solution's header is incomplete or damaged ({error!r})") from None


def _memory(
    path: str | os.PathLike[str], header: Mapping[str, Any], arrays: Mapping[str, Any], mdp: MDP
) -> Memory | None:
    """What the states of a model with memory are, from the model without and the sets that are remembered."""
    base = model_from_storage(path, header, _storage.part_of(arrays, "base."))
    sets = [
        base.state_indices(f"memory.{name}", states)
        for name, states in sorted(_storage.part_of(arrays, "memory.").items())
    ]
    found = with_memory(base.with_horizon(mdp.horizon), [(str(number), states) for number, states in enumerate(sets)])
    if found.shape != mdp.shape:
        raise FileError(f"{path}: the model with memory has shape {mdp.shape}, and its parts make {found.shape}")
    return found.memory


def _memory_policy(
    path: str | os.PathLike[str], header: Mapping[str, Any], arrays: Mapping[str, Any], mdp: MDP
) -> MemoryPolicy | None:
    if "memory_policy" not in header:
        return None
    own = _storage.part_of(arrays, "memory_policy.")
    with _storage.errors_of_file(path, LookupError, TypeError, ValueError, OverflowError):
        return MemoryPolicy.from_storage(header["memory_policy"], own, mdp.shape, mdp.horizon)


def _shape_of(table: str, mdp: MDP) -> tuple[int, ...]:
    """Policies, occupancies and multipliers have a first axis of steps with a finite horizon."""
    if table == "reached":
        return (mdp.n_states,)
    if table == "adjusted_reward":
        return mdp.shape
    return mdp.occupancy_shape[:-1] if table == "multipliers" else mdp.occupancy_shape


def _proof(header: Mapping[str, Any], arrays: Mapping[str, Any]) -> StoredProof | None:
    """As it is in the file: ``ca.verify`` checks it."""
    if "proof" not in header:
        return None
    parts = {name: array for name, array in arrays.items() if name.startswith("proof.")}
    return StoredProof(dict(header["proof"]), parts)


def _history(path: str | os.PathLike[str], arrays: Mapping[str, Any]) -> History | None:
    if not any(name.startswith("history.") for name in arrays):
        return None
    return History(**{name: _storage.take(path, arrays, f"history.{name}") for name in _COLUMNS})
