"""The problem and the witness of a solution as plain data, for ``solution.save(path, witness=True)``.

A reader needs nothing else to check the proof: see ``cautious.verification``. Only the risks of this package can be
written, because a risk of the user's may hold functions. A linear measure is written as tables and their weights; a
limit as a bound from above on such terms, so that ``measure >= bound`` is a bound on the measure with negative weights.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from cautious.arrays import Array
from cautious.certificate.bounds import Box, Conflict, Cover, Witness, requirement_rows
from cautious.checks import state_sums_of
from cautious.errors import IncompatibleError
from cautious.models.encodings import row_of_entries
from cautious.models.tabular import MDP
from cautious.problem import Problem
from cautious.risks.base import Constraint, Risk, terms_of
from cautious.risks.divergence import Entropy
from cautious.risks.features import PeakExposure, SafeSet, TaskFloors, WorstTask
from cautious.risks.limits import Limit, LimitWitness
from cautious.risks.matrix_transport import MatrixTransport
from cautious.risks.measures import LinearMeasure, parts_of
from cautious.risks.public import PUBLIC_RISKS
from cautious.risks.scalar import CVaR, Variance
from cautious.risks.separable import SeparableRisk
from cautious.risks.transport import GraphTransport
from cautious.risks.wasserstein import Wasserstein


@dataclass(frozen=True)
class StoredProof:
    """``header`` and ``arrays`` of the part of a file that holds problem and witness."""

    header: Mapping[str, Any]
    arrays: Mapping[str, Any] = field(repr=False)


def stored_proof(problem: Problem, witness: Witness | Cover | Conflict | None, occupancy: Array) -> StoredProof:
    """The problem and what the upper bound rests on; ``occupancy`` (S, A) is that of the delivered policy, summed over
    the steps of a finite horizon.
    """
    header: dict[str, Any] = {"caution": problem.caution, "terms": [], "limits": [], "boxes": 0, "conflict": False}
    arrays: dict[str, Any] = {}
    for number, (weight, unbound, bound) in enumerate(_terms(problem)):
        entry, tables = _entry(f"term{number}.", weight, unbound, bound, problem.mdp, occupancy)
        header["terms"].append(entry)
        arrays |= tables
    for number, (constraint, limit) in enumerate(zip(problem.constraints, problem.limits, strict=True)):
        entry, tables = _limit(f"limit{number}.", constraint, limit, problem.mdp, occupancy)
        header["limits"].append(entry)
        arrays |= tables
    if isinstance(witness, Conflict):
        header["conflict"] = True
        arrays |= _conflict(problem, witness)
    elif boxes := _boxes_that_prove(problem, witness):
        header["boxes"] = len(boxes)
        arrays |= _boxes(problem, boxes)
    return StoredProof(header, {f"proof.{name}": np.asarray(array) for name, array in arrays.items()})


def _terms(problem: Problem) -> list[tuple[float, Risk, Risk]]:
    """Weight, recipe and bound form of every term that counts."""
    if problem.neutral or problem.unbound_risk is None or problem.risk is None:
        return []
    found = _recipes(problem.unbound_risk, problem.risk)
    return [(weight, unbound, bound) for weight, unbound, bound in found if problem.caution * weight > 0]


def _recipes(unbound_risk: Risk, risk: Risk) -> list[tuple[float, Risk, Risk]]:
    """Weight, recipe and bound form of the terms of a risk; only those of this package can be written."""
    recipes = [(weight, unbound) for weight, unbound in terms_of(unbound_risk) if weight > 0]
    for _, unbound in recipes:
        if type(unbound) not in PUBLIC_RISKS.values() and not isinstance(unbound, LinearMeasure):
            raise IncompatibleError(
                f"{unbound.label} is a risk of your own, and its code is not part of a file: a solution with it cannot "
                "be verified, nor saved with witness=True; the risks of cautious can be"
            )
    return [(weight, unbound, bound) for (weight, unbound), (_, bound) in zip(recipes, terms_of(risk), strict=True)]


def _entry(
    prefix: str, weight: float, unbound: Risk, bound: Risk, mdp: MDP, occupancy: Array
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A term in the header, and its arrays."""
    numbers, tables = _data(unbound, bound, mdp, occupancy)
    kind = "Linear" if isinstance(unbound, LinearMeasure) else type(unbound).__name__
    return {"kind": kind, "weight": weight, **numbers}, {prefix + name: table for name, table in tables.items()}


def _limit(
    prefix: str, constraint: Constraint, limit: Limit, mdp: MDP, occupancy: Array
) -> tuple[dict[str, Any], dict[str, Any]]:
    """A limit in the header, and the arrays of its terms; the bound is from above."""
    header: dict[str, Any] = {"name": limit.name, "bound": limit.bound, "terms": []}
    arrays: dict[str, Any] = {}
    measure = constraint.measure
    if limit.sign < 0:
        assert isinstance(measure, LinearMeasure)
        measure = -measure
    for number, (weight, unbound, bound) in enumerate(_recipes(measure, limit.measure)):
        entry, tables = _entry(f"{prefix}term{number}.", weight, unbound, bound, mdp, occupancy)
        header["terms"].append(entry)
        arrays |= tables
    return header, arrays


