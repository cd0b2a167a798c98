"""``Problem``: maximise  <d, r> / (1 - gamma)  -  caution * risk(d)  over the occupancies of the model's policies."""

from collections.abc import Sequence
from copy import copy
from functools import cached_property

import numpy as np

from cautious._core.rows import keep_safe
from cautious.arrays import Array, Mask
from cautious.checks import as_number, states_of
from cautious.errors import IncompatibleError
from cautious.models.tabular import MDP
from cautious.occupancy import uniform_policy
from cautious.risks.base import Risk, ScalarRisk, Sum, UnboundRisk, terms_of


class Problem:
    """A model, a risk and how much caution; the risk is bound to the model here, once.

    Parameters
    ----------
    mdp
        The model.
    risk
        Any ``ca.Risk``; None is risk-neutral.
    caution
        How many units of return one unit of risk is worth; at least 0.

    Examples
    --------
    >>> import cautious as ca
    >>> problem = ca.Problem(ca.worlds.river_swim(), ca.Variance(), caution=2.0)
    >>> problem.neutral
    False
    """

    def __init__(self, mdp: MDP, risk: Risk | None = None, caution: float = 1.0) -> None:
        if not isinstance(mdp, MDP):
            raise IncompatibleError(f"a problem needs a ca.MDP as its model, found {type(mdp).__name__}")
        if isinstance(risk, type) and issubclass(risk, Risk):
            raise IncompatibleError(f"risk is the class {risk.__name__}; make one: ca.{risk.__name__}(...)")
        if risk is not None and not isinstance(risk, Risk):
            raise IncompatibleError(f"risk must be a ca.Risk or None, found {type(risk).__name__}")
        self.mdp = mdp
        self.caution = as_number("caution", caution, 0.0)
        self.unbound_risk = risk
        self.risk: Risk | None = None if risk is None else risk.bind(mdp)
        if risk is not None:
            _try_out(risk, self.risk, mdp)
        self.reward: Array = mdp.rewards
        self.terms: tuple[tuple[float, Risk], ...] = self._weighted()

    def _weighted(self) -> tuple[tuple[float, Risk], ...]:
        """(caution * weight, bound risk) of every term that counts."""
        terms = () if self.risk is None or self.caution == 0 else terms_of(self.risk)
        weighted = ((self.caution * weight, term) for weight, term in terms)
        return tuple((weight, term) for weight, term in weighted if weight > 0)

    def with_caution(self, caution: float) -> "Problem":
        """The same model and bound risk with another caution."""
        other = copy(self)
        other.caution = as_number("caution", caution, 0.0)
        other.terms = other._weighted()
        if [id(risk) for _, risk in other.terms] != [id(risk) for _, risk in self.terms]:
            # which pairs are permitted depends on the risks that count, not on how much they do
            for derived in ("permitted", "kept", "active", "active_states", "trapped", "default_rows"):
                other.__dict__.pop(derived, None)
        return other

    def part(self, reward: Array, terms: Sequence[tuple[float, Risk]]) -> "Problem":
        """The same model and the same active pairs with another reward table (S, A) and fewer terms."""
        inner = copy(self)
        # found once here, and not by every part
        for derived in ("kept", "active", "trapped", "active_states", "default_rows"):
            inner.__dict__[derived] = getattr(self, derived)
        inner.reward, inner.terms = reward, tuple(terms)
        inner.risk, inner.caution = Sum(tuple(terms)) if terms else None, 1.0
        return inner

    def surveyed(self) -> "Problem":
        """Itself, having looked which pairs count: ``with_caution`` hands that on."""
        for derived in ("trapped", "active_states", "default_rows"):
            getattr(self, derived)
        return self

    @property
    def neutral(self) -> bool:
        """Whether risk plays no part."""
        return not self.terms

    @property
    def only_stationary(self) -> bool:
        """Whether a risk is neither convex nor a minimum over a scalar, so that no bound over all policies is known."""
        return not all(risk.convex or isinstance(risk, ScalarRisk) for _, risk in self.terms)

    @cached_property
    def permitted(self) -> Mask:
        """Pairs (S, A) that exist and have finite risk."""
        masks = [mask for _, risk in self.terms if (mask := risk.permitted()) is not None]
        if not masks:
            return self.mdp.allowed
        return np.asarray(np.logical_and.reduce([self.mdp.allowed, *masks]), dtype=np.bool_)

    @cached_property
    def kept(self) -> Mask:
        """The largest set of permitted pairs with which one can go on for ever."""
        if self.permitted is self.mdp.allowed or np.array_equal(self.permitted, self.mdp.allowed):
            return self.mdp.allowed
        if self.mdp.discount == 0:
            # nothing after the first step counts
            return self.permitted
        indptr, indices, _ = self.mdp.csr
        return keep_safe(indptr, indices, self.permitted.ravel(), self.mdp.n_states).reshape(self.mdp.shape)

    @cached_property
    def active(self) -> Mask:
        """Kept pairs of the states that can be reached with kept pairs, the support of every occupancy that counts."""
        if self.mdp.discount == 0:
            counts = self.mdp.start > 0
        else:
            counts = self.mdp.visitable if self.kept is self.mdp.allowed else self.mdp.reachable(self.kept)
        return self.kept if counts.all() else self.kept & counts[:, None]

    @cached_property
    def trapped(self) -> int | None:
        """A start state from which a forbidden pair is unavoidable, or None."""
        if self.kept is self.mdp.allowed:
            # every state has an allowed pair
            return None
        stuck = (self.mdp.start > 0) & ~states_of(self.kept)
        return int(np.argmax(stuck)) if stuck.any() else None

    @cached_property
    def default_rows(self) -> Array:
        """Policy rows (S, A) of states that are never visited: uniform over kept, else over allowed actions."""
        usable = np.where(states_of(self.kept)[:, None], self.kept, self.mdp.allowed)
        return uniform_policy(np.asarray(usable, dtype=np.bool_))

    @cached_property
    def active_states(self) -> Mask:
        """States (S,) with active pairs."""
        if self.active is self.mdp.allowed:
            return np.ones(self.mdp.n_states, np.bool_)
        return states_of(self.active)

    def completed(self, policy: Array) -> Array:
        """A policy for the active states, with the documented rows elsewhere."""
        if self.active_states.all():
            return policy
        return np.where(self.active_states[:, None], policy, self.default_rows)

    def usable(self, policy: Array) -> bool:
        """Whether a policy of this model uses only kept pairs where it matters."""
        usable = np.where(states_of(self.kept)[:, None], self.kept, True)
        return policy.shape == self.mdp.shape and not bool(np.any((policy > 0) & ~usable))

    def expected_return(self, d: Array) -> float:
        """<d, r> / (1 - gamma)."""
        return float(np.sum(d * self.reward)) / (1 - self.mdp.discount)

    def risk_value(self, d: Array) -> float:
        """The risk of an occupancy, before caution; 0 when risk-neutral."""
        return 0.0 if self.neutral or self.risk is None else float(self.risk.value(d))

    def objective(self, d: Array) -> float:
        """What is maximised."""
        return self.expected_return(d) - (0.0 if self.neutral else self.caution * self.risk_value(d))

    @property
    def risk_label(self) -> str:
        """What to call the risk."""
        return "none" if self.risk is None else self.risk.label

    def __repr__(self) -> str:
        return f"Problem({self.mdp!r}, risk={self.risk_label}, caution={self.caution:g})"


def _try_out(recipe: Risk, risk: object, mdp: MDP) -> None:
    """A user's own risk is called once, so that a wrong shape is found before any work."""
    if not isinstance(risk, Risk):
        raise IncompatibleError(f"{recipe.label}.bind returned {risk!r}; it must return a ca.Risk")
    for _, term in terms_of(risk):
        if isinstance(term, UnboundRisk):
            raise IncompatibleError(f"{term.label}.bind returned another recipe instead of a risk to compute with")
        if type(term).__module__.startswith("cautious."):
            continue
        d = uniform_policy(mdp.allowed) / mdp.n_states
        value, gradient = term.value(d), np.asarray(term.gradient(d))
        number = np.asarray(value)
        if number.ndim != 0 or not np.issubdtype(number.dtype, np.number) or np.isnan(number):
            raise IncompatibleError(f"{term.label}.value must return a number, found {value!r}")
        if gradient.shape != mdp.shape:
            raise IncompatibleError(f"{term.label}.gradient has shape {gradient.shape}; expected {mdp.shape} = (S, A)")
        if np.isfinite(number) and not np.isfinite(gradient[mdp.allowed]).all():
            raise IncompatibleError(f"{term.label}.gradient is not finite at the uniform occupancy")
