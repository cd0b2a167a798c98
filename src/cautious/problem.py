"""``Problem``: maximise  <d, r> / (1 - gamma)  -  caution * risk(d)  over the occupancies of the model's policies.

With constraints, over those occupancies that keep all of them.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property

import numpy as np

from cautious.arrays import Array, Mask
from cautious.checks import as_number, is_listable
from cautious.errors import IncompatibleError, InputError, shown
from cautious.horizons.total import refuse_endless
from cautious.horizons.visits import over_time
from cautious.models.encodings import LARGEST_RETURN
from cautious.models.horizons import AVERAGE, TOTAL, Horizon, as_horizon, require_room
from cautious.models.tabular import MDP
from cautious.occupancy import uniform_policy
from cautious.returns.plain import PlainPolicy
from cautious.risks.base import Constraint, Risk, Structure, Sum, UnboundRisk, terms_of
from cautious.risks.limits import Limit, bound_limit
from cautious.risks.measures import with_needed_memory
from cautious.risks.parts import Parts
from cautious.risks.returns import BoundReturnRisk, ReturnLimit, ReturnRisk, split_limits
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
    horizon
        None: discounted, for ever. A number of steps. "average": the reward of a step, in the long run. "total": until
        an absorbing state without rewards.

    Examples
    --------
    >>> import cautious as ca
    >>> problem = ca.Problem(ca.worlds.river_swim(), ca.Variance(), caution=2.0)
    >>> problem.neutral
    False
    """

    # what ca.solve looks for unless it is told; a problem file can say it
    deterministic = False
    memory = True

    def __init__(
        self,
        mdp: MDP,
        risk: Risk | None = None,
        caution: float = 1.0,
        constraints: Sequence[Constraint] = (),
        horizon: Horizon = None,
    ) -> None:
        if not isinstance(mdp, MDP):
            raise IncompatibleError(f"a problem needs a ca.MDP as its model, found {type(mdp).__name__}")
        mdp = mdp.with_horizon(as_horizon(horizon, mdp.discount))
        require_room(mdp.horizon, mdp.shape)
        if isinstance(risk, type) and issubclass(risk, Risk):
            raise IncompatibleError(f"risk is the class {risk.__name__}; make one: ca.{risk.__name__}(...)")
        if risk is not None and not isinstance(risk, Risk):
            raise IncompatibleError(f"risk must be a ca.Risk or None, found {type(risk).__name__}")
        caution = as_number("caution", caution, 0.0)
        constraints = listed_constraints(constraints)
        measures = [constraint.measure for constraint in constraints if isinstance(constraint, Constraint)]
        mdp = with_needed_memory(mdp, measures if risk is None else [risk, *measures])
        if mdp.horizon == TOTAL:
            refuse_endless(mdp)
        bound = None if risk is None else risk.bind(mdp)
        if risk is not None:
            _try_out(risk, bound, mdp)
            _refuse_idle_barriers(risk, caution)
            _refuse_shares((risk, bound), mdp)
        on_visits, on_returns = split_limits(constraints, bound, mdp)
        usable = Support(mdp, ()).active_pairs if measures else mdp.allowed
        limits = [bound_limit(constraint, mdp, usable) for constraint in on_visits]
        for limit in limits:
            _try_out(limit.measure, limit.measure, mdp)
            _refuse_shares((limit.source, limit.measure), mdp)
        self._set(
            mdp, risk, bound, caution, mdp.rewards, _weighted(bound, caution, [*limits, *on_returns]), None, constraints
        )
        if mdp.horizon == AVERAGE:
            # a model in which the start matters in the long run is refused before any work
            _ = self.support.kept

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
        terms = _weighted(self.risk, caution, [*self.limits, *(term.risk for term in self.parts.return_limits)])
        same = self.support.is_of([risk for _, risk in terms])
        other = object.__new__(Problem)
        support = self.support if same else None
        other._set(self.mdp, self.unbound_risk, self.risk, caution, self.reward, terms, support, self.constraints)
        other.deterministic, other.memory = self.deterministic, self.memory
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

    @cached_property
    def parts(self) -> Parts:
        """The terms sorted by structure."""
        return Parts(self.terms)

    @property
    def only_stationary(self) -> bool:
        """Whether some risk is not convex and no solver searches it globally, so that no bound is known."""
        return not all(term.risk.convex for term in self.parts.without_scalars) and not (
            self.parts.returns or self.parts.return_limits
        )

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
    def active_pairs(self) -> Mask:
        """Pairs (S, A) that are active, at any step of a finite horizon."""
        return self.support.active_pairs

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
        return np.where(self.active_states[..., None], policy, self.default_rows)

    def usable(self, policy: Array) -> bool:
        """Whether a policy of this model uses only kept pairs where it matters."""
        if policy.shape != self.mdp.occupancy_shape:
            return False
        usable = np.where(self.support.kept_states[..., None], self.kept, True)
        return not bool(np.any((policy > 0) & ~usable))

    def expected_return(self, d: Array) -> float:
        """<d, r> over the normaliser of the horizon, which is 1 - gamma for discounted returns."""
        return float(np.sum(over_time(d) * self.reward)) / self.mdp.normaliser

    def risk_value(self, d: Array) -> float:
        """The risk of an occupancy, before caution; 0 when risk-neutral."""
        return 0.0 if self.caution == 0 or self.risk is None else float(self.risk.value(over_time(d)))

    @property
    def _return_terms(self) -> list[tuple[float, BoundReturnRisk]]:
        """Weights and risks of the return, before caution."""
        terms = [] if self.risk is None else terms_of(self.risk)
        return [(weight, term) for weight, term in terms if isinstance(term, BoundReturnRisk)]

    @property
    def is_of_return(self) -> bool:
        """Whether the risk is one of the return, and so none of an occupancy."""
        return bool(self._return_terms)

    @property
    def return_risk(self) -> ReturnRisk | None:
        """The risk of the return, where there is one."""
        return next((term.of for _, term in self._return_terms), None)

    def risk_of_policy(self, policy: Array) -> float | None:
        """The risk of the return of a policy (S, A) or (T, S, A), before caution; None without such a risk."""
        if not self.is_of_return:
            return None
        played = PlainPolicy(self.mdp, policy)
        return sum(weight * term.of.of(played.followed)[1] for weight, term in self._return_terms)

    def objective(self, d: Array) -> float:
        """What is maximised."""
        return self.expected_return(d) - (self.caution * self.risk_value(d) if self.caution > 0 else 0.0)

    @property
    def risk_label(self) -> str:
        """What to call the risk."""
        return "none" if self.risk is None else self.risk.label

    def __repr__(self) -> str:
        horizon = "" if self.mdp.horizon is None else f", horizon={self.mdp.horizon!r}"
        return f"Problem({self.mdp!r}, risk={self.risk_label}, caution={self.caution:g}{horizon})"


