"""Checks of models and simulators."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from cautious.arrays import Array, Indices
from cautious.checks import first_bad
from cautious.errors import shown
from cautious.models.tabular import MDP
from cautious.occupancy import flow_residual, policy_occupancy, policy_values
from cautious.sparse_input import as_rows
from cautious.testing.parts import LOOSE_TOLERANCE, CheckFailure, call, close, member, random_policy, require


def check_model(mdp: MDP, seed: int = 0) -> None:
    """Check a model: adjoint operators, stochastic rows, balanced occupancies, consistent reward moments."""
    rng = np.random.default_rng(seed)
    for name in ("n_states", "n_actions", "discount", "start", "allowed", "rewards", "reward_square", "transitions"):
        member(mdp, name)
    n, shape, allowed = mdp.n_states, (mdp.n_states, mdp.n_actions), np.asarray(mdp.allowed)
    require(0 <= mdp.discount <= 1, f"discount is {mdp.discount}; it must be in [0, 1]")
    require(allowed.shape == shape and allowed.any(axis=1).all(), "every state needs an allowed action")
    require(np.all(np.asarray(mdp.start) >= 0), "start has a negative entry")
    close("sum of start", np.sum(mdp.start), 1.0)
    # the operators may be compiled loops, which trust the indices
    rows = as_rows("transitions", mdp.transitions)
    v, d = rng.standard_normal(n), np.where(allowed, rng.random(shape), 0.0)
    ahead, inflow = call("expect_next", mdp.expect_next, v), call("flow_into", mdp.flow_into, d)
    require(np.shape(ahead) == shape, f"expect_next has shape {np.shape(ahead)}, expected (S, A) = {shape}")
    require(np.shape(inflow) == (n,), f"flow_into has shape {np.shape(inflow)}, expected (S,) = ({n},)")
    close("adjointness, <flow_into(d), v> against <d, expect_next(v)>", inflow @ v, np.sum(d * ahead))
    close("expect_next of ones (row sums)", call("expect_next", mdp.expect_next, np.ones(n)), allowed.astype(float))
    require(np.all(rows.data >= 0), f"transitions has the negative entry {rows.data.min(initial=0.0)}")
    close("expect_next against transitions @ v", np.ravel(ahead), rows @ v)
    policy = random_policy(allowed, rng)
    chain = sp.csr_array(call("under", mdp.under, policy))
    require(np.all(chain.data >= 0), "under(policy) has a negative entry")
    close("row sums of under(policy)", np.asarray(chain.sum(axis=1)), np.ones(n))
    close("under(policy) @ v against expect_next(v)", chain @ v, (policy * ahead).sum(axis=1))
    mean = np.asarray(mdp.rewards)
    if mdp.discount < 1:
        _check_returns(mdp, policy, mean)
    _check_moments(mdp, mean, rows)


def _check_returns(mdp: MDP, policy: Array, mean: Array) -> None:
    """Occupancy and return of a policy, discounted for ever."""
    occupancy = call("policy_occupancy", policy_occupancy, mdp, policy).occupancy
    close("sum of the occupancy of a random policy", occupancy.sum(), 1.0)
    close("flow balance of the occupancy of a random policy", flow_residual(mdp, occupancy), np.zeros(mdp.n_states))
    horizon = 1 / (1 - mdp.discount)
    values = mdp.start @ policy_values(mdp, policy, mean)
    close("return by occupancy against return by values", horizon * np.sum(occupancy * mean), values, LOOSE_TOLERANCE)


def _check_moments(mdp: MDP, mean: Array, rows: sp.csr_array) -> None:
    square, (low, high) = np.asarray(mdp.reward_square), mdp.reward_range
    require(np.isfinite(mean).all(), "rewards has an entry that is not finite")
    short = square < mean**2 * (1 - 1e-9)
    require(not short.any(), f"reward_square is below the squared mean at {list(first_bad(short))}")
    slack = 1e-12 * max(abs(low), abs(high))
    outside = ((mean < low - slack) | (mean > high + slack)) & mdp.allowed
    require(not outside.any(), f"reward at {list(first_bad(outside))} is outside reward_range ({low}, {high})")
    if mdp.outcome_rewards is not None:
        owner = np.repeat(np.arange(mean.size), np.diff(rows.indptr))
        for name, table, power in (("rewards", mean, 1), ("reward_square", square, 2)):
            moment = np.bincount(owner, rows.data * mdp.outcome_rewards**power, minlength=mean.size)
            close(f"{name} against the outcome rewards", table.ravel(), moment)


def check_simulator(simulator: Any, seed: int = 0, draws: int = 2000) -> None:
    """Check a simulator: members, shapes, ranges, the same result for the same seed, no memory between calls."""
    members = ("n_states", "n_actions", "discount", "reward_range", "start_states", "sample")
    n_states, n_actions, discount, reward_range, start_states, sample = (member(simulator, name) for name in members)
    for name, count in (("n_states", n_states), ("n_actions", n_actions)):
        require(
            isinstance(count, int | np.integer) and count >= 1, f"{name} is {count!r}; expected a whole number >= 1"
        )
    require(0 <= discount <= 1, f"discount is {discount!r}; it must be in [0, 1]")
    span = np.asarray(reward_range, dtype=np.float64)
    require(span.shape == (2,) and np.isfinite(span).all() and span[0] <= span[1], f"reward_range is {reward_range!r}")
    rng = np.random.default_rng(seed)
    # a simulator of a known model may forbid pairs, and then says so in ``allowed``
    allowed = getattr(simulator, "allowed", None)
    pairs = np.arange(n_states * n_actions) if allowed is None else np.flatnonzero(allowed)
    chosen = np.resize(rng.permutation(pairs), draws).astype(np.int64)
    states, actions = chosen // n_actions, chosen % n_actions

    def draw(size: int, number: int) -> tuple[Indices, Array]:
        what = f"sample({size} pairs from state {states[0]}, action {actions[0]}; seed {number})"
        out = call(what, sample, states[:size].copy(), actions[:size].copy(), np.random.default_rng(number))
        require(
            isinstance(out, tuple) and len(out) == 2, f"{what} must return (next_states, rewards), found {shown(out)}"
        )
        _check_states(f"next_states of {what}", out[0], size, n_states)
        rewards = np.asarray(out[1])
        require(rewards.dtype.kind in "fiu", f"rewards of {what} have dtype {rewards.dtype}; expected numbers")
        require(rewards.shape == (size,), f"rewards of {what} have shape {rewards.shape}; expected ({size},)")
        slack = 1e-9 * float(np.abs(span).max())
        bad = ~((rewards >= span[0] - slack) & (rewards <= span[1] + slack))
        if bad.any():
            k = int(np.argmax(bad))
            where = f"state {states[k]}, action {actions[k]} of {what}"
            raise CheckFailure(f"the reward in {where} is {rewards[k]}, outside reward_range {reward_range}")
        return np.array(out[0]), np.array(rewards)

    def start(number: int) -> Indices:
        what = f"start_states({draws}; seed {number})"
        found = call(what, start_states, draws, np.random.default_rng(number))
        _check_states(what, found, draws, n_states)
        return np.array(found)

    first, first_start = draw(draws, seed), start(seed)
    draw(1, seed + 1)
    # other calls in between show a simulator that remembers its last state or keeps a generator of its own
    for name, one, two in zip(("next_states", "rewards"), first, draw(draws, seed), strict=True):
        differ = one != two
        require(
            not differ.any(),
            f"sample remembers something: with seed {seed} again, {name} differ in {differ.sum()} of {draws} draws",
        )
    require(np.array_equal(first_start, start(seed)), f"start_states with seed {seed} again differ")


def _check_states(what: str, found: Any, size: int, n_states: int) -> None:
    found = np.asarray(found)
    require(found.dtype.kind in "iu", f"{what} have dtype {found.dtype}; expected whole numbers")
    require(found.shape == (size,), f"{what} have shape {found.shape}; expected ({size},)")
    bad = (found < 0) | (found >= n_states)
    require(
        not bad.any(),
        f"{what}: entry {int(np.argmax(bad))} is {found[int(np.argmax(bad))]}; states are 0 to {n_states - 1}",
    )
