"""The page on the architecture: its files exist, its tables are those of the code, its pictures show real calls."""

import importlib.util
import re
from pathlib import Path

import numpy as np
import pytest

import cautious as ca
from cautious.risks.base import Structure
from cautious.solvers.choose import SOLVERS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in PAGE.splitlines() if line.startswith("| ")]
FILE = re.compile(r"`([\w/]+(?:\.\w+|/))`")


@pytest.fixture(scope="module")
def architecture():
    pytest.importorskip("matplotlib", reason="extra plot")
    where = ROOT / "docs" / "images" / "architecture.py"
    spec = importlib.util.spec_from_file_location("architecture_pictures", where)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def place(path):
    """Where a path of the page leads: most begin at the package."""
    return (ROOT if path.startswith(("src/", "tests/", "benchmarks/")) else ROOT / "src" / "cautious") / path


def test_every_path_exists():
    paths = [path for path in FILE.findall(PAGE) if path.endswith(("/", ".py", ".cpp"))]
    assert len(paths) > 50
    assert not {path for path in paths if not place(path).exists()}


def test_every_question_names_one_file_that_has_what_to_look_for():
    questions = [row for row in ROWS if len(row) == 3 and FILE.search(row[1])]
    assert len(questions) >= 30
    for question, file, wanted in questions:
        (path,) = FILE.findall(file)
        for name in wanted.strip("`").split("."):
            assert re.search(rf"\b{name}\b", place(path).read_text()) or not name, question


def test_structures_and_their_risks_are_those_of_the_code():
    mdp = ca.worlds.river_swim()
    prior, tables = np.full(mdp.shape, 1 / 12), np.ones((1, *mdp.shape))
    public = [
        ca.SafeSet([0], slack=0.5),
        ca.TaskFloors(tables, [0.5]),
        ca.PeakExposure([[0]]),
        ca.WorstTask(tables),
        ca.KL(prior),
        ca.Entropy(),
        ca.TotalVariation(prior),
        ca.Quadratic(prior),
        ca.Wasserstein(prior.sum(axis=1), 1.0 - np.eye(6)),
        ca.Variance(),
        ca.CVaR(0.9),
        ca.Exposure([0]),
        ca.Return(tables[0]),
        ca.Reach([0]),
        ca.ReturnVariance(),
        ca.ReturnCVaR(0.9),
        ca.ReturnEntropic(1.0),
        ca.ReturnEVaR(0.9),
        ca.ReturnBelow(0.0),
    ]
    assert {type(risk).__name__ for risk in public} | {"Risk"} == {
        name for name in ca.__all__ if isinstance(getattr(ca, name), type) and issubclass(getattr(ca, name), ca.Risk)
    }
    found = {f"{one.name}: {one.value}": [] for one in Structure}
    for risk in public:
        structure = risk.bind(mdp.with_horizon(3)).structure
        found[f"{structure.name}: {structure.value}"].append(type(risk).__name__)
    on_page = {row[0]: row[1].split(", ") for row in ROWS if row[0].split(":")[0] in Structure.__members__}
    assert list(on_page) == list(found)
    assert {name: risks for name, risks in on_page.items() if found[name]} == {k: v for k, v in found.items() if v}


def test_the_table_of_solvers_is_that_of_the_code():
    header, *rows = [row for row in ROWS if len(row) == len(Structure) + 2]
    assert header == ["solver", *Structure.__members__, "file"]
    expected = []
    for solver in SOLVERS:
        path = type(solver).__module__.removeprefix("cautious.").replace(".", "/") + ".py"
        expected.append([solver.name, *("yes" if one in solver.accepts else "" for one in Structure), f"`{path}`"])
    assert rows == expected


@pytest.mark.parametrize("name", ["solve", "learn", "drag"])
def test_calls_of_the_pictures_are_made(architecture, name):
    calls, prepare = architecture.PICTURES[name]
    called_from = architecture.functions_called(prepare())
    for call, parent, _ in architecture.flattened(calls):
        if call.path.endswith(".js"):
            text = (architecture.PACKAGE / call.path).read_text()
            assert re.search(rf"\b{re.escape(call.function)}\(", text), call.key
        else:
            assert call.key in called_from
            assert parent is None or parent.key in called_from[call.key], call.key


def test_functions_passed_by_one_solve_are_about_as_many_as_the_page_says(architecture):
    called = architecture.functions_called(architecture.one_solve())
    functions, files = map(int, re.search(r"passes (\d+) functions in (\d+) files", PAGE).groups())
    assert len(called) == pytest.approx(functions, rel=0.1)
    assert len({key.split(":")[0] for key in called}) == pytest.approx(files, rel=0.1)


def test_pictures_can_be_drawn(architecture):
    pictures = [
        architecture.layers_picture(),
        *map(architecture.calls_picture, (c for c, _ in architecture.PICTURES.values())),
    ]
    assert all(picture.startswith(b"\x89PNG") for picture in pictures)
