"""What a policy is: a table, an action for each state, a Solution, or an agent; and which row belongs to which state.

Rows belong to states by name where both sides have names, else by position.

A Solution knows the model it was made for. The same states or actions in another order are put into the order of the
model at hand; other names mean another model, and are refused: its rows would say nothing about this one. Names that
are the numbers 0 to n-1 are positions.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from cautious.checks import as_array, axes_of, check_shape, first_bad
from cautious.errors import IncompatibleError, InputError
from cautious.evaluation.agents import Agent, is_agent
from cautious.models.gym_spaces import Spaces
from cautious.models.simulators import Simulator, known_of
from cautious.models.tabular import MDP
from cautious.risks.priors import HasPolicy
from cautious.solution import Solution

SHOWN_NAMES = 6


def policy_table(policy: Any, model: MDP | Simulator) -> Any:
    """The policy (S, A) or (T, S, A), not yet checked, in the order of the model's states and actions; or an agent."""
    if not isinstance(policy, Solution):
        if isinstance(policy, HasPolicy) and isinstance(policy.policy, np.ndarray | list):
            return policy.policy
        if is_agent(policy):
            return Agent(policy, model)
        return policy if axes_of(policy) != 1 else _one_action_each(policy, model)
    here = model if isinstance(model, MDP) else known_of(model)
    if isinstance(here.interface, Spaces) and policy.mdp.interface == here.interface:
        # the same environment, read in two ways: after an end it does not matter what is done
        rows = np.minimum(np.arange(model.n_states), policy.mdp.n_states - 1)
        return policy.policy[..., rows, :]
    states = _order("states", policy.mdp.state_names, here.state_names)
    actions = _order("actions", policy.mdp.action_names, here.action_names)
    table = policy.policy if states is None else policy.policy[..., states, :]
    return table if actions is None else table[..., actions]


def _one_action_each(actions: Any, model: MDP | Simulator) -> Any:
    """A policy that takes one action in each state, by their numbers (S,)."""
    chosen = as_array("policy", actions)
    check_shape("policy", chosen, (model.n_states,), "(S,), an action for each state")
    if not np.issubdtype(chosen.dtype, np.integer):
        raise InputError(f"policy must hold an action for each state, as whole numbers, found dtype {chosen.dtype}")
    bad = (chosen < 0) | (chosen >= model.n_actions)
    if bad.any():
        where = first_bad(bad)
        raise InputError(f"policy{list(where)} is {chosen[where]}; actions are numbered 0 to {model.n_actions - 1}")
    return np.eye(model.n_actions)[chosen]


def require_order_and_discount(solution: Solution, model: MDP | Simulator) -> None:
    """Refuse a model in which what a policy remembers of its rewards would mean something else."""
    here = model if isinstance(model, MDP) else known_of(model)
    for what, made_for, wanted in (
        ("states", solution.mdp.state_names, here.state_names),
        ("actions", solution.mdp.action_names, here.action_names),
    ):
        if _order(what, made_for, wanted) is not None:
            raise IncompatibleError(f"a policy with memory is evaluated with its {what} in their own order only")
    if float(model.discount) != solution.mdp.discount:
        raise IncompatibleError(
            f"the policy remembers rewards that are discounted by {solution.mdp.discount:g}, and this model has the "
            f"discount {float(model.discount):g}"
        )


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
