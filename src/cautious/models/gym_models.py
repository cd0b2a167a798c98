"""``from_gym``: a Gymnasium environment as a known model, from its table ``P`` or by trying every pair.

A table lists the outcomes of each pair as (probability, next state, reward, terminated). A terminated outcome leaves
the episode: "absorb" sends it to one more state, the last, which pays 0 forever; "restart" to the distribution of first
states. Where a pair can end with different rewards there is a last state for each of them, so that none is averaged. An
environment without a table is stepped from every state that can be reached, in every way its draws can fall.
"""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cautious.arrays import Array, Mask
from cautious.checks import SUM_TOLERANCE, as_number, check_choice
from cautious.errors import InputError, shown
from cautious.models import gym_checks
from cautious.models.gym_enumeration import ENDED, first_states, settable, tried_outcomes
from cautious.models.gym_naming import ENDS, naming_of
from cautious.models.gym_spaces import Spaces
from cautious.models.outcome_lists import OutcomeList, has_no_axes, merged_outcomes, same_rewards, staying_outcomes
from cautious.models.scene import END
from cautious.models.tabular import MDP


def from_gym(
    env: Any,
    discount: float,
    at_end: gym_checks.AtEnd,
    *,
    start: Any = None,
    set_state: gym_checks.SetState | None = None,
) -> MDP:
    """A Gymnasium environment as a model (extra ``gym``).

    Parameters
    ----------
    env
        Its observations are its whole state, and they and the actions can be counted: ``Discrete``, ``MultiDiscrete``
        or a ``Tuple`` of them. Best is a table ``env.unwrapped.P``, where an empty list of outcomes says that the
        action does not exist. Without one, every reachable pair is tried: the state must be settable, and all chance
        must come from ``env.np_random`` by ``integers``, ``choice``, ``random`` or ``uniform``, the last two used in
        comparisons only. Anything else is refused, never estimated; ``ca.learn(ca.GymSimulator(env, ...))`` learns
        from samples.
    discount
        Weight of the next step, in [0, 1]. With discount 1 a ``ca.Problem`` needs a horizon.
    at_end
        What follows ``terminated``: "absorb" leads to one more state, the last one, named "end", which pays 0 forever
        (where a pair can end with different rewards, to one for each reward: "end, paid 1"); "restart" leads to a fresh
        first state. Truncation, such as a time limit, is not an end.
    start
        First states: one chance per observation (S,), or one observation. Default: the environment's
        ``initial_state_distrib``, or all the ways of its reset.
    set_state
        ``set_state(env, observation)``, for an environment without a table; default as in ``ca.GymSimulator``. What is
        not observed it may draw from ``env.unwrapped.np_random``.

    State k is element k of the space of observations, the last part changing fastest, and action k likewise. Wrappers
    that transform rewards or actions count; those that change a step in any other way are refused. Action masks in
    ``info`` are ignored.

    Examples
    --------
    >>> import gymnasium, cautious as ca
    >>> lake = ca.from_gym(gymnasium.make("FrozenLake-v1"), discount=0.99, at_end="absorb")
    >>> lake.n_states, lake.state_names[-1], lake.action_names
    (17, 'end', ('left', 'down', 'right', 'up'))
    >>> round(ca.solve(ca.Problem(lake)).expected_return, 6)
    0.542026
    """
    spaces, changes = gym_checks.check_environment(env, "from_gym")
    discount = as_number("discount", discount, 0, 1)
    check_choice("at_end", at_end, gym_checks.AT_END)
    if set_state is not None and not callable(set_state):
        raise InputError(f"set_state must be a function of (env, observation), found {shown(set_state)}")
    wrappers = gym_checks.understood_wrappers(env)
    has_table = isinstance(env.unwrapped, gym_checks.HasTable) and spaces.is_plain and "observations" not in changes
    simulator = None if has_table and not gym_checks.sets_itself(env) else settable(env, spaces, changes, set_state)
    first = gym_checks.given_start(spaces, start)
    first = gym_checks.own_start(env, spaces, changes) if first is None else first
    first = first_states(env, spaces) if first is None else first
    outcomes = _listed_outcomes(env, spaces, wrappers, first) if simulator is None else tried_outcomes(simulator, first)
    ended = outcomes.next_states == ENDED
    ends: tuple[str, ...] = ()
    rewards = _end_rewards(outcomes.at(ended)) if at_end == "absorb" else None
    if rewards is not None:
        ends = ENDS if len(rewards) == 1 else tuple(f"{END}, paid {reward:.12g}" for reward in rewards)
    shape = (spaces.n_states + len(ends), spaces.n_actions)
    merged = merged_outcomes(shape, _with_ends(outcomes, ended, spaces.n_actions, first, rewards))
    mdp = MDP(
        **merged._asdict(),
        discount=discount,
        start=np.append(first, np.zeros(len(ends))),
        **naming_of(env, spaces, ends),
    )
    mdp.interface = spaces
    return mdp


