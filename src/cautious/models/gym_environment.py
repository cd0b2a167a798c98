"""``to_gym``: a known model as a Gymnasium environment, for agents of other people."""

import math
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, Literal

import numpy as np

from cautious.arrays import Array
from cautious.checks import as_count, check_choice
from cautious.errors import InputError, MissingExtraError, shown
from cautious.models.simulator_checks import as_state
from cautious.models.tabular import MDP

# a class needs its base when it is defined; this file is loaded when ``ca.to_gym`` is first used
try:
    import gymnasium

    Base: Any = gymnasium.Env
except ImportError:
    gymnasium, Base = None, object

Ends = Literal["never", "discount"]
Forbidden = Literal["replace", "refuse"]
Line = tuple[float, int, float, bool]


def to_gym(
    mdp: MDP, *, ends: Ends = "never", horizon: int | None = None, forbidden: Forbidden = "replace"
) -> "ModelEnv":
    """A model as a Gymnasium environment (extra ``gym``): observations are states, actions are actions, by number.

    Parameters
    ----------
    mdp
        The model. Rewards are those of the outcomes where the model has them, else the expected ones.
    ends
        "never": episodes go on, and a learner discounts by ``mdp.discount`` itself. "discount": each step is the last
        with probability 1 - discount, so that the plain sum of an episode's rewards has the discounted return as its
        mean; a learner must then not discount again.
    horizon
        Truncate episodes after so many steps. Default: never.
    forbidden
        What an action does that is not allowed in the state. "replace": the same as the first one that is, so that
        agents which know nothing of masks can be used; the best return is unchanged. "refuse": an error. Agents that
        do know masks find them in ``info["action_mask"]`` and ``env.action_masks()``.

    The environment passes ``gymnasium.utils.env_checker.check_env``. It has the members of Gymnasium's toy_text
    environments: the table ``P``, ``initial_state_distrib`` and the state ``s``. ``ca.from_gym(env, mdp.discount,
    "restart")`` gives the model back; its mask too, if forbidden actions are refused.

    Examples
    --------
    >>> import cautious as ca
    >>> env = ca.to_gym(ca.worlds.maze(start_at_s=True), horizon=100)
    >>> state, info = env.reset(seed=0)
    >>> state, reward, terminated, truncated, info = env.step(1)
    >>> reward, terminated, truncated
    (-0.05, False, False)
    """
    if gymnasium is None:
        raise MissingExtraError('to_gym needs gymnasium; install it with: pip install "cautious[gym]"')
    return ModelEnv(mdp, ends, horizon, forbidden)


