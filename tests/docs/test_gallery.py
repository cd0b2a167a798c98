"""The gallery: every script runs, draws and prints; every risk has its page."""

import re
import runpy
import warnings
from pathlib import Path

import pytest
from matplotlib.figure import Figure

import cautious as ca

ROOT = Path(__file__).parents[2]
GALLERY = ROOT / "docs" / "gallery"
SCRIPTS = sorted(GALLERY.glob("plot_*.py"))


@pytest.fixture
def figures(monkeypatch):
    """The module that makes pictures of the site of the figures of a script."""
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_site"))
    import gallery_figures

    return gallery_figures


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_script_draws_and_prints(script, tmp_path, monkeypatch, capsys):
    drawn = []
    make = Figure.__init__

    def counted(figure, *args, **kwargs):
        drawn.append(figure)
        make(figure, *args, **kwargs)

    monkeypatch.setattr(Figure, "__init__", counted)
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        runpy.run_path(str(script))
    assert len(drawn) >= 2
    assert all(figure.axes for figure in drawn)
    assert capsys.readouterr().out.count("\n") >= 5


def test_every_risk_has_a_page():
    public = {
        name for name in ca.__all__ if isinstance(getattr(ca, name), type) and issubclass(getattr(ca, name), ca.Risk)
    }
    opening = {script: script.read_text().split('"""')[1] for script in SCRIPTS}
    missing = {name for name in public if not any(re.search(rf"\bca\.{name}\b", text) for text in opening.values())}
    assert not missing


def test_every_page_has_its_place_and_its_link(figures):
    names = {script.stem.removeprefix("plot_") for script in SCRIPTS}
    assert set(figures.ORDER) == names
    assert sorted(SCRIPTS, key=lambda script: figures.place(script.name))[0].stem == f"plot_{figures.ORDER[0]}"
    page = (ROOT / "docs" / "which-risk.md").read_text()
    assert not {name for name in names if f"(gallery/plot_{name}.py)" not in page}


def test_numbers_are_printed_and_never_typed():
    # a result has digits behind the point; what a page sets up is in its code as well
    for script in SCRIPTS:
        prose = [line for line in script.read_text().splitlines() if line.startswith("# ")]
        code = "\n".join(line for line in script.read_text().splitlines() if not line.startswith("#"))
        for number in re.findall(r"\b\d+\.\d+\b", "\n".join(prose)):
            assert number in code, f"{script.name} says {number}"


def test_scraper_saves_each_figure_once(figures, tmp_path):
    first, second = Figure(), Figure()
    first.subplots().set(xlabel="risk", ylabel="return")
    second.subplots().set_title("map", loc="left")
    paths = iter([str(tmp_path / "a.png"), str(tmp_path / "b.png")])
    block = {"example_globals": {"figure": first, "n": 3}, "image_path_iterator": paths}
    conf = {"src_dir": str(tmp_path)}
    text = figures.scrape(("code", "", 1), block, conf)
    assert ".. image:: /a.png" in text
    assert ":alt: return against risk" in text
    assert figures.scrape(("code", "", 2), block, conf) == ""
    block["example_globals"]["figure"] = second
    assert ":alt: map" in figures.scrape(("code", "", 3), block, conf)
    assert all((tmp_path / name).read_bytes().startswith(b"\x89PNG") for name in ("a.png", "b.png"))
