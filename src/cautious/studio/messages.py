"""What a page says: JSON in, checked statements out; every error names the field, what was found, what is allowed.

A page states its whole problem in every message. A field that is not known is refused, like everywhere in this package;
fields of a risk or of the pays that are left out have the defaults of their classes.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, NoReturn

from cautious.errors import InputError
from cautious.models.horizons import AVERAGE, TOTAL, Horizon
from cautious.problem_files.keys import allow, one_of, require
from cautious.studio.scenario import LARGEST_SIDE, MARKS, WORLDS, Grid, Limits, Pays, RiskChoice, Statement
from cautious.studio.uploads import LARGEST_FILES, LARGEST_UPLOAD, OPTIONS, Upload, check_names
from cautious.worlds.grids import WALL

LARGEST_MESSAGE = 256 * 1024
LARGEST_PAY = 1e6
LARGEST_CAUTION = 1e9
LARGEST_DISCOUNT = 0.9999
LARGEST_HORIZON = 1000
LARGEST_BOUND = 1e12
LARGEST_OWN_LIMITS = 100
LARGEST_DANGER = 10_000
LARGEST_NUMBER = 2**53
RISKS = ("own", "none", "peak", "variance", "cvar", "kl", "tv", "entropy")
HABITS = ("careful", "random")
EXPORTS = ("report", "policy", "problem")
# the maps that a page can have on the screen
SIDES = ("map", "left", "right")
METHODS = ("paper", "primal-dual", "plug-in")
CONTROLS = ("pause", "resume", "stop")
LARGEST_HEAD = 16 * 1024
LARGEST_OPTION = 200
LARGEST_RACE = 10_000_000


@dataclass(frozen=True)
class Message:
    """What a page asks.

    ``kind`` is "solve" (best policy, then the frontier), "walk" (what the walkers of a ``side`` need), "returns" (how
    those of a ``side`` are distributed), "race" (learn with up to ``samples``), "open" (read a saved statement), or a
    file to export, one of ``EXPORTS``.
    """

    kind: str
    number: int
    statement: Statement
    side: str = ""
    samples: int = 0


@dataclass(frozen=True)
class World:
    """Open one of the worlds that a page offers, ``WORLDS``."""

    number: int
    name: str


@dataclass(frozen=True)
class Control:
    """Pause, resume or stop the race of a page."""

    what: str


def parse(text: str) -> Message | Control | World:
    """The message in a text, or an InputError."""
    if len(text) > LARGEST_MESSAGE:
        raise InputError(f"the message has {len(text):,} characters; at most {LARGEST_MESSAGE:,} are read")
    content = _json("the message", text)
    keys = {"solve": ("statement",), "walk": ("statement", "side"), "export": ("statement", "what")}
    keys |= {
        "returns": ("statement", "side"),
        "open": ("text",),
        "race": ("statement", "samples"),
        "control": ("what",),
        "world": ("name",),
    }
    if not isinstance(content, Mapping):
        raise InputError(f"a message is a JSON object, found {_found(content)}")
    kind = one_of("type", content.get("type"), keys)
    _complete(content, "the message", ("type", "number", *keys[kind]))
    number = _whole("number", content["number"], 0, LARGEST_NUMBER)
    if kind == "export":
        kind = one_of("what", content["what"], EXPORTS)
    if kind == "control":
        return Control(one_of("what", content["what"], CONTROLS))
    if kind == "world":
        return World(number, one_of("name", content["name"], tuple(WORLDS)))
    side = one_of("side", content["side"], SIDES) if "side" in content else ""
    samples = _whole("samples", content["samples"], 1, LARGEST_RACE) if "samples" in content else 0
    if kind != "open":
        return Message(kind, number, read_statement(content["statement"]), side, samples)
    if not isinstance(content["text"], str):
        raise InputError(f"text must be the content of a saved grid, found {_found(content['text'])}")
    saved = read_statement(_json("the file", content["text"]))
    if saved.grid is None:
        raise InputError("the file has no grid: it was saved from a model that cannot be painted")
    return Message(kind, number, saved)


def parse_upload(data: bytes) -> Upload:
    """Files that a page sends: the length of a JSON head (4 bytes, little-endian), the head, and the files in a row."""
    if len(data) > LARGEST_UPLOAD:
        raise InputError(f"the files have {len(data):,} bytes; the studio opens at most {LARGEST_UPLOAD:,}")
    size = int.from_bytes(data[:4], "little")
    if len(data) < 4 or not 2 <= size <= min(LARGEST_HEAD, len(data) - 4):
        raise InputError("the upload has no head")
    head = _json("the head of the upload", data[4 : 4 + size].decode("utf-8", "replace"))
    _complete(head, "the head of the upload", ("number", "files", "options"))
    number, listed = _whole("number", head["number"], 0, LARGEST_NUMBER), head["files"]
    if not isinstance(listed, list) or not 1 <= len(listed) <= LARGEST_FILES:
        raise InputError(f"files must be a list of 1 to {LARGEST_FILES} files, found {_found(listed)}")
    names, at, files = [], 4 + size, dict[str, bytes]()
    for i, one in enumerate(listed):
        if not isinstance(one, list) or len(one) != 2 or not isinstance(one[0], str):
            raise InputError(f"files[{i}] must be a name and a number of bytes, found {_found(one)}")
        names.append(one[0])
        length = _whole(f"files[{i}][1]", one[1], 0, LARGEST_UPLOAD)
        files[one[0]] = data[at : at + length]
        at += length
    check_names(names)
    if at != len(data):
        raise InputError(f"the files should have {at:,} bytes with their head, and {len(data):,} came")
    return Upload(number, files, _options(head["options"]))


def _options(content: Any) -> dict[str, Any]:
    allow(content, "options", OPTIONS)
    found: dict[str, Any] = {}
    if content.get("discount") is not None:
        found["discount"] = _number("options.discount", content["discount"], 0.0, 1.0)
    for name in OPTIONS[1:]:
        text = content.get(name)
        if text is None:
            continue
        if not isinstance(text, str) or len(text) > LARGEST_OPTION:
            raise InputError(f"options.{name} must be a text of at most {LARGEST_OPTION} characters")
        found[name] = text
    return found


def number_of(text: str) -> int | None:
    """The number of a message that ``parse`` refuses, if it has one: the page must know which question was refused."""
    if len(text) > LARGEST_MESSAGE:
        return None
    try:
        return _whole("number", _json("the message", text)["number"], 0, LARGEST_NUMBER)
    except (InputError, TypeError, LookupError):
        return None


def read_statement(content: Any) -> Statement:
    """A statement from JSON."""
    allow(content, "the statement", [field.name for field in fields(Statement)])
    require(content, "the statement", ("grid", "risk", "caution"))
    horizon = _horizon(content.get("horizon"))
    grid = None if content["grid"] is None else _grid(content["grid"], horizon)
    caution = _number("caution", content["caution"], 0.0, LARGEST_CAUTION)
    limits, danger = _limits(content.get("limits", {})), _danger(content.get("danger", []), grid)
    if grid is not None and limits.own:
        raise InputError("limits.own is for a problem that was opened; a grid has limits on its danger only")
    step = _whole("step", content.get("step", 0), 0, horizon if isinstance(horizon, int) else 0)
    return Statement(grid, _risk(content["risk"]), caution, danger, limits, horizon, step)


def _horizon(content: Any) -> Horizon:
    if content is None or isinstance(content, str):
        return None if content is None else one_of("horizon", content, (AVERAGE, TOTAL))  # type: ignore[return-value]
    return _whole("horizon", content, 1, LARGEST_HORIZON)


def _limits(content: Any) -> Limits:
    allow(content, "limits", [field.name for field in fields(Limits)])
    own = content.get("own", [])
    if not isinstance(own, list) or len(own) > LARGEST_OWN_LIMITS:
        raise InputError(f"limits.own must be a list of at most {LARGEST_OWN_LIMITS} bounds, found {_found(own)}")
    bounds = [_bound(f"limits.own[{i}]", bound, -LARGEST_BOUND) for i, bound in enumerate(own)]
    time, ever = (_bound(f"limits.{name}", content.get(name), 0.0) for name in ("time", "ever"))
    return Limits(time, ever, tuple(bounds))


def _bound(name: str, content: Any, least: float) -> float | None:
    return None if content is None else _number(name, content, least, LARGEST_BOUND)


def _grid(content: Any, horizon: Horizon) -> Grid:
    _complete(content, "grid", ("rows", "pays", "slip", "discount"))
    rows = content["rows"]
    if not isinstance(rows, list) or not 1 <= len(rows) <= LARGEST_SIDE:
        raise InputError(f"grid.rows must be a list of 1 to {LARGEST_SIDE} rows, found {_found(rows)}")
    for i, row in enumerate(rows):
        if not isinstance(row, str) or not 1 <= len(row) <= LARGEST_SIDE:
            raise InputError(f"grid.rows[{i}] must be a text of 1 to {LARGEST_SIDE} cells, found {_found(row)}")
        if len(row) != len(rows[0]):
            raise InputError(f"grid.rows[{i}] has {len(row)} cells; every row must have {len(rows[0])}, like the first")
        for j, mark in enumerate(row):
            if mark not in MARKS:
                raise InputError(f"grid.rows[{i}] has {mark!r} in column {j}; a cell is one of {' '.join(MARKS)}")
    if not set("".join(rows)) - {WALL}:
        raise InputError("every cell is a wall; leave at least one to stand on")
    allow(content["pays"], "grid.pays", [field.name for field in fields(Pays)])
    pays = {
        key: _number(f"grid.pays.{key}", value, -LARGEST_PAY, LARGEST_PAY) for key, value in content["pays"].items()
    }
    slip = _number("grid.slip", content["slip"], 0.0, 1.0)
    largest = LARGEST_DISCOUNT if horizon is None else 1.0
    return Grid(tuple(rows), Pays(**pays), slip, _number("grid.discount", content["discount"], 0.0, largest))


def _risk(content: Any) -> RiskChoice:
    allow(content, "risk", [field.name for field in fields(RiskChoice)])
    default = RiskChoice()
    return RiskChoice(
        one_of("risk.kind", content.get("kind", default.kind), RISKS),
        _number("risk.level", content.get("level", default.level), 0.0, 0.999),
        one_of("risk.habit", content.get("habit", default.habit), HABITS),
    )


def _danger(content: Any, grid: Grid | None) -> tuple[int, ...]:
    if not isinstance(content, list) or len(content) > LARGEST_DANGER:
        raise InputError(f"danger must be a list of at most {LARGEST_DANGER:,} states, found {_found(content)}")
    if grid is not None and content:
        raise InputError("danger is for a model that was opened; on a grid it is painted")
    states = {_whole(f"danger[{i}]", state, 0, LARGEST_NUMBER) for i, state in enumerate(content)}
    return tuple(sorted(states))


def _json(name: str, text: str) -> Any:
    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is not a number of JSON")

    try:
        return json.loads(text, parse_constant=refuse)
    except RecursionError:
        raise InputError(f"{name} is nested too deeply") from None
    except ValueError as error:
        raise InputError(f"{name} is not JSON: {error}") from None


def _complete(content: Any, where: str, keys: tuple[str, ...]) -> None:
    allow(content, where, keys)
    require(content, where, keys)


def _number(name: str, value: Any, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{name} must be a number, found {_found(value)}")
    # compared as it is: a whole number may be too large for a float
    if not low <= value <= high or not math.isfinite(value):
        raise InputError(f"{name} is {_found(value)}; it must be a number from {low:g} to {high:g}")
    return float(value)


def _whole(name: str, value: Any, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InputError(f"{name} must be a whole number from {low} to {high}, found {_found(value)}")
    return value


def _found(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=True)
    return text if len(text) <= 60 else text[:57] + "..."
