"""``ca.evaluate``: what a policy earns, episode by episode, next to the exact figures when the model is known.

What is evaluated follows the horizon of the policy: a Solution knows it, and so does a model that a problem with a
horizon sees. Episodes are simulated as long as the horizon says; where it says nothing, until later steps hardly count.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

import numpy as np

from cautious.arrays import Array, Mask
from cautious.checks import as_array, as_count, as_policy, as_seed, axes_of, is_listable
from cautious.errors import IncompatibleError, InputError, shown
from cautious.evaluation.agents import Agent, agent_table
from cautious.evaluation.policy_rows import policy_table, require_order_and_discount
from cautious.evaluation.quantiles import Stream
from cautious.evaluation.rollouts import Played, roll_out
from cautious.models.horizons import AVERAGE, TOTAL, Horizon, as_horizon
from cautious.models.scene import state_indices
from cautious.models.simulator_checks import check_members
from cautious.models.simulators import Simulator, known_of
from cautious.models.tabular import MDP
from cautious.occupancy import check_policy, policy_occupancy
from cautious.returns.earnings import earnings_of
from cautious.returns.forward import ReturnDistribution, follow
from cautious.returns.memory_policy import MemoryPolicy
from cautious.returns.moments import RELATIVE_ROUNDING, return_moments
from cautious.returns.plain import is_affordable, return_distribution
from cautious.runtime.executors import Workers, checked_executor
from cautious.solution import Solution

NEGLIGIBLE_SHARE = 1e-4
LONGEST_HORIZON = 100_000
LONGEST_ASKED = 10_000_000
MOST_EPISODES = 10_000_000_000
# episodes that are simulated side by side, from one generator
EPISODES_PER_BLOCK = 2**14
PERCENTS = (5, 25, 50, 75, 95)
# of the conditional value at risk of the return in tables and drawings
TAIL_LEVEL = 0.95
# bounds that differ by less than this share of the standard deviation are written as one number
SAME_SHARE = 1e-4
# steps of an episode whose mean reward stands for the long run
STEPS_OF_AVERAGE = 10_000


@dataclass(frozen=True)
class Evaluation:
    """What ``ca.evaluate`` returns; returns are sums of rewards, discounted if the model is.

    With ``criterion="average"`` the return of an episode is the mean reward of its steps.

    Attributes
    ----------
    returns
        Of the simulated episodes, (episodes,); of the first million (2^20), where there are more.
    mean, variance, standard_error
        Of these returns: mean, unbiased variance, standard error of the mean.
    quantiles
        Of these returns, by percent: 5, 25, 50, 75, 95; exact for up to a million episodes, beyond that from a sketch.
    quantile_intervals
        Where the quantiles of the return itself lie, with 95 % confidence each, whatever its law: order statistics of
        the returns, the error of the sketch included. An end is infinite where there are too few episodes for one.
    exposure
        Share of (discounted) time simulated in each named set; visits, if the criterion is "total".
    exact_mean, exact_variance, exact_exposure
        The same without simulation, and as the criterion says; None for simulators, whose model is not known. What is
        earned per step in the long run has no variance: ``exact_variance`` is None.
    horizon, truncation_error
        Episodes end after so many steps; what lies beyond can change a return by at most this. It is 0 if all episodes
        came to their end, and infinite where nothing bounds the rest.
    criterion
        What is evaluated: None is the discounted return for ever, a number the return of so many steps, "average" the
        reward of a step in the long run, "total" the reward until an absorbing state.
    episodes, seed, discount
        How it was simulated.
    computed_returns
        What ``exact_returns`` calls.

    Examples
    --------
    >>> import cautious as ca
    >>> mdp = ca.worlds.queue()
    >>> result = ca.evaluate(mdp, ca.solve(ca.Problem(mdp)), episodes=50, sets={"empty": [0]})
    >>> sorted(result.quantiles), list(result.exact_exposure)
    ([5, 25, 50, 75, 95], ['empty'])
    """

    mean: float
    variance: float
    standard_error: float
    quantiles: dict[int, float]
    returns: Array
    exposure: dict[str, float]
    horizon: int
    truncation_error: float
    episodes: int
    seed: int
    discount: float
    exact_mean: float | None = None
    exact_variance: float | None = None
    exact_exposure: dict[str, float] | None = None
    criterion: Horizon = None
    quantile_intervals: dict[int, tuple[float, float]] = field(default_factory=dict)
    computed_returns: Callable[[], ReturnDistribution] | None = field(default=None, repr=False, compare=False)

    @cached_property
    def exact_returns(self) -> ReturnDistribution | None:
        """How the return is distributed, without simulation; None where that is not known, or takes too long.

        Computed when it is asked for. ``solution.return_distribution()`` takes the time it takes.
        """
        return None if self.computed_returns is None else self.computed_returns()

    def table(self) -> list[tuple[str, float, float | tuple[float, float] | None]]:
        """Rows (what, simulated, exact) for printing; a pair are bounds, between which the exact figure is."""
        spread = None if self.exact_variance is None else math.sqrt(self.exact_variance)
        what = "return"
        if self.criterion == AVERAGE:
            what = "reward per step"
        rows: list[tuple[str, float, float | tuple[float, float] | None]] = [
            (f"mean {what}", self.mean, self.exact_mean),
            ("standard error of the mean", self.standard_error, None),
            (f"variance of the {what}", self.variance, self.exact_variance),
            (f"standard deviation of the {what}", math.sqrt(self.variance), spread),
        ]
        known = self.exact_returns
        for percent, value in self.quantiles.items():
            exactly = None if known is None else as_bounds(known, known.quantile(percent / 100))
            rows.append((f"{percent} % quantile of the {what}", value, exactly))
        if known is not None:
            worst = np.sort(self.returns)[: max(1, round(self.returns.size * (1 - TAIL_LEVEL)))]
            low, high = known.cvar(TAIL_LEVEL)
            name = f"mean of the worst {100 * (1 - TAIL_LEVEL):g} % of the {what}s"
            rows.append((name, float(worst.mean()), as_bounds(known, (-high, -low))))
        exact, spent = self.exact_exposure or {}, "visits to" if self.criterion == TOTAL else "time in"
        rows += [(f"{spent} {name}", share, exact.get(name)) for name, share in self.exposure.items()]
        return rows

    def __repr__(self) -> str:
        exact = "" if self.exact_mean is None else f", exact_mean={self.exact_mean:.8g}"
        return f"Evaluation(mean={self.mean:.8g} +- {self.standard_error:.2g}, episodes={self.episodes}{exact})"


def evaluate(
    mdp_or_simulator: MDP | Simulator,
    policy: Any,
    episodes: int = 100,
    horizon: Horizon = None,
    seed: int = 0,
    sets: Mapping[str, Any] | Sequence[Any] | None = None,
    executor: Executor | None = None,
) -> Evaluation:
    """Simulate a policy, and compute its exact figures when the model is known.

    Parameters
    ----------
    mdp_or_simulator
        A ``ca.MDP``, or anything with the members of ``ca.Simulator``.
    policy
        (S, A), rows sum to one; (S,), an action for each state; (T, S, A), a table for each step; or a Solution. Where
        the model of a Solution and this one both have names, states and actions are matched by name; an array is taken
        as it stands. Or an agent: anything with ``predict(observation)``, as of Stable-Baselines3, or a function of
        the observation, which is the number of the state, or what ``ca.from_gym``, ``ca.GymSimulator`` and
        ``ca.from_function`` made a state of. ``predict`` is asked with ``deterministic=True`` if it takes that, and is
        given back the memory that it returns. One that remembers, or answers differently when it is asked again, has no
        exact figures.
    episodes
        How many episodes; at least 2, so that there is a spread.
    horizon
        Steps per episode. A Solution of a problem with a horizon is evaluated as that horizon says, and so is a policy
        in ``problem.mdp``; for a policy of T tables it is T. Elsewhere a discount below 1 means the discounted return
        for ever, and episodes take by default the smallest h with gamma^h <= 1e-4 steps; with discount 1 the horizon
        must be given: a number of steps, "average" or "total". Episodes of "average" take 10,000 steps by default,
        those of "total" all it takes, at most 100,000.
    seed
        Same seed, same bytes.
    sets
        Named sets of states (a mapping, or a sequence that gets the names "set 0", ...), each as indices, a mask or,
        where they are known, state names; their share of discounted time is reported.
    executor
        Where episodes are simulated, 16,384 at a time: any ``concurrent.futures.Executor``. The same bytes come out for
        any number of workers, and without; memory does not grow with the episodes.

    Notes
    -----
    A model with rewards (S, A) and a ``reward_square`` does not say how its rewards are drawn: the episodes pay the
    averages, and the exact variance takes the reward of a step to be independent of the next state.

    Examples
    --------
    >>> import numpy as np, cautious as ca
    >>> coin = ca.MDP(np.full((2, 1, 2), 0.5), rewards=np.array([[0.0], [1.0]]), discount=0.5)
    >>> result = ca.evaluate(coin, np.ones((2, 1)), episodes=1000)
    >>> round(result.exact_mean, 12), round(result.exact_variance, 12)
    (1.0, 0.333333333333)
    """
    checked_executor(executor)
    episodes, seed = as_count("episodes", episodes, 2, MOST_EPISODES), as_seed(seed)
    if not isinstance(mdp_or_simulator, Simulator | MDP):
        raise IncompatibleError(
            f"ca.evaluate needs a ca.MDP or a simulator, found {type(mdp_or_simulator).__name__}; "
            "a simulator has n_states, n_actions, discount, reward_range, start_states and sample"
        )
    if isinstance(mdp_or_simulator, MDP) and not mdp_or_simulator.written_down:
        mdp_or_simulator = mdp_or_simulator.simulator()
    if isinstance(mdp_or_simulator, MDP):
        mdp_or_simulator.require_transitions("ca.evaluate")
        mdp_or_simulator = _with_memory(mdp_or_simulator, policy)
        simulator: Simulator = mdp_or_simulator.simulator()
    else:
        simulator = mdp_or_simulator
        check_members(simulator)
    given, gamma = policy_table(policy, mdp_or_simulator), float(simulator.discount)
    if isinstance(given, Agent) and isinstance(mdp_or_simulator, MDP):
        found = agent_table(given, mdp_or_simulator)
        # one that answers at random, or remembers, can only be simulated
        given = given if found is None else found
    criterion, length = _criterion(mdp_or_simulator, policy, given, horizon, gamma)
    mdp = mdp_or_simulator.with_horizon(criterion) if isinstance(mdp_or_simulator, MDP) else None
    table: Array | Agent
    if isinstance(given, Agent):
        table = given
    elif mdp is not None:
        table = check_policy(mdp, given)
    else:
        # which pairs are allowed only the simulator knows
        shape = (simulator.n_states, simulator.n_actions)
        table = as_policy(given, (length, *shape) if axes_of(given) == 3 else shape)
    masks = _set_masks(simulator if mdp is None else mdp, sets)
    exact: dict[str, Any] = {}
    memory = policy.memory_policy if isinstance(policy, Solution) else None
    if memory is not None:
        require_order_and_discount(policy, simulator if mdp is None else mdp)
    if mdp is not None and not isinstance(table, Agent):
        if memory is not None:
            followed = follow(earnings_of(mdp, memory.middle).with_steps(memory.n_steps), memory)
            exact["exact_mean"], exact["exact_variance"] = followed.returns.expectation, followed.returns.variance
            exact["computed_returns"] = partial(return_distribution, mdp, table, memory)
            states = followed.visits.pairs.sum(axis=1)
        else:
            exact["exact_mean"], exact["exact_variance"] = return_moments(mdp, table)
            if is_affordable(mdp, table):
                exact["computed_returns"] = partial(return_distribution, mdp, table)
            states = policy_occupancy(mdp, table).pairs.sum(axis=1) if masks else np.empty(0)
        exact["exact_exposure"] = {name: float(states[mask].sum()) for name, mask in masks.items()}
    ended = mdp.ended if mdp is not None and criterion == TOTAL else None
    returns, exposure, all_ended = Stream(), dict.fromkeys(masks, 0.0), True
    for played in _blocks(_Episodes(simulator, table, masks, seed, episodes, length, ended, memory), executor):
        returns.add(played.returns / length if criterion == AVERAGE else played.returns)
        all_ended &= played.all_ended
        for name, share in played.exposure.items():
            exposure[name] += share * (played.returns.size / episodes)
    largest = max(abs(returns.least), abs(returns.largest))
    variance = returns.variance if returns.largest - returns.least > RELATIVE_ROUNDING * largest else 0.0
    quantiles, intervals = returns.quantiles(PERCENTS)
    beyond = 0.0 if isinstance(criterion, int) or all_ended else math.inf
    if criterion is None:
        beyond = gamma**length * max(abs(bound) for bound in simulator.reward_range) / (1 - gamma)
    return Evaluation(
        mean=returns.mean,
        variance=variance,
        standard_error=math.sqrt(variance / episodes),
        quantiles=quantiles,
        quantile_intervals=intervals,
        returns=returns.kept,
        exposure=exposure,
        horizon=length,
        truncation_error=beyond,
        episodes=episodes,
        seed=seed,
        discount=gamma,
        criterion=criterion,
        **exact,
    )


def as_bounds(returns: ReturnDistribution, bounds: tuple[float, float]) -> float | tuple[float, float]:
    """The mean of two bounds that differ by a negligible share of the standard deviation; else both."""
    low, high = bounds
    return 0.5 * (low + high) if high - low <= SAME_SHARE * math.sqrt(returns.variance) + returns.error else bounds


@dataclass(frozen=True)
class _Episodes:
    """What all blocks of episodes share; see ``roll_out``."""

    simulator: Simulator
    table: Array | Agent
    masks: dict[str, Mask]
    seed: int
    episodes: int
    length: int
    ended: Mask | None
    memory: MemoryPolicy | None = None


def _played(shared: _Episodes, block: int) -> Played:
    """One block of episodes."""
    count = min(EPISODES_PER_BLOCK, shared.episodes - block * EPISODES_PER_BLOCK)
    return roll_out(
        shared.simulator,
        shared.table,
        shared.masks,
        shared.seed,
        count,
        shared.length,
        shared.ended,
        block,
        shared.memory,
    )


def _blocks(shared: _Episodes, executor: Executor | None) -> Iterator[Played]:
    """All blocks, in their order."""
    blocks = range(-(-shared.episodes // EPISODES_PER_BLOCK))
    if executor is None:
        yield from (_played(shared, block) for block in blocks)
        return
    for _, played in Workers(executor).run(_played, shared, blocks):
        yield played


def _with_memory(mdp: MDP, policy: Any) -> MDP:
    """The model in which a policy with memory (``ca.Reach``) is one of states; the model itself for others."""
    made_for = policy.mdp if isinstance(policy, Solution) else mdp
    memory = made_for.memory
    if memory is None or mdp.memory is not None:
        return mdp
    base = memory.base
    same = base.shape == mdp.shape and base.discount == mdp.discount and np.array_equal(base.rewards, mdp.rewards)
    if not same or abs(base.transitions - mdp.transitions).max() > 0 or not np.array_equal(base.start, mdp.start):
        raise IncompatibleError(
            "the policy remembers which states have been entered (ca.Reach): it can be evaluated only in the model "
            "that it was made for"
        )
    return made_for


def _criterion(model: MDP | Simulator, policy: Any, table: Any, asked: Any, discount: float) -> tuple[Horizon, int]:
    """What is evaluated, and how many steps an episode has at most."""
    known = policy.horizon if isinstance(policy, Solution) else None
    if known is None and isinstance(model, MDP):
        known = model.horizon
    if known is None and not isinstance(table, Agent) and axes_of(table) == 3:
        known = len(table)
    # with a discount below 1, a number of steps only says when an episode is cut
    if known is None and (discount == 1 or isinstance(asked, str)):
        known = asked
    known = as_horizon(known, discount)
    if isinstance(asked, str) and asked != known:
        raise InputError(f"horizon is {shown(asked)}, and the policy is one for horizon={known!r}; leave it out")
    steps = None if asked is None or isinstance(asked, str) else as_count("horizon", asked, high=LONGEST_ASKED)
    if isinstance(known, int):
        if steps not in (None, known):
            raise InputError(f"horizon is {steps}, and the policy is one for {known} steps; leave it out")
        return known, known
    if known == TOTAL and not isinstance(model, MDP):
        raise IncompatibleError(
            'horizon="total" needs a model that is known: a simulator does not say which states end an episode; give '
            "a number of steps"
        )
    usual = {AVERAGE: STEPS_OF_AVERAGE, TOTAL: LONGEST_HORIZON}
    return known, steps or (default_horizon(discount) if known is None else usual[known])


def default_horizon(discount: float) -> int:
    """The smallest number of steps after which at most 1e-4 of the discounted time is left; at most 100,000.

    With discounts so near one that this takes more steps, episodes are cut earlier, and ``truncation_error`` says what
    that can change.
    """
    if discount <= NEGLIGIBLE_SHARE:
        return 1
    return min(LONGEST_HORIZON, max(1, math.ceil(math.log(NEGLIGIBLE_SHARE) / math.log(discount) - 1e-9)))


def _set_masks(model: MDP | Simulator, sets: Mapping[str, Any] | Sequence[Any] | None) -> dict[str, Mask]:
    """Every set as a mask (S,), by name; with memory the sets are those of the model without."""
    if sets is None:
        return {}
    if not isinstance(sets, Mapping | Sequence | np.ndarray) or not is_listable(sets):
        raise InputError(f"sets must map names to states, or be a sequence of sets, found {type(sets).__name__}")
    named = sets if isinstance(sets, Mapping) else {f"set {j}": one for j, one in enumerate(sets)}
    masks = {}
    for name, states in named.items():
        label = f"sets[{shown(name)}]"
        if as_array(label, states).ndim != 1:
            raise InputError(f"{label} must be a one-dimensional list of states or a mask, found {shown(states)}")
        if isinstance(model, MDP):
            indices = model.state_indices(label, states)
        else:
            indices = state_indices(label, states, model.n_states, known_of(model).state_names)
        masks[str(name)] = np.isin(np.arange(model.n_states), indices)
    return masks