def _data(unbound: Any, bound: Any, mdp: MDP, occupancy: Array) -> tuple[dict[str, float], dict[str, Any]]:
    """Numbers and arrays of a risk, as the user gave them; priors as they were resolved in the model."""
    match unbound:
        case SafeSet():
            return {"slack": float(unbound.slack)}, {"states": mdp.state_indices("SafeSet.states", unbound.states)}
        case TaskFloors():
            return {}, {"task_rewards": _floats(unbound.task_rewards), "floors": np.atleast_1d(_floats(unbound.floors))}
        case PeakExposure():
            groups = [mdp.state_indices("PeakExposure.sets", one) for one in unbound.sets]
            return {}, {"sets": np.array([np.isin(np.arange(mdp.n_states), group) for group in groups])}
        case WorstTask():
            return {}, {"task_rewards": _floats(unbound.task_rewards)}
        case LinearMeasure():
            weights, measures = zip(*parts_of(unbound), strict=True)
            starting = np.array([measure.counted_at_start(mdp) for measure in measures])
            paid = np.array([measure.is_sum for measure in measures])
            tables = {"tables": _tables(measures, mdp), "paid": paid, "starting": starting}
            return {}, {"weights": np.array(weights), **tables}
        case CVaR():
            return {"level": float(unbound.level)}, {}
        case Wasserstein():
            x = state_sums_of(occupancy)
            return {}, {"prior": bound.prior, "tree": bound.plan_tree(x / x.sum()), **_metric(bound)}
        case Variance() | Entropy():
            return {}, {}
        case _:
            return {}, {"prior": bound.prior}


def _tables(measures: Sequence[LinearMeasure], mdp: MDP) -> Array:
    """What measures count: (k, S, A), or (k, nnz) by outcome if one depends on it, because means round."""
    outcomes = [measure.by_outcome(mdp) for measure in measures]
    if all(one is None for one in outcomes):
        return np.array([measure.table(mdp) for measure in measures])
    rows = row_of_entries(mdp.transitions)
    pairs = zip(measures, outcomes, strict=True)
    return np.array([measure.table(mdp).ravel()[rows] if one is None else one for measure, one in pairs])


def _floats(given: Any) -> Array:
    return np.asarray(given, dtype=np.float64)


def _metric(bound: MatrixTransport | GraphTransport) -> dict[str, Any]:
    if isinstance(bound, MatrixTransport):
        return {"distance": bound.distance}
    edges = sp.coo_array(sp.triu(bound.graph))
    return {"tails": edges.row, "heads": edges.col, "lengths": edges.data}


def _boxes_that_prove(problem: Problem, witness: Witness | Cover | None) -> tuple[Box, ...]:
    """The boxes of a proof; none if a run ended before all of them had a line for every convex term."""
    if isinstance(witness, Cover):
        boxes = witness.boxes
    elif witness is None or problem.parts.scalars:
        # a witness for all policies proves nothing beside scalars
        return ()
    else:
        boxes = (Box((), (), (), witness),)
    n_lines = len(problem.parts.without_scalars)
    return boxes if all(len(box.witness.cuts) == n_lines for box in boxes) else ()


def _boxes(problem: Problem, boxes: tuple[Box, ...]) -> dict[str, Any]:
    arrays: dict[str, Any] = {
        "boxes.lows": np.array([box.lows for box in boxes], dtype=np.float64),
        "boxes.highs": np.array([box.highs for box in boxes], dtype=np.float64),
        "boxes.at": np.array([box.at for box in boxes], dtype=np.float64),
        "boxes.multipliers": np.array([box.witness.multipliers for box in boxes], dtype=np.float64),
        "boxes.rest": np.array([_rest(box.witness) for box in boxes]),
    }
    number = 0
    for place, term in enumerate(problem.parts.without_scalars):
        cuts = [box.witness.cuts[place] for box in boxes]
        limit = problem.parts.limit_by_number.get(term.number)
        if limit is not None:
            arrays |= _priced(f"boxes.limit{number}.", limit, problem, cuts)
            number += 1
        else:
            arrays[f"boxes.line{term.number}"] = np.array([_full(term.risk, problem, cut) for cut in cuts])
    return arrays


def _priced(prefix: str, limit: Limit, problem: Problem, cuts: Sequence[LimitWitness]) -> dict[str, Any]:
    """Prices (K,) of a limit, and for every term of its measure the lines of K witnesses."""
    arrays: dict[str, Any] = {f"{prefix}price": np.array([max(float(cut.price), 0.0) for cut in cuts])}
    for number, (_, risk) in enumerate(terms_of(limit.measure)):
        lines = [_full(risk, problem, cut.lines[number]) for cut in cuts]
        arrays[f"{prefix}line{number}"] = np.array(lines)
    return arrays


def _conflict(problem: Problem, conflict: Conflict) -> dict[str, Any]:
    """Weights of the barriers' requirements, multipliers, and the price and lines of every limit."""
    weights = np.asarray(conflict.weights, dtype=np.float64)
    n_barrier_rows, rows = sum(term.risk.floors.size for term in problem.parts.barriers), requirement_rows(problem)
    arrays: dict[str, Any] = {
        "conflict.weights": weights[:n_barrier_rows],
        "conflict.multipliers": conflict.multipliers,
        "conflict.rest": _rest(conflict),
    }
    for number, term in enumerate(problem.parts.limits):
        limit = term.risk
        given = conflict.limits.get(term.number, limit.simple_witness(problem.active_pairs))
        if limit.barrier is not None:
            given = limit.witness_of(weights[rows[term.number]])
        arrays |= _priced(f"conflict.limit{number}.", limit, problem, [given])
    return arrays


def _rest(witness: Witness | Conflict) -> Array:
    """The low-order part of the multipliers; zeros if there is none."""
    return np.zeros_like(witness.multipliers) if witness.rest is None else witness.rest


def _full(risk: Risk, problem: Problem, given: Any) -> Array:
    """What a witness says of a risk; slopes, which it has for the active entries alone, as the line has them."""
    if not isinstance(risk, SeparableRisk):
        return _floats(given)
    slope = risk.cut(given, problem.active_pairs).slope
    return slope[:, 0] if risk.on_states else slope
