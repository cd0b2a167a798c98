"""Explicit models of PRISM and Storm: ``model.tra``, and what lies beside it.

    .tra     PRISM:  # Transitions (MDP), S C T   then   state choice next probability [action]
             Storm:  mdp   then the same lines; a chain (S T, or dtmc) has no choices

Rewards of states are paid on leaving them, rewards of transitions per outcome. The first state is the label "init".
Models are written with the companion for what these files cannot hold: rewards that depend on the state alone go to
.srew, all others to .trew, and numbers are written with all their digits.
"""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import repeat
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from cautious.arrays import Array
from cautious.errors import FileError, IncompatibleError
from cautious.models.formats import companion, prism_parts
from cautious.models.formats.building import (
    ModelFacts,
    action_of_choices,
    build_model,
    initial_state,
    pair_rows,
    require_pairs,
    require_probabilities,
)
from cautious.models.formats.companion import outcome_rewards, refuse_reward_square
from cautious.models.formats.reader_options import (
    ReaderOptions,
    settled_discount,
    settled_reward,
    settled_start,
)
from cautious.models.formats.text import LineColumns, header_lines, read_columns
from cautious.models.outcome_lists import OutcomeList
from cautious.models.tabular import MDP
from cautious.regular_files import exists, opened, replacing

NAME = "PRISM explicit files"
KIND = re.compile(r"#.*\((\w+)\)")
LINE = {3: "state, choice, next state, probability and perhaps an action", 2: "state, next state, probability"}
REWARD_LINE = {3: "state, choice, next state and reward", 2: "state, next state and reward"}
WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
ROWS_PER_BLOCK = 100_000


def read(path: Path, given: ReaderOptions) -> MDP:
    """The model of a ``.tra`` and the files of the same name beside it."""
    given.refuse_others(path, NAME, "reward", "normalise")
    beside = companion.read(path)
    discount = settled_discount(path, given, beside.discount)
    columns, n_states = _transitions(path)
    chain = columns.whole.shape[0] == 2
    state, target = columns.whole[0], columns.whole[-1]
    choice = np.zeros(state.size, np.int32) if chain else columns.whole[1]
    for what, values in (("the state is", state), ("the next state is", target)):
        columns.refuse_outside(what, values, n_states)
    require_probabilities(columns.real, columns.refusal)
    require_pairs(path, n_states, int(choice.max()) + 1, state.size)
    is_alone = beside.n_states is None
    reward, state_reward = _rewards(path, given, columns, n_states, numbered=is_alone)
    action, words = action_of_choices(path, state, choice, columns.word, columns.words, beside.labels)
    shape = beside.sizes(path, n_states, len(words) if words is not None else int(choice.max()) + 1)
    names, action_names = beside.state_names, beside.action_names
    stored, missing = beside.start(path), None
    if is_alone:
        names, action_names = prism_parts.read_state_names(path.with_suffix(".sta"), n_states), words
        stored, missing = _first_state(path, n_states)
    start = settled_start(path, given, stored, n_states, names, missing)
    outcomes = OutcomeList(pair_rows(path, state, action, shape), target, columns.real, reward)
    del columns, state, target, choice, action, reward
    about = ModelFacts(
        shape,
        discount,
        start,
        names,
        action_names,
        scene=beside.scene,
        per_outcome=beside.per_outcome,
        normalise=given.normalise,
    )
    return build_model(path, outcomes, None if state_reward is None else state_reward[:, None], about)


def labels(path: Path) -> dict[str, Any]:
    """The labels of the model of a ``.tra``."""
    source = path.with_suffix(".lab")
    with opened(path) as stream:
        claimed, _, _ = _header(path, stream)
    return prism_parts.read_labels(source, claimed if claimed is not None else _transitions(path)[1])


def _transitions(path: Path) -> tuple[LineColumns, int]:
    """The lines of a ``.tra``, and the number of states."""
    with opened(path) as stream:
        claimed, n_whole, after = _header(path, stream)
        columns = read_columns(path, stream, after, n_whole, LINE[n_whole], words=n_whole == 3)
    n_lines = columns.real.size
    if n_lines == 0:
        raise FileError(f"{path}: no transitions")
    n_states = int(max(columns.whole[0].max(), columns.whole[-1].max())) + 1 if claimed is None else claimed
    if n_states > n_lines:
        raise FileError(f"{path}: {n_states} states but only {n_lines} transitions; every state needs one")
    return columns, n_states


def _header(path: Path, stream: BinaryIO) -> tuple[int | None, int, int]:
    """The number of states if it is told, the whole numbers in each line, and after how many lines they begin."""
    for number, text in header_lines(path, stream):
        if text.startswith("#"):
            if match := KIND.match(text):
                _require_kind(path, number, match[1])
            continue
        words = text.split()
        if not words:
            continue
        if len(words) == 1:
            return None, _require_kind(path, number, words[0]), number
        if len(words) in (2, 3) and all(word.isascii() and word.isdigit() and len(word) < 11 for word in words):
            return int(words[0]), len(words), number
        raise FileError(
            f"{path}, line {number}: expected the numbers of states, choices and transitions (PRISM) or the word mdp "
            f"(Storm), found {text[:80]!r}"
        )
    raise FileError(f"{path}: empty")


