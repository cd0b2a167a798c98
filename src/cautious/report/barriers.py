"""Barriers (SafeSet, TaskFloors): what they require and what a policy reaches.

A barrier is minus the logarithm of a slack, which says nothing to a reader. Tables, axes and sentences show instead the
share of time or the return that it is about.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from cautious.arrays import Array
from cautious.certificate.bounds import requirements
from cautious.models.tabular import MDP
from cautious.problem import Problem
from cautious.report.accuracy import shown_risk
from cautious.report.words import is_barrier_label, number, short, state_name
from cautious.solution import Solution

MAX_STATES_NAMED = 6


@dataclass(frozen=True)
class Requirement:
    """``reached`` must exceed ``limit``; ``states`` are those of a safe set, where they are known."""

    name: str
    limit: float
    reached: float
    states: tuple[int, ...] | None = None

    @property
    def is_share(self) -> bool:
        """Whether it is about a share of time."""
        return self.name == "SafeSet: share of time in the safe set"

    @property
    def plain_name(self) -> str:
        """The name without that of the risk."""
        return self.name.partition(": ")[2]

    @property
    def limit_text(self) -> str:
        """What must be exceeded."""
        return f"{number(100 * self.limit, 6)} %" if self.is_share else number(self.limit, 6)

    @property
    def reached_text(self) -> str:
        """What is reached, with more digits where it would look like the limit."""
        if not self.is_share:
            return number(self.reached, 6)
        is_close = abs(self.reached - self.limit) < 1e-4
        return f"{number(100 * self.reached, 8)} %" if is_close else f"{100 * self.reached:.2f} %"

    def states_text(self, mdp: MDP) -> str:
        """The states of a safe set, by their names where there are few."""
        if self.states is None:
            return "the safe states"
        if len(self.states) > MAX_STATES_NAMED:
            return f"{len(self.states):,} states"
        return ", ".join(short(state_name(mdp, state)) for state in self.states)


def requirements_of(problem: Problem, occupancy: Array) -> list[Requirement]:
    """The requirements of a problem's barriers, and what an occupancy (S, A) reaches."""
    # at caution 0 the barriers would not be among the terms
    counted = problem if problem.caution > 0 or problem.risk is None else problem.with_caution(1.0)
    names, features, floors = requirements(counted)
    reached = np.asarray(features @ occupancy.ravel())
    found = []
    # the rows of barriers come first; those of limits have a table of their own
    n_barriers = sum(term.risk.floors.size for term in counted.parts.barriers)
    rows = list(zip(names, floors.tolist(), reached.tolist(), strict=True))[:n_barriers]
    for row, (name, limit, value) in enumerate(rows):
        pairs = features.indices[features.indptr[row] : features.indptr[row + 1]]
        one = Requirement(name, limit, value, tuple(np.unique(pairs // problem.mdp.n_actions).tolist()))
        found.append(one if one.is_share else Requirement(name, limit, value))
    return found


def barrier_requirements(solution: Solution) -> list[Requirement]:
    """The requirements and what this policy reaches; of a loaded solution only what its certificate names."""
    if solution.problem is not None:
        return requirements_of(solution.problem, solution.certificate.visits.pairs)
    facts = solution.certificate.facts
    columns = (facts.get("requirements", []), facts.get("required", []), facts.get("reached", []))
    return [Requirement(*row) for row in zip(*columns, strict=False)]


@dataclass(frozen=True)
class RiskFigure:
    """What is shown of a risk: its value, or what barriers require.

    ``kind``: "risk", "time outside" a safe set, the "return" of a task, or the least "room" of several requirements.
    """

    kind: str
    name: str

    @property
    def is_share(self) -> bool:
        """Whether it is a share of time."""
        return self.kind == "time outside"

    @property
    def is_barrier(self) -> bool:
        """Whether it stands for barriers."""
        return self.kind != "risk"

    @property
    def larger_is_safer(self) -> bool:
        """Whether more of it is less risk."""
        return self.kind in ("return", "room")

    def point(self, solution: Solution) -> float | None:
        """The figure, negative where more of it is safer: steps towards safety lower it."""
        value = self.value(solution)
        return -value if value is not None and self.larger_is_safer else value

    @property
    def change(self) -> str:
        """What a step towards safety brings."""
        return self.gain if self.is_barrier else "risk removed"

    @property
    def gain(self) -> str:
        """What a step towards safety brings, in words: more or less of it."""
        return f"{'more' if self.larger_is_safer else 'less'} {self.name}"

    @property
    def one_unit(self) -> str:
        """The unit that a price is for."""
        return "percentage point" if self.is_share else "unit of risk" if not self.is_barrier else "unit"

    def value(self, solution: Solution) -> float | None:
        """The figure of a policy; None where it is not known."""
        return self.of(barrier_requirements(solution)) if self.is_barrier else shown_risk(solution)

    def of(self, asked: Sequence[Requirement]) -> float | None:
        """The figure of barriers, from what is reached of their requirements."""
        if not asked:
            return None
        if self.is_share:
            return max(0.0, 1 - asked[0].reached)
        return asked[0].reached if self.kind == "return" else min(one.reached - one.limit for one in asked)

    def text(self, value: float | None, digits: int = 6) -> str:
        """A value of it, with its sign."""
        if value is None or not self.is_share:
            return number(value, digits)
        return f"{number(100 * value, min(digits, 4))} %"

    def price(self, price: float | None) -> float | None:
        """A price per unit, per percentage point where it is a share."""
        return price / 100 if self.is_share and price is not None else price


PLAIN_RISK = RiskFigure("risk", "risk")


def risk_figure(solutions: Iterable[Solution]) -> RiskFigure:
    """What to show of the risk of solutions that have the same one."""
    shown = list(solutions)
    labels = [one.risk_label if one.problem is None else one.problem.risk_label for one in shown]
    label = next((one for one in labels if one not in ("none", "")), "none")
    found = next((asked for one in shown if (asked := barrier_requirements(one))), [])
    return figure_of(label, found, shown[0].mdp) if shown else PLAIN_RISK


def figure_of(label: str, found: Sequence[Requirement], mdp: MDP) -> RiskFigure:
    """What to show of the risk with this label, whose barriers have these requirements."""
    if not is_barrier_label(label) or not found:
        return RiskFigure("risk", label)
    if len(found) > 1:
        return RiskFigure("room", "room to the tightest requirement")
    (only,) = found
    return RiskFigure("time outside", _outside(only, mdp)) if only.is_share else RiskFigure("return", only.plain_name)


def _outside(asked: Requirement, mdp: MDP) -> str:
    """What the time outside a safe set is called: by the names of the other states, where there are few."""
    inside = set(() if asked.states is None else asked.states)
    others = [state for state in range(mdp.n_states) if state not in inside]
    if not inside or len(others) > MAX_STATES_NAMED:
        return "time outside the safe states"
    return f"time in {', '.join(short(state_name(mdp, state)) for state in others)}"
