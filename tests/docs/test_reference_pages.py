"""The reference: every public name is on exactly one page, and has an example."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

import cautious as ca

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs" / "reference").glob("*.md"))
DIRECTIVE = re.compile(r"^\.\. auto(?:class|exception|function|module):: cautious\.(\w+)", re.MULTILINE)
MODULES = ("testing", "worlds")


def test_every_public_name_is_on_one_page():
    shown = sorted(name for page in PAGES for name in DIRECTIVE.findall(page.read_text()))
    assert shown == sorted(ca.__all__)


@pytest.mark.parametrize("name", ca.__all__)
def test_every_public_name_has_an_example(name):
    """In its docstring; the doctests of the modules run it."""
    assert ">>>" in (getattr(ca, name).__doc__ or "")


def described_parameters(thing):
    """The names that the section Parameters of a docstring describes; other text may follow them."""
    sections = re.split(r"^(\w+)\n-{3,}\n", inspect.getdoc(thing) or "", flags=re.MULTILINE)
    text = dict(zip(sections[1::2], sections[2::2], strict=True)).get("Parameters", "")
    lines = re.findall(r"^\w+(?:, \w+)*$", text, flags=re.MULTILINE)
    return {name for line in lines for name in line.split(", ")}


@pytest.mark.parametrize("name", [name for name in ca.__all__ if name not in MODULES])
def test_described_parameters_exist(name):
    thing = getattr(ca, name)
    described = described_parameters(thing)
    assert not described or described <= set(inspect.signature(thing).parameters)


@pytest.mark.parametrize("module", MODULES)
def test_every_name_of_a_public_module_is_described(module):
    home = importlib.import_module(f"cautious.{module}")
    assert not [name for name in home.__all__ if not (getattr(home, name).__doc__ or "").strip()]


def test_members_named_by_the_reference_exist():
    listed = re.compile(r"^\.\. autoclass:: cautious\.(\w+).*\n   :members: (\S.*)$", re.MULTILINE)
    for page in PAGES:
        for name, members in listed.findall(page.read_text()):
            assert not [member for member in members.split(", ") if not hasattr(getattr(ca, name), member)]


def test_what_a_model_holds_is_there():
    page = (ROOT / "docs" / "reference" / "models.md").read_text()
    (sentence,) = re.findall(r"A model has these attributes: (.*?)\. Arrays", page, re.DOTALL)
    mdp = ca.worlds.maze()
    names = re.findall(r"`(\w+)`", sentence)
    assert len(names) > 10
    assert all(hasattr(mdp, name) for name in names)
