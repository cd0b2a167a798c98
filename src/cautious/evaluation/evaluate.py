"""``ca.evaluate``: what a policy earns, episode by episode, next to the exact figures when the model is known.

The return of an episode is G = sum_t gamma^t r_t. Its exact mean is <xi, v> with v the policy's values. Its exact
variance sums squared surprises: with  delta = r + gamma v(s') - v(s),

    Var G = Var_xi[ v(s_0) ] + <xi, w>,     w(s) = E[ delta^2 + gamma^2 w(s') | s ],

which equals <xi, M> - <xi, v>^2 for the second moment M of the return, without subtracting two large numbers. So w is
the value of the same policy in a model discounted by gamma^2 that pays delta^2. A variance that rounding alone can make
is 0: that of the same return every time.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cautious.arrays import Array, Mask
from cautious.checks import as_array, as_count, as_policy, as_seed, is_listable
from cautious.errors import IncompatibleError, InputError, shown
from cautious.evaluation.policy_rows import policy_table
from cautious.evaluation.rollouts import roll_out
from cautious.models.encodings import EPS, row_of_entries, weighted_rows
from cautious.models.simulator_checks import check_members
from cautious.models.simulators import Simulator, known_of
from cautious.models.tabular import MDP, state_indices
from cautious.occupancy import check_policy, policy_occupancy, policy_values

NEGLIGIBLE_SHARE = 1e-4
LONGEST_HORIZON = 100_000
LONGEST_ASKED = 10_000_000
MOST_EPISODES = 100_000_000
PERCENTS = (5, 25, 50, 75, 95)
# values solve their equation within this much of their size, see ``models/chains.py``
RELATIVE_ROUNDING = 64 * EPS


@dataclass(frozen=True)
class Evaluation:
    """What ``ca.evaluate`` returns; returns are discounted sums of rewards.

    Attributes
    ----------
    returns
        Of the simulated episodes, (episodes,).
    mean, variance, standard_error
        Of these returns: mean, unbiased variance, standard error of the mean.
    quantiles
        Of these returns, by percent: 5, 25, 50, 75, 95.
    exposure
        Share of discounted time simulated in each named set.
    exact_mean, exact_variance, exact_exposure
        The same without simulation and without an end; None for simulators, whose model is not known.
    horizon, truncation_error
        Episodes end after so many steps; what lies beyond can change a return by at most this.
    episodes, seed, discount
        How it was simulated.

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

    def table(self) -> list[tuple[str, float, float | None]]:
        """Rows (what, simulated, exact) for printing."""
        spread = None if self.exact_variance is None else math.sqrt(self.exact_variance)
        rows: list[tuple[str, float, float | None]] = [
            ("mean return", self.mean, self.exact_mean),
            ("standard error of the mean", self.standard_error, None),
            ("variance of the return", self.variance, self.exact_variance),
            ("standard deviation of the return", math.sqrt(self.variance), spread),
        ]
        rows += [(f"{percent} % quantile of the return", value, None) for percent, value in self.quantiles.items()]
        exact = self.exact_exposure or {}
        rows += [(f"time in {name}", share, exact.get(name)) for name, share in self.exposure.items()]
        return rows

    def __repr__(self) -> str:
        exact = "" if self.exact_mean is None else f", exact_mean={self.exact_mean:.8g}"
        return f"Evaluation(mean={self.mean:.8g} +- {self.standard_error:.2g}, episodes={self.episodes}{exact})"


