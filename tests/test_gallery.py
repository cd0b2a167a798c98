"""The gallery: every script runs, draws and prints; every risk has its page; the site has no broken link."""

import re
import runpy
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from matplotlib.figure import Figure

import cautious as ca

ROOT = Path(__file__).parents[1]
GALLERY = ROOT / "docs" / "gallery"
SCRIPTS = sorted(GALLERY.glob("plot_*.py"))
GENERATED = ("_build", "auto_gallery", "auto_root")


@pytest.fixture
def tools(monkeypatch):
    """The modules that the site is built with."""
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_site"))
    import gallery_figures
    import site_pages

    return gallery_figures, site_pages


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


def test_every_page_has_its_place_and_its_link(tools):
    figures, _ = tools
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


def test_scraper_saves_each_figure_once(tools, tmp_path):
    figures, _ = tools
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


@pytest.mark.parametrize(
    ("page", "link", "expected"),
    [
        ("docs/index.md", "../README.md", "auto_root/README.page"),
        (
            "docs/which-risk.md",
            "../CONTRIBUTING.md#a-risk-in-ten-lines",
            "auto_root/CONTRIBUTING.page#a-risk-in-ten-lines",
        ),
        ("docs/which-risk.md", "gallery/plot_cvar.py", "auto_gallery/plot_cvar.rst"),
        ("docs/decisions/0001-x.md", "../mathematics.md#proof", "../mathematics.md#proof"),
        ("README.md", "docs/benchmarks.md#learning", "../benchmarks.md#learning"),
        ("README.md", "CHANGELOG.md", "CHANGELOG.page"),
        ("README.md", "docs/images/maze.png", "../images/maze.png"),
        ("CONTRIBUTING.md", "docs/decisions/", "../index.md"),
        ("CONTRIBUTING.md", "docs/gallery/", "../auto_gallery/index.rst"),
        ("docs/learning.md", "https://example.org/a.md", "https://example.org/a.md"),
    ],
)
def test_links_are_those_of_the_site(tools, page, link, expected):
    _, pages = tools
    assert pages.links_on_site(f"see [this]({link}).", page) == f"see [this]({expected})."


def test_code_is_left_alone(tools):
    _, pages = tools
    code = "```python\ntables[0](CHANGELOG.md)\n```"
    assert pages.links_on_site(f"[a](LICENSE)\n\n{code}\n", "README.md") == f"[a](../../LICENSE)\n\n{code}\n"


def test_sidebar_follows_the_index(tools):
    _, pages = tools
    text = "See [first](a.md).\n\n## Use it\n\n- [One](b.md): words, [not this](c.md).\n- [Why](decisions/1.md)\n"
    lead, section = pages.sidebar(text).split("\n\n```{toctree}")
    assert lead.endswith("\n\nfirst <a.md>\n```")
    assert section == "\n:hidden:\n:caption: Use it\n\nOne <b.md>\n```"


def test_site_builds_without_a_warning(tmp_path):
    """On a copy, and without executing the gallery: the pages somebody has built here stay as they are."""
    shutil.copytree(ROOT / "docs", tmp_path / "docs", ignore=shutil.ignore_patterns(*GENERATED, "__pycache__"))
    for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-D", "plot_gallery=0", "docs", "site"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for page in ("index", "which-risk", "auto_root/README", "auto_gallery/index", "auto_gallery/plot_cvar"):
        assert (tmp_path / "site" / f"{page}.html").exists(), page
    assert 'href="auto_gallery/plot_cvar.html"' in (tmp_path / "site" / "which-risk.html").read_text()
