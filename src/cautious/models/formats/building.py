"""The last step of every reader: outcomes, and all else about a model, to the model."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from cautious.arrays import Array
from cautious.errors import FileError
from cautious.models.formats.reader_options import of_file
from cautious.models.outcome_lists import OutcomeList, index_kind, merged_outcomes
from cautious.models.scene import Scene
from cautious.models.tabular import MDP

# tables (S, A) are only made when the outcomes can justify their size
MOST_PAIRS = 2**31
PAIRS_PER_OUTCOME, FREE_PAIRS = 1000, 10**6


@dataclass(frozen=True)
class About:
    """All else about a model. ``per_outcome``: whether equal rewards of a pair's outcomes stay rewards of outcomes."""

    shape: tuple[int, int]
    discount: float
    start: Array | None
    state_names: Sequence[str] | None = None
    action_names: Sequence[str] | None = None
    scene: Scene | None = None
    per_outcome: bool = False
    normalise: bool = False
    reward_square: Array | None = None


def pair_rows(path: Path, state: NDArray[Any], action: NDArray[Any], shape: tuple[int, int]) -> NDArray[Any]:
    """The rows s*A + a of pairs, which must be enough for a table of this shape (S, A)."""
    require_pairs(path, *shape, state.size)
    kind = index_kind(shape[0] * shape[1], state.size)
    rows: NDArray[Any] = state.astype(kind)
    rows *= shape[1]
    rows += action.astype(kind, copy=False)
    return rows


def model(path: Path, outcomes: OutcomeList, pair_reward: Array | None, about: About) -> MDP:
    """The model; ``pair_reward`` (S, A) or (S, 1) is paid beside the rewards of the outcomes."""
    found = merged_outcomes(about.shape, outcomes, pair_reward=pair_reward, per_outcome=about.per_outcome)
    stuck = ~found.allowed.any(axis=1)
    if stuck.any():
        state = int(stuck.argmax())
        name = state if about.state_names is None else repr(about.state_names[state])
        raise FileError(f"{path}: state {name} has no transition; a state where everything ends leads to itself")
    is_by_pair = found.rewards.shape == about.shape
    square = about.reward_square if is_by_pair and found.reward_square is None else found.reward_square
    return of_file(
        path,
        lambda: MDP(
            found.transitions,
            found.rewards,
            about.discount,
            about.start,
            allowed=found.allowed,
            reward_square=square,
            state_names=about.state_names,
            action_names=about.action_names,
            normalise=about.normalise,
            scene=about.scene,
        ),
    )


def require_pairs(path: Path, n_states: int, n_actions: int, n_outcomes: int) -> None:
    """Refuse tables (S, A) that a file with so many outcomes cannot be about."""
    if n_states * n_actions >= min(MOST_PAIRS, FREE_PAIRS + PAIRS_PER_OUTCOME * n_outcomes):
        raise FileError(
            f"{path}: {n_states} states times {n_actions} actions are too many pairs for {n_outcomes} outcomes"
        )