def evaluate(
    mdp_or_simulator: MDP | Simulator,
    policy: Any,
    episodes: int = 100,
    horizon: int | None = None,
    seed: int = 0,
    sets: Mapping[str, Any] | Sequence[Any] | None = None,
) -> Evaluation:
    """Simulate a policy, and compute its exact figures when the model is known.

    Parameters
    ----------
    mdp_or_simulator
        A ``ca.MDP``, or anything with the members of ``ca.Simulator``.
    policy
        (S, A), rows sum to one; or a Solution. Where the model of a Solution and this one both have names, states and
        actions are matched by name; an array is taken as it stands.
    episodes
        How many episodes; at least 2, so that there is a spread.
    horizon
        Steps per episode; by default the smallest h with gamma^h <= 1e-4.
    seed
        Same seed, same bytes.
    sets
        Named sets of states (a mapping, or a sequence that gets the names "set 0", ...), each as indices, a mask or,
        where they are known, state names; their share of discounted time is reported.

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
    episodes, seed = as_count("episodes", episodes, 2, MOST_EPISODES), as_seed(seed)
    if isinstance(mdp_or_simulator, MDP):
        mdp: MDP | None = mdp_or_simulator
        mdp_or_simulator.require_transitions("ca.evaluate")
        table = check_policy(mdp_or_simulator, policy_table(policy, mdp_or_simulator))
        simulator: Simulator = mdp_or_simulator.simulator()
    elif isinstance(mdp_or_simulator, Simulator):
        mdp, simulator = None, mdp_or_simulator
        check_members(simulator)
        # which pairs are allowed only the simulator knows
        table = as_policy(policy_table(policy, simulator), (simulator.n_states, simulator.n_actions))
    else:
        raise IncompatibleError(
            f"ca.evaluate needs a ca.MDP or a simulator, found {type(mdp_or_simulator).__name__}; "
            "a simulator has n_states, n_actions, discount, reward_range, start_states and sample"
        )
    gamma = float(simulator.discount)
    horizon = default_horizon(gamma) if horizon is None else as_count("horizon", horizon, high=LONGEST_ASKED)
    masks = _set_masks(simulator, sets)
    returns, exposure = roll_out(simulator, table, masks, seed, episodes, horizon)
    variance = float(returns.var(ddof=1)) if np.ptp(returns) > RELATIVE_ROUNDING * np.abs(returns).max() else 0.0
    largest = max(abs(bound) for bound in simulator.reward_range)
    exact: dict[str, Any] = {}
    if mdp is not None:
        states = policy_occupancy(mdp, table).occupancy.sum(axis=1) if masks else np.empty(0)
        exact["exact_mean"], exact["exact_variance"] = return_variance(mdp, table)
        exact["exact_exposure"] = {name: float(states[mask].sum()) for name, mask in masks.items()}
    return Evaluation(
        mean=float(returns.mean()),
        variance=variance,
        standard_error=math.sqrt(variance / episodes),
        quantiles=dict(zip(PERCENTS, np.percentile(returns, PERCENTS).tolist(), strict=True)),
        returns=returns,
        exposure=exposure,
        horizon=horizon,
        truncation_error=gamma**horizon * largest / (1 - gamma),
        episodes=episodes,
        seed=seed,
        discount=gamma,
        **exact,
    )


def default_horizon(discount: float) -> int:
    """The smallest number of steps after which at most 1e-4 of the discounted time is left; at most 100,000.

    Beyond that the episodes of a patient agent are cut earlier, and ``truncation_error`` says what that can change.
    """
    if discount <= NEGLIGIBLE_SHARE:
        return 1
    return min(LONGEST_HORIZON, max(1, math.ceil(math.log(NEGLIGIBLE_SHARE) / math.log(discount) - 1e-9)))


def return_variance(mdp: MDP, policy: Array) -> tuple[float, float]:
    """Exact mean and variance of the discounted return of a checked policy, the random start included."""
    gamma, rows = mdp.discount, mdp.transitions
    values = policy_values(mdp, policy, mdp.rewards)
    pairs = row_of_entries(rows)
    paid = mdp.rewards.ravel()[pairs] if mdp.outcome_rewards is None else mdp.outcome_rewards
    surprise = paid + gamma * values[rows.indices] - values[pairs // mdp.n_actions]
    squares = weighted_rows(rows, surprise**2).reshape(mdp.shape)
    if mdp.outcome_rewards is None:
        squares = squares + (mdp.reward_square - mdp.rewards**2)
    mean = float(mdp.start @ values)
    spread = float(mdp.start @ (values - mean) ** 2)
    surprises = float(mdp.start @ policy_values(mdp, policy, squares, gamma**2))
    unsure = RELATIVE_ROUNDING * float(np.abs(paid).max(initial=0.0) + np.abs(values).max())
    unsure_spread, unsure_surprises = (unsure / (1 - gamma)) ** 2, unsure**2 / (1 - gamma**2)
    return mean, (spread if spread > unsure_spread else 0.0) + (surprises if surprises > unsure_surprises else 0.0)


def _set_masks(simulator: Simulator, sets: Mapping[str, Any] | Sequence[Any] | None) -> dict[str, Mask]:
    """Every set as a mask (S,), by name."""
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
        indices = state_indices(label, states, simulator.n_states, known_of(simulator).state_names)
        masks[str(name)] = np.isin(np.arange(simulator.n_states), indices)
    return masks
