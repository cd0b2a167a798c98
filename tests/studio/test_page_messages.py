"""Messages: what is said comes through, and everything else is refused by a sentence that names the field."""

import contextlib
import copy
import json
import random

import pytest

import cautious as ca
from cautious.studio.messages import EXPORTS, LARGEST_MESSAGE, RISKS, Message, parse, read_statement
from cautious.studio.scenario import EXAMPLES, Limits
from studio.conftest import solve_message, statement


@pytest.mark.parametrize("name", EXAMPLES)
@pytest.mark.parametrize("kind", RISKS)
@pytest.mark.parametrize("horizon", [None, 7, "average", "total"])
def test_a_statement_survives_the_way_there(name, kind, horizon):
    said = statement(name, kind, 2.5, Limits(0.03, 0.5), horizon, level=0.75, habit="random")
    text = json.dumps({"type": "solve", "number": 7, "statement": said.plain()})
    assert parse(text) == Message("solve", 7, said)


def test_exports_and_saved_grids():
    plain = statement().plain()
    for what in EXPORTS:
        text = json.dumps({"type": "export", "number": 2, "statement": plain, "what": what})
        assert parse(text) == Message(what, 2, statement())
    text = json.dumps({"type": "open", "number": 3, "text": json.dumps(plain)})
    assert parse(text) == Message("open", 3, statement())


def changed(path, value):
    plain = json.loads(json.dumps(statement().plain()))
    place = plain
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return plain


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (["caution"], -1, "caution is -1; it must be a number from 0 to 1e+09"),
        (["caution"], "a lot", 'caution must be a number, found "a lot"'),
        (["caution"], True, "caution must be a number, found true"),
        (["caution"], 10**400, "caution is 1000000"),
        (["risk", "kind"], "varience", "did you mean 'variance'?"),
        (["risk", "kind"], "safe", "risk.kind is 'safe'"),
        (["limits"], [], "limits must be a table"),
        (["limits"], {"tme": 1}, "limits has an unknown key 'tme'"),
        (["limits", "time"], -0.1, "limits.time is -0.1; it must be a number from 0"),
        (["limits", "ever"], "x", 'limits.ever must be a number, found "x"'),
        (["limits", "own"], 3, "limits.own must be a list of at most 100 bounds, found 3"),
        (["limits", "own"], [True], "limits.own[0] must be a number, found true"),
        (["limits", "own"], [0.1], "limits.own is for a problem that was opened"),
        (["horizon"], 0, "horizon must be a whole number from 1 to"),
        (["horizon"], 2.5, "horizon must be a whole number from 1 to"),
        (["horizon"], "year", "horizon is 'year'; it can be average, total"),
        (["step"], 1, "step must be a whole number from 0 to 0"),
        (["risk", "level"], 1, "risk.level is 1"),
        (["risk", "habit"], "reckless", "risk.habit is 'reckless'; it can be careful, random"),
        (["risk", "colour"], 1, "risk has an unknown key 'colour'"),
        (["grid", "rows"], [], "grid.rows must be a list of 1 to 60 rows"),
        (["grid", "rows"], ["."] * 61, "grid.rows must be a list of 1 to 60 rows"),
        (["grid", "rows"], ["." * 61], "grid.rows[0] must be a text of 1 to 60 cells"),
        (["grid", "rows"], ["..", "."], "grid.rows[1] has 1 cells; every row must have 2"),
        (["grid", "rows"], ["..", ".x"], "grid.rows[1] has 'x' in column 1"),
        (["grid", "rows"], ["##"], "every cell is a wall"),
        (["grid", "slip"], 1.5, "grid.slip is 1.5; it must be a number from 0 to 1"),
        (["grid", "discount"], 1, "grid.discount is 1; it must be a number from 0 to 0.9999"),
        (["grid", "discount"], 1.5, "grid.discount is 1.5"),
        (["grid", "pays", "step"], 1e7, "grid.pays.step is 10000000.0"),
        (["grid", "pays"], {"toll": 1}, "grid.pays has an unknown key 'toll'"),
        (["danger"], [1], "on a grid it is painted"),
    ],
)
def test_what_is_wrong_is_named(path, value, words):
    with pytest.raises(ca.InputError) as caught:
        read_statement(changed(path, value))
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not JSON"),
        ("[" * 100_000, "nested too deeply"),
        ("null", "a message is a JSON object, found null"),
        ('{"type": "solve"}', "the message needs number"),
        ('{"type": "run", "code": "1"}', "type is 'run'"),
        ('{"type": "solve", "number": 1, "statement": NaN}', "NaN is not a number of JSON"),
        ('{"type": "open", "number": 1, "text": 5}', "text must be the content of a saved grid"),
        ('{"type": "open", "number": 1, "text": "PK"}', "the file is not JSON"),
        (" " * (LARGEST_MESSAGE + 1), "at most 262,144 are read"),
    ],
)
def test_texts_that_are_no_message(text, words):
    with pytest.raises(ca.InputError) as caught:
        parse(text)
    assert words in str(caught.value)


def test_a_saved_model_is_no_grid():
    saved = json.dumps(statement().plain() | {"grid": None})
    with pytest.raises(ca.InputError, match="the file has no grid"):
        parse(json.dumps({"type": "open", "number": 1, "text": saved}))


NUMBERS = [-1, 0, 1e308, -1e308, 2**70]
ODD = [None, True, *NUMBERS, "", "x" * 100, "\ud800", "\0", "../etc/passwd", [], {}, [[]], {"kind": []}]


def mutated(rng):
    """A message with some of its parts replaced, or some of its characters."""
    horizon = rng.choice([None, 12, "average", "total"])
    limits = {"time": rng.choice([None, 0.0, 0.05]), "ever": rng.choice([None, 0.5]), "own": []}
    message = json.loads(solve_message(caution=rng.choice([0, 0.5, 10]), horizon=horizon, limits=limits))
    kind = rng.choice(["solve", "export", "open", rng.choice(ODD)])
    if kind == "export":
        message["what"] = rng.choice([*EXPORTS, rng.choice(ODD)])
    elif kind == "open":
        message["text"] = rng.choice([json.dumps(message.pop("statement")), rng.choice(ODD)])
    message["type"] = kind
    for _ in range(rng.choice([0, 1, 1, 2, 3])):
        place = message
        while isinstance(place, dict) and place and rng.random() < 0.8:
            key = rng.choice(list(place))
            if not isinstance(place[key], dict) or rng.random() < 0.1:
                place[key] = copy.deepcopy(rng.choice(ODD))
            place = place[key]
    text = json.dumps(message)
    if rng.random() < 0.3:
        characters = list(text)
        for _ in range(rng.randint(1, 6)):
            at = rng.randrange(len(characters))
            characters[at : at + rng.randint(0, 3)] = rng.choice(['"', "{", "]", "\0", "é", "9" * 30, "-", "e999", ""])
        text = "".join(characters)
    return text


def test_mutated_messages_are_read_or_refused():
    rng = random.Random(0)
    read = 0
    for _ in range(4000):
        with contextlib.suppress(ca.InputError):
            parse(mutated(rng))
            read += 1
    assert 500 < read < 3500


def test_with_a_horizon_nothing_need_be_discounted():
    plain = changed(["grid", "discount"], 1) | {"horizon": 12, "step": 12}
    found = read_statement(plain)
    assert (found.grid.discount, found.horizon, found.step) == (1.0, 12, 12)
    with pytest.raises(ca.InputError, match="step must be a whole number from 0 to 12, found 13"):
        read_statement(plain | {"step": 13})
