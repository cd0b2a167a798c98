"""``from_gym``: a Gymnasium environment as a known model, from its table ``P`` or by trying every pair.

A table lists the outcomes of each pair as (probability, next state, reward, terminated). A terminated outcome leaves
the episode: "absorb" sends it to one more state, the last, which pays 0 forever; "restart" to the distribution of first
states. An environment without a table is stepped from every state that can be reached, in every way its draws can fall.
FrozenLake, CliffWalking and Taxi get names and maps for reports.
"""

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol, runtime_checkable

import numpy as np

from cautious.arrays import Array
from cautious.checks import SUM_TOLERANCE, as_number, check_choice
from cautious.errors import InputError, shown
from cautious.models import gym_checks
from cautious.models.gym_enumeration import ENDED, first_states, settable, tried_outcomes
from cautious.models.outcome_lists import OutcomeList, has_no_axes, merged_outcomes, staying_outcomes
from cautious.models.scene import END, Scene, free_name
from cautious.models.tabular import MDP

LAKE_MOVES = ("left", "down", "right", "up")
CLIFF_MOVES = ("up", "right", "down", "left")
TAXI_MOVES = ("south", "north", "east", "west", "pick up", "drop off")
# what to call states and actions, and how to draw them: the arguments of ``MDP``
Naming = dict[str, Any]
TAXI_PLACES = ("red", "green", "yellow", "blue", "taxi")


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
        With ``Discrete`` observations that are its whole state, and ``Discrete`` actions. Best is a table
        ``env.unwrapped.P``, where an empty list of outcomes says that the action does not exist. Without one, every
        reachable pair is tried: the state must be settable, and all chance must come from ``env.np_random`` by
        ``integers``, ``choice``, ``random`` or ``uniform``, the last two used in comparisons only. Anything else is
        refused, never estimated; ``ca.learn(ca.GymSimulator(env, ...))`` learns from samples.
    discount
        Weight of the next step, in [0, 1]. With discount 1 a ``ca.Problem`` needs a horizon.
    at_end
        What follows ``terminated``: "absorb" leads to one more state, the last one, named "end", which pays 0 forever;
        "restart" leads to a fresh first state. Truncation, such as a time limit, is not an end.
    start
        First states: one chance per observation (S,), or one observation. Default: the environment's
        ``initial_state_distrib``, or all the ways of its reset.
    set_state
        ``set_state(env, observation)``, for an environment without a table; default as in ``ca.GymSimulator``.

    State k is observation ``env.observation_space.start + k``, action k likewise. Wrappers that transform rewards or
    actions count; those that change a step in any other way are refused. Action masks in ``info`` are ignored.

    Examples
    --------
    >>> import gymnasium, cautious as ca
    >>> lake = ca.from_gym(gymnasium.make("FrozenLake-v1"), discount=0.99, at_end="absorb")
    >>> lake.n_states, lake.state_names[-1], lake.action_names
    (17, 'end', ('left', 'down', 'right', 'up'))
    >>> round(ca.solve(ca.Problem(lake)).expected_return, 6)
    0.542026
    """
    changes = gym_checks.check_environment(env, "from_gym")
    discount = as_number("discount", discount, 0, 1)
    check_choice("at_end", at_end, gym_checks.AT_END)
    if set_state is not None and not callable(set_state):
        raise InputError(f"set_state must be a function of (env, observation), found {shown(set_state)}")
    wrappers = gym_checks.understood_wrappers(env)
    has_table = isinstance(env.unwrapped, gym_checks.HasTable) and "observations" not in changes
    simulator = None if has_table else settable(env, changes, set_state)
    first = gym_checks.given_start(env, start)
    first = gym_checks.own_start(env, changes) if first is None else first
    first = first_states(env) if first is None else first
    outcomes = _listed_outcomes(env, wrappers, first) if simulator is None else tried_outcomes(simulator, first)
    n_states, n_actions = first.size + (at_end == "absorb"), int(env.action_space.n)
    merged = merged_outcomes((n_states, n_actions), _with_ends(outcomes, n_actions, first, at_end))
    return MDP(
        **merged._asdict(),
        discount=discount,
        start=np.append(first, np.zeros(n_states - first.size)),
        **naming_of(env, at_end, "observations" in changes or bool(wrappers.of_actions)),
    )


def _listed_outcomes(env: Any, wrappers: gym_checks.Wrappers, first: Array) -> OutcomeList:
    """The outcomes in the table ``P``."""
    n_states, n_actions = int(env.observation_space.n), int(env.action_space.n)
    state_0, action_0 = int(env.observation_space.start), int(env.action_space.start)
    inner = [wrappers.action(action_0 + action) for action in range(n_actions)]
    rows, next_states, chances, rewards = array("q"), array("q"), array("d"), array("d")
    for state in range(n_states):
        here, there = f"env.unwrapped.P[{state_0 + state}]", _entry("env.unwrapped.P", env.unwrapped.P, state_0 + state)
        for action, key in enumerate(inner):
            what = f"{here}[{key}]"
            lines = _as_list(what, _entry(here, there, key))
            total = 0.0
            for i, line in enumerate(lines):
                chance, next_state, reward, ended = _checked_line(f"{what}[{i}]", line, env.observation_space)
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


def _checked_line(what: str, line: Any, space: Any) -> tuple[float, int, float, bool]:
    if not isinstance(line, Sequence) or len(line) != 4:
        raise InputError(f"{what} is {shown(line, 60)}; expected (probability, next state, reward, terminated)")
    chance, next_state, reward, ended = line
    if not isinstance(ended, bool | int | np.bool_ | np.integer) or ended not in (0, 1):
        raise InputError(f"{what} ends with {shown(ended, 40)}; expected whether it terminated, true or false")
    chance = as_number(f"the probability of {what}", chance, 0.0, 1.0 + SUM_TOLERANCE)
    # where the episode ends the next state is not used, and tables put anything there
    number = 0 if ended else gym_checks.observed_state(f"the next state of {what}", next_state, space)
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


def _with_ends(outcomes: OutcomeList, n_actions: int, first: Array, at_end: gym_checks.AtEnd) -> OutcomeList:
    """The outcomes, ends sent where they were asked to go, and every state with outcomes."""
    ended = outcomes.next_states == ENDED
    if at_end == "absorb":
        outcomes = replace(outcomes, next_states=np.where(ended, first.size, outcomes.next_states))
    elif ended.any():
        places = np.flatnonzero(first)
        again = outcomes.at(np.repeat(np.flatnonzero(ended), places.size))
        copies = np.tile(places, np.count_nonzero(ended))
        anew = replace(again, next_states=copies, probabilities=again.probabilities * first[copies])
        outcomes = outcomes.at(~ended).plus(anew)
    # in a state that nothing leads to, and in the one after the end, every action stays and pays 0
    n_states = first.size + (at_end == "absorb")
    idle = np.setdiff1d(np.arange(n_states), outcomes.rows // n_actions)
    return outcomes.plus(staying_outcomes(idle, n_actions))


@runtime_checkable
class ShowsModel(Protocol):
    """An environment made of one of our models, by ``to_gym``."""

    mdp: MDP


def naming_of(env: Any, at_end: gym_checks.AtEnd, is_transformed: bool) -> Naming:
    """The naming of an environment; ``is_transformed``: wrappers number its states or actions anew."""
    from gymnasium.envs.toy_text.cliffwalking import CliffWalkingEnv
    from gymnasium.envs.toy_text.frozen_lake import FrozenLakeEnv
    from gymnasium.envs.toy_text.taxi import TaxiEnv

    bare, title = env.unwrapped, gym_checks.title_of(env)
    end = (END,) if at_end == "absorb" else ()
    if is_transformed:
        return _numbered(env, title, end)
    if isinstance(bare, FrozenLakeEnv):
        rows = ["".join(mark.decode() for mark in row).replace("F", ".") for row in bare.desc]
        return _on_map(title, rows, LAKE_MOVES, end)
    if isinstance(bare, CliffWalkingEnv):
        height, width = bare.shape
        rows = ["." * width] * (height - 1) + ["S" + "C" * (width - 2) + "G"]
        return _on_map(title, rows, CLIFF_MOVES, end)
    if isinstance(bare, TaxiEnv):
        names = []
        for state in range(int(bare.observation_space.n)):
            row, column, passenger, goal = bare.decode(state)
            names.append(f"r{row}c{column}, passenger {TAXI_PLACES[passenger]}, to {TAXI_PLACES[goal]}")
        return {"scene": Scene(title), "state_names": (*names, *end), "action_names": TAXI_MOVES}
    if isinstance(bare, ShowsModel) and isinstance(bare.mdp, MDP) and (bare.mdp.state_names is not None or not end):
        return _of_model(bare.mdp, title, bool(end))
    return _numbered(env, title, end)


def _of_model(mdp: MDP, title: str, has_end: bool) -> Naming:
    names = mdp.state_names
    if names is not None and has_end:
        # the model may have come from an environment itself
        names = (*names, free_name(END, names))
    return {"scene": mdp.scene or Scene(title), "state_names": names, "action_names": mdp.action_names}


def _numbered(env: Any, title: str, end: tuple[str, ...]) -> Naming:
    """States go by the number that is observed, where that is not their number in the model anyway."""
    first, count = int(env.observation_space.start), int(env.observation_space.n)
    if first == 0 and not end:
        return {"scene": Scene(title)}
    return {"scene": Scene(title), "state_names": (*(str(first + state) for state in range(count)), *end)}


def _on_map(title: str, rows: list[str], moves: tuple[str, ...], end: tuple[str, ...]) -> Naming:
    names = [f"r{i}c{j}" for i, row in enumerate(rows) for j in range(len(row))]
    # the state after the end is a cell below the map, behind a wall
    below = ["#" * len(rows[0]), "E".ljust(len(rows[0]), "#")] if end else []
    scene = Scene(title, "", "move", "reward", tuple(rows + below), moves)
    return {"scene": scene, "state_names": (*names, *end), "action_names": moves}
