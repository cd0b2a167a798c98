"""Writing the explicit files of PRISM: .tra, .lab, .srew, .trew, and the companion for what they cannot hold.

Rewards that depend on the state alone go to .srew, all others to .trew. Numbers are written with all their digits.
"""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from cautious import storage as _storage
from cautious.arrays import Array
from cautious.errors import IncompatibleError
from cautious.models.encodings import row_of_entries
from cautious.models.formats import companion

if TYPE_CHECKING:
    from cautious.models.tabular import MDP

WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
BLOCK = 100_000


def write(path: Path, mdp: "MDP") -> None:
    """Write a model as ``path`` and the files beside it."""
    refuse_spread(mdp, "explicit files of PRISM")
    first = np.flatnonzero(mdp.start)
    if first.size != 1:
        raise IncompatibleError(
            f"explicit files of PRISM start in one state, this model in {first.size}; save as .umb or .npz, or make a "
            "model with one more state that leads to these"
        )
    named = mdp.action_names is not None and all(WORD.fullmatch(name) for name in mdp.action_names)
    labels = list(mdp.action_names or ()) if named else [f"a{a}" for a in range(mdp.n_actions)]
    by_state = state_rewards(mdp)
    with ExitStack() as files:
        # every file is complete on the disk before the first takes its place
        streams = {
            suffix: files.enter_context(_storage.replacing(path.with_suffix(suffix)))
            for suffix in (".trew", ".srew", ".lab")
        }
        main = files.enter_context(companion.replacing(path, mdp, labels))
        n_choices, rows = int(mdp.allowed.sum()), mdp.transitions
        main.write(f"# Transitions (MDP)\n{mdp.n_states} {n_choices} {rows.nnz}\n".encode())
        for block in _lines(mdp, rows.data, labels):
            main.write(block)
        streams[".lab"].write(f'# Labels\n0="init" 1="deadlock"\n{first[0]}: 0\n'.encode())
        paid = {} if by_state is None else {s: x for s, x in enumerate(by_state.tolist()) if x != 0}
        lines = "".join(f"{s} {x!r}\n" for s, x in paid.items())
        head = '# Reward structure "reward"\n'
        streams[".srew"].write(f"{head}# State rewards\n{mdp.n_states} {len(paid)}\n{lines}".encode())
        n_paid = rows.nnz if by_state is None else 0
        streams[".trew"].write(f"{head}# Transition rewards\n{mdp.n_states} {n_choices} {n_paid}\n".encode())
        if by_state is None:
            for block in _lines(mdp, outcome_rewards(mdp), None):
                streams[".trew"].write(block)


def refuse_spread(mdp: "MDP", what: str) -> None:
    """Refuse rewards (S, A) with a spread that only ``reward_square`` tells, and models without transitions."""
    mdp.require_transitions(f"writing {what}")
    if tells_spread(mdp):
        excess = mdp.reward_square - mdp.rewards**2
        state, action = divmod(int(np.argmax(excess)), mdp.n_actions)
        raise IncompatibleError(
            f"{what} cannot hold reward_square, which at ({state}, {action}) is {excess[state, action]:g} above the "
            "squared mean; save as .umb or .npz"
        )


def tells_spread(mdp: "MDP") -> bool:
    """Whether ``reward_square`` says more than the rewards, be it by one digit: what is read back must be the same."""
    if mdp.outcome_rewards is not None:
        return False
    with np.errstate(over="ignore"):
        return not np.array_equal(mdp.reward_square, mdp.rewards**2)


def state_rewards(mdp: "MDP") -> Array | None:
    """Rewards (S,) if they depend on the state alone."""
    if mdp.outcome_rewards is not None:
        return None
    column = np.take_along_axis(mdp.rewards, mdp.allowed.argmax(axis=1)[:, None], axis=1)
    return column[:, 0] if np.array_equal(np.where(mdp.allowed, column, 0.0), mdp.rewards) else None


def outcome_rewards(mdp: "MDP") -> Array:
    """What each stored transition pays."""
    if mdp.outcome_rewards is not None:
        return mdp.outcome_rewards
    return np.asarray(mdp.rewards.ravel()[row_of_entries(mdp.transitions)])


def _lines(mdp: "MDP", values: Array, labels: list[str] | None) -> Iterator[bytes]:
    """Lines ``state choice next value [action]`` of all transitions, some thousands at a time."""
    n_actions, rows = mdp.n_actions, mdp.transitions
    choice = np.cumsum(mdp.allowed, axis=1).ravel() - 1
    for low in range(0, rows.shape[0], BLOCK):
        high = min(low + BLOCK, rows.shape[0])
        begin, end = int(rows.indptr[low]), int(rows.indptr[high])
        row = np.repeat(np.arange(low, high), np.diff(rows.indptr[low : high + 1]))
        columns = (row // n_actions, choice[row], rows.indices[begin:end], values[begin:end])
        words = repeat("") if labels is None else (f" {labels[a]}" for a in (row % n_actions).tolist())
        entries = zip(*(column.tolist() for column in columns), words, strict=False)
        yield "".join([f"{s} {c} {t} {x!r}{word}\n" for s, c, t, x, word in entries]).encode()
