"""The problem and the witness of a solution as plain data, for ``solution.save(path, witness=True)``.

A reader needs nothing else to check the proof: see ``cautious.verification``. Only the risks of this package can be
written, because a risk of the user's may hold functions.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from cautious.arrays import Array
from cautious.certificate.bounds import Box, Conflict, Cover, Witness
from cautious.checks import state_sums_of
from cautious.errors import IncompatibleError
from cautious.models.tabular import MDP
from cautious.problem import Problem
from cautious.risks.base import Risk, terms_of
from cautious.risks.divergence import Entropy
from cautious.risks.features import PeakExposure, SafeSet, TaskFloors, WorstTask
from cautious.risks.matrix_transport import MatrixTransport
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
    """The problem and what the upper bound rests on; ``occupancy`` (S, A) is that of the delivered policy."""
    header: dict[str, Any] = {"caution": problem.caution, "terms": [], "boxes": 0, "conflict": False}
    arrays: dict[str, Any] = {}
    for number, (weight, unbound, bound) in enumerate(_terms(problem)):
        numbers, tables = _data(unbound, bound, problem.mdp, occupancy)
        header["terms"].append({"kind": type(unbound).__name__, "weight": weight, **numbers})
        arrays |= {f"term{number}.{name}": table for name, table in tables.items()}
    if isinstance(witness, Conflict):
        header["conflict"] = True
        arrays |= {"conflict.weights": witness.weights, "conflict.multipliers": witness.multipliers}
    elif boxes := _boxes_that_prove(problem, witness):
        header["boxes"] = len(boxes)
        arrays |= _boxes(problem, boxes)
    return StoredProof(header, {f"proof.{name}": np.asarray(array) for name, array in arrays.items()})


def _terms(problem: Problem) -> list[tuple[float, Risk, Risk]]:
    """Weight, recipe and bound form of every term that counts."""
    if problem.neutral or problem.unbound_risk is None or problem.risk is None:
        return []
    found = []
    recipes = [(weight, risk) for weight, risk in terms_of(problem.unbound_risk) if weight > 0]
    for (weight, unbound), (_, bound) in zip(recipes, terms_of(problem.risk), strict=True):
        if type(unbound) not in PUBLIC_RISKS.values():
            raise IncompatibleError(
                f"{unbound.label} is a risk of your own, and its code is not part of a file: a solution with it cannot "
                "be verified, nor saved with witness=True; the risks of cautious can be"
            )
        if problem.caution * weight > 0:
            found.append((weight, unbound, bound))
    return found


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
        case CVaR():
            return {"level": float(unbound.level)}, {}
        case Wasserstein():
            x = state_sums_of(occupancy)
            return {}, {"prior": bound.prior, "tree": bound.plan_tree(x / x.sum()), **_metric(bound)}
        case Variance() | Entropy():
            return {}, {}
        case _:
            return {}, {"prior": bound.prior}


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
    for place, term in enumerate(problem.parts.without_scalars):
        lines = [_full(term.risk, problem, box.witness.cuts[place]) for box in boxes]
        arrays[f"boxes.line{term.number}"] = np.array(lines)
    return arrays


def _rest(witness: Witness) -> Array:
    """What is to be added to the multipliers."""
    return np.zeros_like(witness.multipliers) if witness.rest is None else witness.rest


def _full(risk: Risk, problem: Problem, given: Any) -> Array:
    """What a witness says of a risk; slopes, which it has for the active entries alone, as the line has them."""
    if not isinstance(risk, SeparableRisk):
        return _floats(given)
    slope = risk.cut(given, problem.active_pairs).slope
    return slope[:, 0] if risk.on_states else slope