def _listed_outcomes(env: Any, spaces: Spaces, wrappers: gym_checks.Wrappers, first: Array) -> OutcomeList:
    """The outcomes in the table ``P``."""
    n_states, n_actions = spaces.n_states, spaces.n_actions
    state_0, action_0 = spaces.element(0), spaces.action(0)
    inner = [wrappers.action(action_0 + action) for action in range(n_actions)]
    rows, next_states, chances, rewards = array("q"), array("q"), array("d"), array("d")
    for state in range(n_states):
        here, there = f"env.unwrapped.P[{state_0 + state}]", _entry("env.unwrapped.P", env.unwrapped.P, state_0 + state)
        for action, key in enumerate(inner):
            what = f"{here}[{key}]"
            lines = _as_list(what, _entry(here, there, key))
            total = 0.0
            for i, line in enumerate(lines):
                chance, next_state, reward, ended = _checked_line(f"{what}[{i}]", line, spaces)
                total += chance
                if chance > 0:
                    rows.append(state * n_actions + action)
                    next_states.append(ENDED if ended else next_state)
                    chances.append(chance)
                    rewards.append(as_number(f"the reward of {what}[{i}]", wrappers.reward(reward)))
            if len(lines) > 0 and abs(total - 1) > SUM_TOLERANCE:
                raise InputError(
                    f"the probabilities of {what} sum to {total:.12g}; expected 1 within {SUM_TOLERANCE:g}"
                )
    listed = OutcomeList(*(np.array(column) for column in (rows, next_states, chances, rewards)))
    _check_all_continue(listed, n_actions, first, state_0)
    return listed


def _entry(what: str, level: Any, key: Any) -> Any:
    """One entry of a level of the table; nothing listed is no outcome."""
    if isinstance(level, Mapping):
        return level.get(key, ())
    return level[key] if 0 <= key < len(_as_list(what, level)) else ()


def _as_list(what: str, value: Any) -> Any:
    if not isinstance(value, Sequence | np.ndarray) or isinstance(value, str) or has_no_axes(value):
        raise InputError(f"{what} is {shown(value, 60)}; expected P[state][action], mappings or lists of outcomes")
    return value


def _checked_line(what: str, line: Any, spaces: Spaces) -> tuple[float, int, float, bool]:
    if not isinstance(line, Sequence) or len(line) != 4:
        raise InputError(f"{what} is {shown(line, 60)}; expected (probability, next state, reward, terminated)")
    chance, next_state, reward, ended = line
    if not isinstance(ended, bool | int | np.bool_ | np.integer) or ended not in (0, 1):
        raise InputError(f"{what} ends with {shown(ended, 40)}; expected whether it terminated, true or false")
    chance = as_number(f"the probability of {what}", chance, 0.0, 1.0 + SUM_TOLERANCE)
    # where the episode ends the next state is not used, and tables hold any number there
    number = 0 if ended else spaces.state_number(f"the next state of {what}", next_state)
    return chance, number, as_number(f"the reward of {what}", reward), bool(ended)


def _check_all_continue(outcomes: OutcomeList, n_actions: int, first: Array, state_0: int) -> None:
    """Refuse a state that can be entered and has no outcome; one that cannot be entered may go without."""
    has_outcome = np.bincount(outcomes.rows // n_actions, minlength=first.size) > 0
    for dead_end in np.flatnonzero(~has_outcome & (first > 0)).tolist():
        raise InputError(f"env.unwrapped.P[{dead_end + state_0}] lists no outcome, and episodes start there")
    stuck = (outcomes.next_states != ENDED) & ~has_outcome[outcomes.next_states]
    if stuck.any():
        place = int(np.argmax(stuck))
        state, action = divmod(int(outcomes.rows[place]), n_actions)
        raise InputError(
            f"env.unwrapped.P[{outcomes.next_states[place] + state_0}] lists no outcome, and state "
            f"{state + state_0}, action {action} leads there without terminating"
        )


def _end_rewards(ended: OutcomeList) -> list[float]:
    """The rewards that tell states after an end apart; one, whatever it is, if a pair never ends with two of them.

    Outcomes of a pair that pay differently must lead to different states, or the model knows their mean only.
    """
    assert ended.rewards is not None
    found = np.unique(ended.rewards)
    levels = found[np.append(True, ~same_rewards(found[:-1], found[1:]))] if found.size else np.zeros(1)
    place = np.searchsorted(levels, ended.rewards, side="right")
    pairs = np.unique(np.stack([ended.rows, place]), axis=1)[0]
    return levels.tolist() if np.unique(pairs).size < pairs.size else [float(levels[0])]


def _with_ends(
    outcomes: OutcomeList, ended: Mask, n_actions: int, first: Array, rewards: list[float] | None
) -> OutcomeList:
    """The outcomes, ends sent to the states of these rewards or to first states, and every state with outcomes."""
    assert outcomes.rewards is not None
    if rewards is not None:
        last = first.size + np.maximum(np.searchsorted(rewards, outcomes.rewards, side="right") - 1, 0)
        outcomes = replace(outcomes, next_states=np.where(ended, last, outcomes.next_states))
    elif ended.any():
        places = np.flatnonzero(first)
        again = outcomes.at(np.repeat(np.flatnonzero(ended), places.size))
        copies = np.tile(places, np.count_nonzero(ended))
        anew = replace(again, next_states=copies, probabilities=again.probabilities * first[copies])
        outcomes = outcomes.at(~ended).plus(anew)
    # in a state that nothing leads to, and in those after an end, every action stays and pays 0
    n_states = first.size + len(rewards or ())
    idle = np.setdiff1d(np.arange(n_states), outcomes.rows // n_actions)
    return outcomes.plus(staying_outcomes(idle, n_actions))
