"""A folder of results: one file for each job, written whole or not at all, and the question that they answer.

``question.json`` says what the jobs are about, by name: digests of models, settings of methods. Names may be
added; a name whose value has changed is refused. A result has a checksum; one that is damaged counts as missing, with a
warning.
"""

import hashlib
import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cautious.errors import CautiousWarning, FileError
from cautious.regular_files import content, exists, make_folder, replacing
from cautious.storage import plain, unplain

QUESTION, RESULTS = "question.json", "results"
LARGEST_RESULT, LARGEST_QUESTION = 2**26, 2**24

# a description of one run: texts, numbers and None
Job = Mapping[str, Any]


class ResultFolder:
    """Results on the disk, by job; ``question`` maps names to texts or numbers that must not change."""

    def __init__(self, path: str | os.PathLike[str], question: Mapping[str, Any]) -> None:
        self.path = make_folder(path)
        file = self.path / QUESTION
        known = _question_in(file) if exists(file) else {}
        for name, value in question.items():
            if name in known and known[name] != value:
                raise FileError(
                    f"{self.path} holds results of another question: {name} was {known[name]!r} and is {value!r} now; "
                    "use another folder"
                )
        make_folder(self.path / RESULTS)
        if dict(known) != {**known, **question}:
            _write(file, {**known, **question})

    def read(self, job: Job) -> Any:
        """The result of a job, or None where there is none yet."""
        file = self._file(job)
        if not exists(file):
            return None
        try:
            found = json.loads(content(file, LARGEST_RESULT))
            if found["sha256"] != _digest([found["job"], found["result"]]) or found["job"] != plain(dict(job)):
                raise ValueError("the checksum does not fit")
        except (FileError, ValueError, LookupError, TypeError, RecursionError) as error:
            warnings.warn(f"{file} is damaged ({error}); it is computed again", CautiousWarning, stacklevel=2)
            return None
        return unplain(found["result"])

    def write(self, job: Job, result: Any) -> None:
        """Keep a result, so that it is there after any crash from now on."""
        file, parts = self._file(job), [plain(dict(job)), plain(result)]
        make_folder(file.parent)
        _write(file, {"job": parts[0], "result": parts[1], "sha256": _digest(parts)})

    def _file(self, job: Job) -> Path:
        # few files in each folder: writing one looks at its neighbours
        name = _digest(plain(dict(job)))
        return self.path / RESULTS / name[:2] / f"{name[2:32]}.json"


def _question_in(file: Path) -> dict[str, Any]:
    try:
        found = json.loads(content(file, LARGEST_QUESTION))
    except (ValueError, RecursionError) as error:
        raise FileError(f"{file}: damaged ({error}); use another folder") from None
    if not isinstance(found, dict):
        raise FileError(f"{file}: not the question of a sweep, found {str(found)[:80]}; use another folder")
    return found


def _write(file: Path, value: Any) -> None:
    with replacing(file) as stream:
        stream.write((json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode())


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
