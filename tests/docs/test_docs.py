"""Every example runs: the python blocks of the pages, file by file, and the doctests of every module."""

import doctest
import importlib
import operator
import re
import warnings
from pathlib import Path

import pytest

import cautious as ca
from cautious.solvers.choose import SOLVERS

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    ROOT / "SECURITY.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
SOURCE = ROOT / "src"
MODULES = [
    ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    for path in sorted((SOURCE / "cautious").rglob("*.py"))
    if path.name != "__main__.py"
]
BLOCK = re.compile(r"^```python$\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OUTPUT = re.compile(r"^```python$\n.*?^```$\n\n^```text$\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# gaps are rounding, which differs between machines
TINY = re.compile(r"\d(\.\d+)?e-\d+")
FENCE = re.compile(r"^\s*```(.*)$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def page_name(path):
    return str(path.relative_to(ROOT))


def code_of(text):
    """The python blocks as one program whose line numbers are those of the page."""
    lines = [""] * (text.count("\n") + 1)
    for block in BLOCK.finditer(text):
        first = text.count("\n", 0, block.start(1))
        body = block.group(1).splitlines()
        lines[first : first + len(body)] = body
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("page", [page for page in PAGES if BLOCK.search(page.read_text())], ids=page_name)
def test_examples_of_a_page_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = page.read_text()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        exec(compile(code_of(text), str(page), "exec"), {"__name__": "example"})
    shown = "".join(OUTPUT.findall(text))
    assert not shown or TINY.sub("tiny", capsys.readouterr().out) == TINY.sub("tiny", shown)


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_no_python_block_is_exempt(page):
    openings = FENCE.findall(page.read_text())[::2]
    marked = [words for words in openings if "python" in words.lower() or words.strip() in ("py", "pycon")]
    assert set(marked) <= {"python"}, "python blocks are marked ```python and run; output is ```text"


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_links_lead_somewhere(page):
    for link in LINK.findall(re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)):
        if "://" not in link and not link.startswith("#"):
            assert (page.parent / link.split("#")[0]).exists(), link


@pytest.mark.parametrize("page", ["README.md", "docs/which-risk.md"])
def test_every_risk_is_listed(page):
    text = (ROOT / page).read_text()
    public = {
        name for name in ca.__all__ if isinstance(getattr(ca, name), type) and issubclass(getattr(ca, name), ca.Risk)
    }
    missing = {name for name in public if f"`ca.{name}" not in text}
    assert not missing


def test_every_status_is_explained():
    text = (ROOT / "docs" / "which-solver.md").read_text()
    assert not {status.name for status in ca.Status if f"`{status.name}`" not in text}


def test_every_solver_and_learner_is_explained():
    text = (ROOT / "docs" / "which-solver.md").read_text()
    names = {solver.name for solver in SOLVERS} | {ca.PlugIn.name, ca.PrimalDual.name}
    assert not {name for name in names if name not in text}


def test_every_page_is_in_the_index():
    index = (ROOT / "docs" / "index.md").read_text()
    wanted = {str(page.relative_to(ROOT / "docs")) for page in PAGES if ROOT / "docs" in page.parents}
    assert not {name for name in wanted - {"index.md"} if f"({name})" not in index}


def test_code_named_by_the_deviations_exists():
    for row in (ROOT / "docs" / "deviations.md").read_text().splitlines():
        module = None
        for token in re.findall(r"`([\w./]+)`", row.rsplit(" | ", 1)[-1]) if row.startswith("| ") else []:
            if token.endswith(".hpp"):
                assert (ROOT / "src" / "cautious" / token).exists()
            elif token.endswith(".py"):
                module = importlib.import_module("cautious." + token.removesuffix(".py").replace("/", "."))
            elif module is not None:
                operator.attrgetter(token)(module)


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert doctest.testmod(importlib.import_module(name)).failed == 0
