"""``Problem``: maximise  <d, r> / (1 - gamma)  -  caution * risk(d)  over the occupancies of the model's policies.

With constraints, over those occupancies that keep all of them.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from cautious.arrays import Array, Mask
from cautious.checks import as_number, is_listable, states_of
from cautious.errors import IncompatibleError, InputError, shown
from cautious.models.encodings import LARGEST_RETURN
from cautious.models.tabular import MDP
from cautious.occupancy import uniform_policy
from cautious.risks.base import Constraint, Risk, Structure, Sum, UnboundRisk, terms_of
from cautious.risks.features import SafeSet, TaskFloors
from cautious.risks.limits import Limit, bound_limit
from cautious.risks.parts import Parts
from cautious.support import Support


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
    constraints
        Comparisons of measures with numbers: ``ca.Exposure(states) <= 0.02``, ``ca.Return(rewards) >= 40``, and
        ``risk <= bound`` for any convex risk. Every delivered policy keeps all of them.

    Examples
    --------
    >>> import cautious as ca
    >>> problem = ca.Problem(ca.worlds.river_swim(), ca.Variance(), caution=2.0)
    >>> problem.neutral
    False
    """

    def __init__(
        self, mdp: MDP, risk: Risk | None = None, caution: float = 1.0, constraints: Sequence[Constraint] = ()
    ) -> None:
        if not isinstance(mdp, MDP):
            raise IncompatibleError(f"a problem needs a ca.MDP as its model, found {type(mdp).__name__}")
        if isinstance(risk, type) and issubclass(risk, Risk):
            raise IncompatibleError(f"risk is the class {risk.__name__}; make one: ca.{risk.__name__}(...)")
        if risk is not None and not isinstance(risk, Risk):
            raise IncompatibleError(f"risk must be a ca.Risk or None, found {type(risk).__name__}")
        caution = as_number("caution", caution, 0.0)
        bound = None if risk is None else risk.bind(mdp)
        if risk is not None:
            _try_out(risk, bound, mdp)
            _refuse_idle_barriers(risk, caution)
        if isinstance(constraints, Constraint) or not is_listable(constraints):
            raise IncompatibleError(
                f"constraints must be a list like [ca.Exposure(states) <= 0.02], found {type(constraints).__name__}"
            )
        limits = [bound_limit(constraint, mdp) for constraint in constraints]
        for limit in limits:
            _try_out(limit.measure, limit.measure, mdp)
        self._set(mdp, risk, bound, caution, mdp.rewards, _weighted(bound, caution, limits), None, constraints)

    def _set(
        self,
        mdp: MDP,
        unbound_risk: Risk | None,
        risk: Risk | None,
        caution: float,
        reward: Array,
        terms: Sequence[tuple[float, Risk]],
        support: Support | None,
        constraints: Sequence[Constraint] = (),
    ) -> None:
        self.mdp, self.unbound_risk, self.risk, self.caution, self.reward = mdp, unbound_risk, risk, caution, reward
        self.constraints = tuple(constraints)
        # (caution * weight, bound risk) of every term that counts, then (1, limit) of every constraint
        self.terms: tuple[tuple[float, Risk], ...] = tuple(terms)
        self.support = Support(mdp, [term for _, term in terms]) if support is None else support

    def with_caution(self, caution: float) -> "Problem":
        """The same model and bound risk with another caution."""
        caution = as_number("caution", caution, 0.0)
        terms = _weighted(self.risk, caution, self.limits)
        same = self.support.is_of([risk for _, risk in terms])
        other = object.__new__(Problem)
        support = self.support if same else None
        other._set(self.mdp, self.unbound_risk, self.risk, caution, self.reward, terms, support, self.constraints)
        return other

    def part(self, reward: Array, terms: Sequence[tuple[float, Risk]], own_support: bool = False) -> "Problem":
        """The same model with another reward table (S, A) and fewer terms; the same active pairs, or their own."""
        inner = object.__new__(Problem)
        risk = Sum(tuple(_without_limits(terms))) if terms else None
        inner._set(self.mdp, self.unbound_risk, risk, 1.0, reward, terms, None if own_support else self.support)
        return inner

    def on_pairs(self, pairs: Mask, terms: Sequence[tuple[float, Risk]]) -> "Problem":
        """The same model and rewards with fewer terms, and with these pairs (S, A) only."""
        inner = self.part(self.reward, terms)
        inner.support = Support(self.mdp, [risk for _, risk in terms], self.permitted & pairs)
        return inner

    def in_model(
        self, mdp: MDP, reward: Array, terms: Sequence[tuple[float, Risk]], support: Support | None = None
    ) -> "Problem":
        """The same caution in another model, with risks that are bound to it; its ``support`` where that is known."""
        other = object.__new__(Problem)
        # terms carry the caution
        risk = Sum(tuple((weight / self.caution, term) for weight, term in _without_limits(terms))) if terms else None
        other._set(mdp, self.unbound_risk, risk, self.caution, reward, terms, support)
        return other

    @property
    def neutral(self) -> bool:
        """True if the problem is risk-neutral and has no constraints."""
        return not self.terms

    @property
    def limits(self) -> list[Limit]:
        """The constraints in this model, in their order."""
        return [term.risk for term in self.parts.limits]

    def limit_of(self, number: int) -> Limit | None:
        """The limit that is the term of this number; None if the term is a risk."""
        risk = self.terms[number][1]
        return risk if isinstance(risk, Limit) else None

    @cached_property
    def parts(self) -> Parts:
        """The terms sorted by structure."""
        return Parts(self.terms)

    @property
    def only_stationary(self) -> bool:
        """Whether a risk is neither convex nor a minimum over a scalar, so that no bound over all policies is known."""
        return not all(term.risk.convex for term in self.parts.without_scalars)

    @property
    def permitted(self) -> Mask:
        """Pairs (S, A) that exist and have finite risk."""
        return self.support.permitted

    @property
    def kept(self) -> Mask:
        """The largest set of permitted pairs with which one can go on for ever."""
        return self.support.kept

    @property
    def active(self) -> Mask:
        """Allowed state-action pairs in reachable states, without those of infinite risk."""
        return self.support.active

    @property
    def active_states(self) -> Mask:
        """States (S,) with active pairs."""
        return self.support.active_states

    @property
    def trapped(self) -> int | None:
        """A start state from which a forbidden pair is unavoidable, or None."""
        return self.support.trapped

    @property
    def default_rows(self) -> Array:
        """Policy rows (S, A) of states that are never visited."""
        return self.support.default_rows

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
        return 0.0 if self.caution == 0 or self.risk is None else float(self.risk.value(d))

    def objective(self, d: Array) -> float:
        """What is maximised."""
        return self.expected_return(d) - (self.caution * self.risk_value(d) if self.caution > 0 else 0.0)

    @property
    def risk_label(self) -> str:
        """What to call the risk."""
        return "none" if self.risk is None else self.risk.label

    def __repr__(self) -> str:
        return f"Problem({self.mdp!r}, risk={self.risk_label}, caution={self.caution:g})"


