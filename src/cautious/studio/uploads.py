"""Models that a page brings: checked names and sizes, and the same readers as for files of the command line.

The bytes lie in a folder that only this user can read and that is gone afterwards. A problem file may name files that
came with it and nothing else on this computer, and it runs no environment.
"""

import re
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cautious.errors import CautiousError, FileError, InputError
from cautious.models.horizons import AVERAGE, TOTAL
from cautious.models.tabular import MDP
from cautious.problem import Problem
from cautious.problem_files.model_entries import TABLE_SUFFIXES, WORDS, holds_transitions, model_of
from cautious.problem_files.reading import read_problem

LARGEST_UPLOAD = 16 * 2**20
LARGEST_FILES = 20
# what one answer can be about
LARGEST_MODEL = 5_000_000
# a problem file comes before what it names, a model before its labels and rewards
ORDER = (".toml", ".npz", ".umb", ".mat", ".tra", *TABLE_SUFFIXES)
PLAIN_NAME = re.compile(r"[\w][\w .()+,=@-]{0,99}")
OPTIONS = ("discount", "at_end", "start", "untried")
FIRST_STEPS = 40


@dataclass(frozen=True)
class Upload:
    """Files by name, and the options that stand beside a model in a problem file, as far as they were given."""

    number: int
    files: Mapping[str, bytes]
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def main(self) -> str:
        """The file that is read; it names or is beside the others."""
        ranked = [(ORDER.index(suffix), name) for name in self.files if (suffix := Path(name).suffix.lower()) in ORDER]
        if not ranked:
            raise InputError(f"none of the files is a model; a model ends in one of {', '.join(ORDER)}")
        return min(ranked)[1]


def check_names(names: list[str]) -> None:
    """Names of files are names, not paths."""
    for name in names:
        if not PLAIN_NAME.fullmatch(name) or name.endswith((".", " ")):
            raise InputError(f"{name!r} is no plain name of a file; letters, digits, blanks and . ( ) + , = @ - are")
    if len(set(names)) != len(names):
        raise InputError("two of the files have the same name")


def read_upload(upload: Upload) -> Problem:
    """The problem in some files, or what their reader says."""
    main = upload.main
    with tempfile.TemporaryDirectory(prefix="cautious-studio-") as given:
        folder = Path(given)
        for name, content in upload.files.items():
            (folder / name).write_bytes(content)
        try:
            found = _read(folder / main, upload)
        except CautiousError as error:
            # the temporary folder says nothing to a user
            raise type(error)(str(error).replace(f"{given}/", "").replace(given, "the upload")) from None
    if found.mdp.transitions.nnz > LARGEST_MODEL:
        raise InputError(f"{main} has {found.mdp.transitions.nnz:,} transitions; the studio opens {LARGEST_MODEL:,}")
    return found


def _read(path: Path, upload: Upload) -> Problem:
    if path.suffix.lower() == ".toml":
        if upload.options:
            raise InputError(f"{next(iter(upload.options))} is not for a problem file: give it in {path.name}, [model]")
        _check_problem_file(path, upload)
        return read_problem(path)
    is_log = path.suffix.lower() in TABLE_SUFFIXES and holds_transitions(path)
    return undiscounted_too(model_of({"transitions" if is_log else "file": path.name, **upload.options}, path.parent))


def undiscounted_too(mdp: MDP) -> Problem:
    """The problem of a model alone; one with discount 1 gets the first horizon that fits."""
    if mdp.discount < 1:
        return Problem(mdp)
    for horizon in (TOTAL, AVERAGE):
        try:
            return Problem(mdp, horizon=horizon)  # type: ignore[arg-type]
        except CautiousError:
            continue
    return Problem(mdp, horizon=FIRST_STEPS)


def _check_problem_file(path: Path, upload: Upload) -> None:
    """Refuse what reaches beyond the upload."""
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        # the reader says what is wrong with it
        return
    if isinstance(model := tables.get("model"), dict) and "gym" in model:
        raise FileError(
            f"{path.name}: a problem that was uploaded runs no environment; open it with: cautious studio {path.name}"
        )
    for text in _texts(tables):
        if "/" in text or "\\" in text:
            raise FileError(
                f"{path.name}: {text[:60]!r} has a slash; a problem that was uploaded names only files that were "
                "uploaded with it, without folders"
            )
        name = text.partition(":")[0]
        if ":" in text and len(name) == 1:
            raise FileError(
                f"{path.name}: {text[:60]!r} is on a drive; a problem that was uploaded names only its files"
            )
        if Path(name).suffix in (*ORDER, ".npy", ".lab", ".srew", ".trew", ".sta") and name not in upload.files:
            raise FileError(f"{path.name}: {name!r} is missing; upload it together with the problem file")


def _texts(value: Any) -> Iterator[str]:
    """Every text in a TOML file that may be the name of a file."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)
    elif isinstance(value, dict):
        for key, one in value.items():
            if key not in WORDS:
                yield from _texts(one)