class ModelEnv(Base):  # type: ignore[misc]  # unknown to the type checker
    """The environment that ``ca.to_gym`` makes."""

    metadata: ClassVar[dict[str, Any]] = {"render_modes": []}

    def __init__(
        self, mdp: MDP, ends: Ends = "never", horizon: int | None = None, forbidden: Forbidden = "replace"
    ) -> None:
        if not isinstance(mdp, MDP):
            raise InputError(f"mdp must be a ca.MDP, found {type(mdp).__name__}")
        mdp.require_transitions("to_gym")
        check_choice("ends", ends, ("never", "discount"))
        check_choice("forbidden", forbidden, ("replace", "refuse"))
        self.mdp, self.ends, self.forbidden = mdp, ends, forbidden
        self.horizon = None if horizon is None else as_count("horizon", horizon)
        self.observation_space = gymnasium.spaces.Discrete(mdp.n_states)
        self.action_space = gymnasium.spaces.Discrete(mdp.n_actions)
        self.initial_state_distrib = mdp.start
        self.s: int | None = None
        self._steps = 0
        self._start = np.cumsum(mdp.start)
        settings = {"mdp": mdp, "ends": ends, "horizon": horizon, "forbidden": forbidden}
        title = "model" if mdp.scene is None else re.sub(r"\W+", "-", mdp.scene.title).strip("-")
        self.spec = gymnasium.envs.registration.EnvSpec(f"cautious/{title}-v0", ModelEnv, kwargs=settings)

    @property
    def P(self) -> Mapping[int, Mapping[int, list[Line]]]:
        """``P[state][action]`` lists (probability, next state, reward, terminated), made when asked for."""
        return _LazyTable(
            self.mdp.n_states, lambda state: _LazyTable(self.mdp.n_actions, lambda action: self._lines(state, action))
        )

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[int, dict[str, Any]]:
        """A first state, drawn from the model's start."""
        super().reset(seed=seed)
        self.s = _drawn(self._start, self.np_random.random())
        self._steps = 0
        return self.s, self._info()

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """The next state and its reward."""
        if self.s is None:
            raise InputError("the environment has no state yet; call env.reset() before env.step()")
        if not self.action_space.contains(action):
            raise InputError(f"action is {shown(action)}; expected a whole number from 0 to {self.mdp.n_actions - 1}")
        row = self._row(self.s, int(action))
        low, high = self._bounds(row)
        place = low + _drawn(np.cumsum(self.mdp.transitions.data[low:high]), self.np_random.random())
        reward = self._pay(row, place)
        self.s = int(self.mdp.transitions.indices[place])
        self._steps += 1
        ended = self.ends == "discount" and bool(self.np_random.random() >= self.mdp.discount)
        return self.s, reward, ended, not ended and self._steps == self.horizon, self._info()

    def set_state(self, state: int) -> None:
        """Be in this state."""
        self.s = as_state("state", state, self.mdp.n_states)

    def action_masks(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """The actions (A,) that are allowed now."""
        return np.array(self.mdp.allowed[self.s])

    def _info(self) -> dict[str, Any]:
        return {"action_mask": self.action_masks().astype(np.int8)}

    def _row(self, state: int, action: int) -> int:
        """The row of the model that an action stands for."""
        allowed = self.mdp.allowed[state]
        if not allowed[action]:
            if self.forbidden == "refuse":
                raise InputError(
                    f"action {action} is not allowed in {self.mdp.state_label(state)}; allowed: "
                    f"{np.flatnonzero(allowed).tolist()}"
                )
            action = int(np.argmax(allowed))
        return state * self.mdp.n_actions + action

    def _bounds(self, row: int) -> tuple[int, int]:
        indptr = self.mdp.transitions.indptr
        return int(indptr[row]), int(indptr[row + 1])

    def _pay(self, row: int, place: int) -> float:
        rewards = self.mdp.outcome_rewards
        return float(self.mdp.rewards.flat[row] if rewards is None else rewards[place])

    def _lines(self, state: int, action: int) -> list[Line]:
        if self.forbidden == "refuse" and not self.mdp.allowed[state, action]:
            return []
        row = self._row(state, action)
        rows, gamma = self.mdp.transitions, self.mdp.discount
        found: list[Line] = []
        for place in range(*self._bounds(row)):
            chance, there, paid = float(rows.data[place]), int(rows.indices[place]), self._pay(row, place)
            if self.ends == "never":
                found.append((chance, there, paid, False))
            else:
                found += [(gamma * chance, there, paid, False), ((1 - gamma) * chance, there, paid, True)]
        return found


class _LazyTable(Mapping[int, Any]):
    """Numbers 0 to ``size`` - 1 as keys, values made when asked for: the whole table is far larger than the model."""

    def __init__(self, size: int, make: Any) -> None:
        self.size, self.make = size, make

    def __getitem__(self, key: int) -> Any:
        if not isinstance(key, int | np.integer) or not 0 <= key < self.size:
            raise KeyError(key)
        return self.make(int(key))

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.size))

    def __len__(self) -> int:
        return self.size


def _drawn(cumulative: Array, uniform: float) -> int:
    """The place that a uniform number selects, by running sums; never one without a chance."""
    total = float(cumulative[-1])
    # rounding may make the product equal to the total, which belongs to no place
    return bisect_right(cumulative, min(uniform * total, math.nextafter(total, 0.0)))