def _refuse_idle_barriers(risk: Risk, caution: float) -> None:
    """Without caution a barrier would leave its requirement out of the problem: a constraint is what is meant."""
    if caution > 0:
        return
    for _, term in terms_of(risk):
        if isinstance(term, SafeSet):
            example = f"ca.Exposure(states) >= {1 - float(term.slack):g}"
        elif isinstance(term, TaskFloors):
            example = "ca.Return(task_rewards[j]) >= floors[j] for every j"
        else:
            continue
        raise InputError(
            f"{term.label} with caution 0 requires nothing; a limit that must be kept is a constraint: "
            f"ca.Problem(mdp, constraints=[{example}])"
        )


def _without_limits(terms: Sequence[tuple[float, Risk]]) -> list[tuple[float, Risk]]:
    return [(weight, term) for weight, term in terms if term.structure is not Structure.LIMIT]


def _weighted(risk: Risk | None, caution: float, limits: Sequence[Limit]) -> list[tuple[float, Risk]]:
    """The weighted terms that count, and the limits."""
    terms = () if risk is None or caution == 0 else terms_of(risk)
    for weight, term in terms:
        with np.errstate(over="ignore"):
            size = np.float64(caution) * weight * max(term.typical_slope, 1.0)
        if not size <= LARGEST_RETURN:
            raise InputError(
                f"caution {caution:g} times {term.label} can exceed {LARGEST_RETURN:g}, beyond double precision; take "
                "less caution, or rescale rewards and risk"
            )
    counted = [(caution * weight, term) for weight, term in terms if caution * weight > 0]
    return [*counted, *((1.0, limit) for limit in limits)]


def _try_out(unbound: Risk, risk: object, mdp: MDP) -> None:
    """A user's own risk is called once, so that a wrong shape is found before any work."""
    if not isinstance(risk, Risk):
        raise IncompatibleError(f"{unbound.label}.bind returned {shown(risk)}; it must return a ca.Risk")
    for _, term in terms_of(risk):
        if isinstance(term, UnboundRisk):
            raise IncompatibleError(f"{term.label}.bind returned another risk that must be bound first")
        if type(term).__module__.startswith("cautious."):
            continue
        d = uniform_policy(mdp.allowed) / mdp.n_states
        value, gradient = term.value(d), np.asarray(term.gradient(d))
        number = np.asarray(value)
        if number.ndim != 0 or not np.issubdtype(number.dtype, np.number) or np.isnan(number):
            raise IncompatibleError(f"{term.label}.value must return a number, found {shown(value)}")
        if gradient.shape != mdp.shape:
            raise IncompatibleError(f"{term.label}.gradient has shape {gradient.shape}; expected {mdp.shape} = (S, A)")
        if np.isfinite(number) and not np.isfinite(gradient[mdp.allowed]).all():
            raise IncompatibleError(f"{term.label}.gradient is not finite at the uniform occupancy")
