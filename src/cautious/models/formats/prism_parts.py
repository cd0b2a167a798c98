"""The files beside a PRISM ``.tra``: labels (.lab), rewards (.srew, .trew), values of the variables (.sta).

PRISM and Storm write them differently; both are read.

    .lab     PRISM:  0="init" 1="deadlock"   then   3: 0 1        Storm:  #DECLARATION, names, #END   then   3 init done
    .srew    PRISM:  # Reward structure "time", # State rewards, S N   then   3 0.5        Storm:  lines only
    .trew    PRISM:  # Reward structure "time", # Transition rewards, S C T   then   3 0 4 0.5    Storm:  lines only
"""

import glob
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cautious.arrays import Mask
from cautious.errors import FileError
from cautious.models.formats.text import LineColumns, header_lines, read_columns
from cautious.regular_files import exists, opened

DECLARED = re.compile(r'(\d+)="([^"]*)"')
STRUCTURE = re.compile(r'#\s*Reward structure\s+"([^"]*)"')


def read_labels(path: Path, n_states: int) -> dict[str, Mask]:
    """The states (S,) that carry each label."""
    with opened(path) as stream:
        lines = ((number, text) for number, text in header_lines(path, stream) if text)
        for _, text in lines:
            if text == "#DECLARATION":
                names = {word: word for _, text in _until(path, lines) for word in text.split()}
                break
            if not text.startswith("#"):
                names = dict(DECLARED.findall(text))
                if not names or DECLARED.sub("", text).strip():
                    raise FileError(f'{path}: expected labels such as 0="init" 1="goal", found {text[:80]!r}')
                break
        else:
            raise FileError(f"{path}: no labels are declared")
        labels = {name: np.zeros(n_states, np.bool_) for name in names.values()}
        for number, text in lines:
            if text.startswith("#"):
                continue
            state, *carried = text.replace(":", " ", 1).split() or (text,)
            if not (state.isascii() and state.isdigit() and int(state[:20]) < n_states):
                raise FileError(
                    f"{path}, line {number}: expected a state from 0 to {n_states - 1}, found {state[:80]!r}"
                )
            for one in carried:
                if one not in names:
                    raise FileError(f"{path}, line {number}: the label {one[:80]!r} is not declared")
                labels[names[one]][int(state)] = True
    return labels


def _until(path: Path, lines: Iterator[tuple[int, str]]) -> list[tuple[int, str]]:
    found: list[tuple[int, str]] = []
    for number, text in lines:
        if text == "#END":
            return found
        found.append((number, text))
    raise FileError(f"{path}: #END is missing after #DECLARATION")


@dataclass(frozen=True)
class RewardStructure:
    """A reward structure: its name, and the files that hold its parts."""

    name: str
    states: Path | None
    transitions: Path | None


def structures(path: Path, *, numbered: bool) -> list[RewardStructure]:
    """The reward structures beside a ``.tra``: model.srew and model.trew, or model1.srew, model2.srew and so on."""
    pattern = re.compile(re.escape(path.stem) + r"([1-9]\d{0,3}|)\.[st]rew")
    matches = [pattern.fullmatch(part.name) for part in path.parent.glob(f"{glob.escape(path.stem)}*.[st]rew")]
    found = []
    for number in sorted({int(match[1] or 0) for match in matches if match}):
        stem = path.stem + (str(number) if number else "")
        # model1.srew belongs to model1.tra if there is one
        if number and (not numbered or exists(path.with_name(stem + ".tra"))):
            continue
        parts = [path.with_name(stem + suffix) for suffix in (".srew", ".trew")]
        states, transitions = (part if exists(part) else None for part in parts)
        names = [_structure_name(part) for part in (states, transitions) if part]
        name = next((name for name in names if name), str(number or 1))
        found.append(RewardStructure(name, states, transitions))
    return found


def _structure_name(path: Path) -> str | None:
    with opened(path) as stream:
        for _, text in header_lines(path, stream):
            if match := STRUCTURE.match(text):
                return match[1]
            if text and not text.startswith("#"):
                return None
    return None


def read_rewards(path: Path, n_states: int, n_whole: int, expected: str) -> LineColumns:
    """Lines of a reward file, with or without a header.

    A header has one number less than a line of transition rewards; of state rewards, it begins with S, which is no
    state.
    """
    skipped = 0
    with opened(path) as stream:
        for number, text in header_lines(path, stream):
            words = text.split()
            if not text or text.startswith("#"):
                continue
            if len(words) == n_whole or (n_whole == 1 and words[0] == str(n_states)):
                if words[0] != str(n_states):
                    raise FileError(f"{path}, line {number}: claims {words[0][:80]} states, the model has {n_states}")
                skipped = number
            break
    with opened(path) as stream:
        for _ in range(skipped):
            stream.readline()
        return read_columns(path, stream, skipped, n_whole, expected, words=False)


def refuse_repeated(rewards: LineColumns, keys: NDArray[Any]) -> None:
    """Refuse two lines about the same thing, whose ``keys`` (n,) are equal."""
    order = np.argsort(keys, kind="stable")
    again = keys[order[1:]] == keys[order[:-1]]
    if again.any():
        raise rewards.refusal(int(order[1:][again].min()), "a second reward for the same")


def read_state_names(path: Path, n_states: int) -> tuple[str, ...] | None:
    """Names such as "x=1,y=0" from the values of the variables; None without the file."""
    if not exists(path):
        return None
    with opened(path) as stream:
        lines = ((number, text) for number, text in header_lines(path, stream) if text and not text.startswith("#"))
        head = next(lines, (0, ""))[1]
        variables = head.removeprefix("(").removesuffix(")").split(",")
        names: list[str] = []
        for number, text in lines:
            state, _, rest = text.partition(":")
            values = rest.strip().removeprefix("(").removesuffix(")").split(",")
            if state.strip() != str(len(names)) or len(values) != len(variables):
                raise FileError(f"{path}, line {number}: expected {len(names)}:({head}), found {text[:80]!r}")
            names.append(",".join(f"{name}={value}" for name, value in zip(variables, values, strict=True)))
    if len(names) != n_states:
        raise FileError(f"{path}: lists {len(names)} states, the model has {n_states}")
    return tuple(names)
