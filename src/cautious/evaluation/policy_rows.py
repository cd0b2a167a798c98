"""Which row of a policy belongs to which state: by name where both sides have names, else by position.

A Solution knows the model it was made for. The same states or actions in another order are put into the order of the
model at hand; other names mean another model, and are refused: its rows would say nothing about this one. Names that
are the numbers 0 to n-1 are positions.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cautious.errors import IncompatibleError
from cautious.models.simulators import Simulator, known_of
from cautious.models.tabular import MDP
from cautious.risks.priors import HasPolicy
from cautious.solution import Solution

SHOWN_NAMES = 6


def policy_table(policy: Any, model: MDP | Simulator) -> Any:
    """The policy (S, A) or (T, S, A), not yet checked, in the order of the model's states and actions."""
    if not isinstance(policy, HasPolicy):
        return policy
    if not isinstance(policy, Solution):
        return policy.policy
    here = model if isinstance(model, MDP) else known_of(model)
    states = _order("states", policy.mdp.state_names, here.state_names)
    actions = _order("actions", policy.mdp.action_names, here.action_names)
    table = policy.policy if states is None else policy.policy[..., states, :]
    return table if actions is None else table[..., actions]


def _order(what: str, made_for: Sequence[str] | None, wanted: Sequence[str] | None) -> Any:
    """Where each wanted name stands in the policy; None where positions are all there is, or all that is needed."""
    if made_for is None or wanted is None or tuple(made_for) == tuple(wanted):
        return None
    if _are_positions(made_for, wanted) or _are_positions(wanted, made_for):
        return None
    places = {name: place for place, name in enumerate(made_for)}
    if len(made_for) != len(wanted) or any(name not in places for name in wanted):
        raise IncompatibleError(
            f"the policy is for {what} {_some(made_for, wanted)}; this model has {_some(wanted, made_for)}"
        )
    return np.array([places[name] for name in wanted], dtype=np.int64)


def _are_positions(names: Sequence[str], others: Sequence[str]) -> bool:
    """Whether these are only numbers, as the states of a log of numbers, and the other model has real names."""
    numbered = len(names) == len(others) and all(name == str(place) for place, name in enumerate(names))
    return numbered and not all(name.isdecimal() for name in others)


def _some(names: Sequence[str], others: Sequence[str]) -> str:
    """The first few names; where there are more, those that the others do not have come first."""
    if len(names) <= SHOWN_NAMES:
        return ", ".join(names)
    known = set(others)
    shown = sorted(names, key=lambda name: name in known)[:SHOWN_NAMES]
    return f"{', '.join(shown)} and {len(names) - SHOWN_NAMES:,} more"