def _refuse_idle_barriers(risk: Risk, caution: float) -> None:
    """Refuse a barrier at caution 0, which would not be required at all: a constraint is what is meant."""
    if caution > 0:
        return
    for _, term in terms_of(risk):
        if term.as_constraint is not None:
            raise InputError(
                f"{term.label} with caution 0 requires nothing; a limit that must be kept is a constraint: "
                f"ca.Problem(mdp, constraints=[{term.as_constraint}])"
            )


def _refuse_shares(risks: Sequence[Risk | None], mdp: MDP) -> None:
    """Refuse risks of shares of time with "total", where occupancies are expected visits."""
    if mdp.horizon != TOTAL:
        return
    for _, term in (term for risk in risks if risk is not None for term in terms_of(risk)):
        if term.of_shares:
            raise IncompatibleError(
                f"{term.label} is of the shares of time that a policy spends in pairs of states and actions; until the "
                'end (horizon="total") occupancies are expected visits, which have no fixed sum. ca.Exposure, '
                "ca.Return, ca.Reach, ca.PeakExposure, ca.WorstTask, ca.TaskFloors, ca.KL, ca.TotalVariation, "
                "ca.Quadratic and ca.Entropy can be asked"
            )


def _without_limits(terms: Sequence[tuple[float, Risk]]) -> list[tuple[float, Risk]]:
    return [(weight, term) for weight, term in terms if term.structure not in (Structure.LIMIT, Structure.RETURN_LIMIT)]


def listed_constraints(constraints: Iterable[Constraint]) -> tuple[Constraint, ...]:
    """All that were given; ``Problem`` looks at each of them later."""
    if isinstance(constraints, Constraint) or not is_listable(constraints):
        raise IncompatibleError(
            f"constraints must be a list like [ca.Exposure(states) <= 0.02], found {type(constraints).__name__}"
        )
    return tuple(constraints)


def _weighted(risk: Risk | None, caution: float, limits: Sequence[Limit | ReturnLimit]) -> list[tuple[float, Risk]]:
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