def _require_kind(path: Path, line: int, word: str) -> int:
    """The whole numbers in each line of a model of this kind."""
    kinds = {"MDP": 3, "DTMC": 2}
    if word.upper() not in kinds:
        raise FileError(f"{path}, line {line}: holds a model of kind {word!r}; only mdp and dtmc can be read")
    return kinds[word.upper()]


def _rewards(
    path: Path, given: ReaderOptions, columns: LineColumns, n_states: int, *, numbered: bool
) -> tuple[Array | None, Array | None]:
    """The reward of each line, and of each state (S,), of the structure that was asked for."""
    found = prism_parts.structures(path, numbered=numbered)
    place = settled_reward(path, given, [one.name for one in found])
    if place is None:
        return None, None
    chosen = found[place]
    of_states = None if chosen.states is None else _state_rewards(chosen.states, n_states)
    return None if chosen.transitions is None else _line_rewards(chosen.transitions, columns, n_states), of_states


def _state_rewards(path: Path, n_states: int) -> Array | None:
    found = prism_parts.read_rewards(path, n_states, 1, "state and reward")
    found.refuse_outside("the state is", found.whole[0], n_states)
    prism_parts.refuse_repeated(found, found.whole[0])
    rewards = np.zeros(n_states)
    rewards[found.whole[0]] = found.real
    return rewards if found.real.any() else None


def _line_rewards(path: Path, columns: LineColumns, n_states: int) -> Array | None:
    """The reward of each transition; those that are not listed pay nothing."""
    n_whole = columns.whole.shape[0]
    found = prism_parts.read_rewards(path, n_states, n_whole, REWARD_LINE[n_whole])
    if not found.real.any():
        return None
    if np.array_equal(found.whole, columns.whole):
        return found.real
    for row, what in ((0, "the state is"), (n_whole - 1, "the next state is")):
        found.refuse_outside(what, found.whole[row], n_states)
    n_choices = 1 if n_whole == 2 else int(columns.whole[1].max()) + 1
    if n_whole == 3:
        found.refuse_outside("the choice is", found.whole[1], n_choices)
    listed, wanted = _keys(found.whole, n_states, n_choices), _keys(columns.whole, n_states, n_choices)
    prism_parts.refuse_repeated(found, listed)
    order = np.argsort(listed)
    listed = listed[order]
    place = np.minimum(np.searchsorted(listed, wanted), listed.size - 1)
    hit = listed[place] == wanted
    strange = ~np.isin(listed, wanted)
    if strange.any():
        raise found.refusal(int(order[strange].min()), "a reward for a transition that the model does not have")
    return np.where(hit, found.real[order][place], 0.0)


def _keys(whole: NDArray[Any], n_states: int, n_choices: int) -> NDArray[np.int64]:
    keys: NDArray[np.int64] = whole[0].astype(np.int64)
    if whole.shape[0] == 3:
        keys *= n_choices
        keys += whole[1]
    keys *= n_states
    keys += whole[-1]
    return keys


def _first_state(path: Path, n_states: int) -> tuple[Array | None, str | None]:
    """The state with the label "init"; or None, and why there is none."""
    source = path.with_suffix(".lab")
    if not exists(source):
        return None, f"{source.name} with the label init is not beside it"
    return initial_state(prism_parts.read_labels(source, n_states).get("init"), source.name)


def write(path: Path, mdp: MDP) -> None:
    """Write a model as ``path`` and the files beside it."""
    refuse_reward_square(mdp, "explicit files of PRISM")
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
            suffix: files.enter_context(replacing(path.with_suffix(suffix))) for suffix in (".trew", ".srew", ".lab")
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


def state_rewards(mdp: MDP) -> Array | None:
    """Rewards (S,) if they depend on the state alone."""
    if mdp.outcome_rewards is not None:
        return None
    column = np.take_along_axis(mdp.rewards, mdp.allowed.argmax(axis=1)[:, None], axis=1)
    return column[:, 0] if np.array_equal(np.where(mdp.allowed, column, 0.0), mdp.rewards) else None


def _lines(mdp: MDP, values: Array, labels: list[str] | None) -> Iterator[bytes]:
    """Lines ``state choice next value [action]`` of all transitions, some thousands at a time."""
    n_actions, rows = mdp.n_actions, mdp.transitions
    choice = np.cumsum(mdp.allowed, axis=1).ravel() - 1
    for low in range(0, rows.shape[0], ROWS_PER_BLOCK):
        high = min(low + ROWS_PER_BLOCK, rows.shape[0])
        begin, end = int(rows.indptr[low]), int(rows.indptr[high])
        row = np.repeat(np.arange(low, high), np.diff(rows.indptr[low : high + 1]))
        columns = (row // n_actions, choice[row], rows.indices[begin:end], values[begin:end])
        words = repeat("") if labels is None else (f" {labels[a]}" for a in (row % n_actions).tolist())
        entries = zip(*(column.tolist() for column in columns), words, strict=False)
        yield "".join([f"{s} {c} {t} {x!r}{word}\n" for s, c, t, x, word in entries]).encode()
