"""Priors: demonstrations or earlier behaviour: an occupancy, a state distribution, a policy or a Solution."""

import math
from typing import Any, Protocol, runtime_checkable

import numpy as np

from cautious.arrays import Array
from cautious.checks import as_distribution, as_floats, check_nonnegative, sum_tolerance
from cautious.episodes.demonstrations import Demonstrations
from cautious.errors import IncompatibleError, InputError
from cautious.models.horizons import AVERAGE, TOTAL
from cautious.models.tabular import MDP
from cautious.occupancy import check_policy, policy_occupancy

# of a state that the policy of a prior visits: far above the least double, so that the shares of its actions are kept
LEAST_SHARE = 1e-200


@runtime_checkable
class HasPolicy(Protocol):
    """A Solution, or anything else that carries a policy (S, A)."""

    @property
    def policy(self) -> Array:
        """(S, A), rows sum to one."""
        ...


def resolve_prior(name: str, prior: Any, mdp: MDP) -> Array:
    """The prior as a distribution over pairs (S, A) or over states (S,), told apart by shape.

    (S, A) summing to one is an occupancy; (S, A) with every row summing to one is a policy, whose occupancy in this
    model is used, as is that of a Solution. Until the end ("total"), any other table is one of visits.
    """
    if isinstance(prior, Demonstrations):
        return _demonstrated(name, prior, mdp)
    if isinstance(prior, HasPolicy):
        _require_transitions(name, mdp)
        return _policy_prior(mdp, _solution_policy(name, prior, mdp))
    array = as_floats(name, prior)
    tolerance = sum_tolerance(getattr(prior, "dtype", np.float64))
    if mdp.horizon == TOTAL and array.shape == (mdp.n_states,):
        check_nonnegative(name, array)
        return array
    if array.shape == (mdp.n_states,):
        return as_distribution(name, prior, (mdp.n_states,), "(S,)")
    if array.shape != mdp.shape:
        raise InputError(f"{name} has shape {array.shape}; expected {mdp.shape} = (S, A) or ({mdp.n_states},) = (S,)")
    check_nonnegative(name, array)
    if np.all(np.abs(array.sum(axis=1) - 1) <= tolerance):
        _require_transitions(name, mdp)
        return _policy_prior(mdp, check_policy(mdp, prior))
    if mdp.horizon == TOTAL:
        return array
    total = float(array.sum())
    if abs(total - 1) > tolerance:
        raise InputError(
            f"{name} sums to {total:.12g}; an occupancy sums to 1 within {tolerance:g}, "
            "a policy has every row summing to 1"
        )
    return np.asarray(array / total)


def _policy_prior(mdp: MDP, policy: Array) -> Array:
    """The occupancy (S, A) of a policy, positive wherever the policy goes.

    Far from the start the shares of states fall below rounding, and are found as zero. A prior of zero would forbid
    these states, which the policy itself visits.
    """
    found = policy_occupancy(mdp, policy)
    if isinstance(mdp.horizon, int) or mdp.horizon == AVERAGE:
        # step by step nothing is lost; in the long run only some of the states that are reached count
        return found.pairs
    hardly = found.reached & (found.pairs.sum(axis=1) < LEAST_SHARE)
    if mdp.horizon == TOTAL:
        hardly &= ~mdp.ended
    return np.where(hardly[:, None], LEAST_SHARE * policy, found.pairs)


def _demonstrated(name: str, prior: Demonstrations, mdp: MDP) -> Array:
    """Demonstrations that were discounted as this model is."""
    found = prior.occupancy.shape
    if found not in (mdp.shape, mdp.shape[:1]):
        raise IncompatibleError(
            f"{name} holds demonstrations of shape {found}, made for another model; this one has the shape {mdp.shape}"
        )
    if not math.isclose(prior.discount, mdp.discount, rel_tol=0.0, abs_tol=1e-12):
        raise IncompatibleError(
            f"{name} holds demonstrations discounted by {prior.discount:g}, and this model is by {mdp.discount:g}: the "
            "demonstrator's own policy would be at a distance; make them again with ca.demonstrations(episodes, model, "
            "...), or give their array .occupancy if this is meant"
        )
    return prior.occupancy


def _require_transitions(name: str, mdp: MDP) -> None:
    if not mdp.known_transitions:
        raise IncompatibleError(
            f"{name} is a policy, and its occupancy cannot be computed while the model is only sampled; "
            'give the occupancy itself, or learn with method="plug-in"'
        )
    mdp.require_unchanged()


def resolve_state_prior(name: str, prior: Any, mdp: MDP) -> Array:
    """The prior as a distribution over states (S,); occupancies, policies and Solutions give their marginal."""
    array = resolve_prior(name, prior, mdp)
    return array if array.ndim == 1 else array.sum(axis=1)


def _solution_policy(name: str, prior: HasPolicy, mdp: MDP) -> Array:
    try:
        return check_policy(mdp, prior.policy)
    except InputError as error:
        raise InputError(f"{name}: the given solution does not fit this model: {error}") from None
