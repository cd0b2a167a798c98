"""The site: it builds offline without a warning, notebooks are executed, links and docstrings are those of the site."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from IPython.core.formatters import DisplayFormatter

import cautious as ca
from studio.browser import serious_of_files

ROOT = Path(__file__).parents[2]
GENERATED = ("_build", "auto_gallery", "auto_root", "__pycache__", "jupyter_execute")
# a page of every kind: code, formulas, signatures, figures, thumbnails
READABLE = (
    "index",
    "cookbook",
    "tutorial",
    "mathematics",
    "reference/solving",
    "auto_gallery/plot_cvar",
    "auto_gallery/index",
)
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.md"))


@pytest.fixture
def pages(monkeypatch):
    """The module that makes pages of the repository pages of the site."""
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_site"))
    import site_pages

    return site_pages


@pytest.fixture
def access(monkeypatch):
    """The module that mends what Sphinx and its theme leave out."""
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_site"))
    import access

    return access


@pytest.fixture
def formulas(monkeypatch):
    """The module that makes MathML of formulas."""
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "_site"))
    import mathml

    return mathml


def test_site_builds_without_a_warning(tmp_path):
    """One test, so that it is built once however many workers there are.

    From a copy: what somebody has built here stays as it is. The gallery is not executed: its own tests do that.
    """
    shutil.copytree(ROOT / "docs", tmp_path / "docs", ignore=shutil.ignore_patterns(*GENERATED))
    for name in (
        "README.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "LICENSE",
        "SECURITY.md",
        "CODE_OF_CONDUCT.md",
        "CITATION.cff",
    ):
        shutil.copy(ROOT / name, tmp_path)
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-D", "plot_gallery=0", "docs", "site"]
    # a proxy that does not answer: whoever asks the network gets an error
    offline = {f"{scheme}_proxy": "http://127.0.0.1:9" for scheme in ("http", "https")}
    done = subprocess.run(
        command, cwd=tmp_path, env=os.environ | offline, capture_output=True, text=True, check=False, timeout=500
    )
    assert done.returncode == 0, done.stderr
    site = tmp_path / "site"
    for page in ("index", "auto_root/README", "auto_gallery/index", "auto_gallery/plot_cvar"):
        assert (site / f"{page}.html").exists(), page
    assert 'href="auto_gallery/plot_cvar.html"' in (site / "which-risk.html").read_text()
    for notebook in NOTEBOOKS:
        check_executed(notebook, (site / "notebooks" / f"{notebook.stem}.html").read_text())
    reference = (site / "reference" / "solving.html").read_text()
    for name in ("cautious.solve", "cautious.Solution", "cautious.Solution.require", "cautious.Frontier.table"):
        assert f'id="{name}"' in reference, name
    for page in ("mathematics", "which-risk", "auto_root/README", "auto_gallery/plot_cvar"):
        check_formulas((site / f"{page}.html").read_text())
    for page in site.rglob("*.html"):
        check_self_contained(page)
    # last, because it is skipped where there is no browser
    assert serious_of_files([site / f"{page}.html" for page in READABLE]) == {}


def check_executed(notebook, page):
    """All cells of the notebook are on the page, with what they print and draw."""
    cells = re.findall(r"^```\{code-cell\}", notebook.read_text(), re.MULTILINE)
    assert len(cells) >= 6
    assert page.count('<div class="cell_input docutils container">') == len(cells)
    assert page.count('<div class="cell_output docutils container">') >= 5
    assert len(re.findall(r'<img [^>]*src="\.\./_images/\w+\.png"', page)) >= 2


def check_formulas(page):
    """Formulas are MathML, which browsers show without a script; no TeX is left over."""
    assert '<math xmlns="http://www.w3.org/1998/Math/MathML" display="block">' in page
    assert "$" not in re.sub(r"<(script|pre|code|style).*?</\1>", "", page, flags=re.DOTALL)
    assert "MathJax" not in page


def check_self_contained(page):
    """Nothing is loaded from elsewhere."""
    text = page.read_text()
    loaded = re.findall(r'<(?:script|img|iframe)[^>]*\ssrc="([^"]+)"', text)
    loaded += re.findall(r'<link[^>]*rel="stylesheet"[^>]*href="([^"]+)"', text)
    assert not [address for address in loaded if "//" in address], page.name


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
        ("docs/how-to/teacher.md", "../gallery/", "../auto_gallery/index.rst"),
        ("docs/how-to/researcher.md", "../../CONTRIBUTING.md", "../auto_root/CONTRIBUTING.page"),
        ("docs/decisions/0001-x.md", "../mathematics.md#proof", "../mathematics.md#proof"),
        ("README.md", "docs/benchmarks.md#learning", "../benchmarks.md#learning"),
        ("README.md", "CHANGELOG.md", "CHANGELOG.page"),
        ("README.md", "docs/images/maze.png", "../images/maze.png"),
        ("CONTRIBUTING.md", "docs/decisions/", "../index.md"),
        ("CONTRIBUTING.md", "docs/gallery/", "../auto_gallery/index.rst"),
        ("docs/learning.md", "https://example.org/a.md", "https://example.org/a.md"),
    ],
)
def test_links_are_those_of_the_site(pages, page, link, expected):
    assert pages.links_on_site(f"see [this]({link}).", page) == f"see [this]({expected})."


def test_code_is_left_alone(pages):
    code = "```python\ntables[0](CHANGELOG.md)\n```"
    assert pages.links_on_site(f"[a](LICENSE)\n\n{code}\n", "README.md") == f"[a](../../LICENSE)\n\n{code}\n"


def test_sidebar_follows_the_index(pages):
    unlisted = "- [Why](decisions/1.md)\n- [Log](lab-notes/a.md)\n"
    text = f"See [first](a.md).\n\n## Use it\n\n- [One](b.md): words, [not this](c.md).\n{unlisted}"
    assert pages.sidebar(text) == "```{toctree}\n:hidden:\n:caption: Use it\n\nOne <b.md>\n```"


def test_docstrings_are_read_as_people_write_them(pages):
    lines = ["At most max(1, |objective|), as in ``|x|``", ">>> a | b"]
    pages.plain_docstring(None, "function", "solve", None, None, lines)
    assert lines == [r"At most max(1, \|objective\|), as in ``|x|``", ">>> a | b"]
    heading, free = ["Parameters", "----------", "low, high", "    Words.", ""], ["More words.", ""]
    rest = ["Examples", "--------", "Text."]
    lines = [*heading, *free, *rest]
    pages.plain_docstring(None, "function", "solve", None, None, lines)
    assert lines == [*heading, "Notes", "-----", *free, *rest]


def test_parameters_of_long_signatures_are_items(access):
    parameter, terms = '<em class="sig-param">mdp</em>', "<dl>\n<dt>Term</dt>\n<dd>Words.</dd>\n</dl>"
    listed = f'<ul class="sig-parameters">\n<li>{parameter},</li>\n<li>{parameter}</li>\n</ul>'
    signature = f"<dl>\n<dd>{parameter},</dd>\n<dd>{parameter}</dd>\n</dl>"
    assert access.signatures_as_lists(f"{terms}\n{signature}\n{terms}") == f"{terms}\n{listed}\n{terms}"


def test_formulas_that_cannot_be_translated_are_reported(formulas, monkeypatch):
    reported = []
    monkeypatch.setattr(formulas.LOG, "warning", lambda *words, location: reported.append(words))
    assert formulas.to_mathml(None, r"x < \unheardof", as_block=False) == r"<code>x &lt; \unheardof</code>"
    assert "unheardof" in str(reported)


def test_formulas_have_spaces_around_names_and_primes(formulas):
    shown = formulas.to_mathml(None, r"x' + z \log y + \log(z)", as_block=False)
    assert "&prime;" in shown
    assert shown.count("<mspace") == 2  # none before brackets


def test_figures_show_themselves_in_notebooks():
    figure = ca.solve(ca.Problem(ca.worlds.river_swim())).plot()
    shown, _ = DisplayFormatter().format(figure)
    assert shown["image/png"].startswith(b"\x89PNG")
