"""The parts of our HTML pages; every text passes through ``escape``, once, here."""

import base64
from collections.abc import Callable, Iterable, Set
from html import escape
from importlib.metadata import version
from typing import Any

from cautious.report.canvas import DARK, LIGHT, Theme, png
from cautious.report.text_tables import Table

# light and dark, phone and paper; nothing is loaded from elsewhere
# a table of more is a list on a narrow screen
MOST_COLUMNS = 4
STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1c2430; --soft: #56606e; --line: #d5dae1;
  --panel: #f4f6f8; --accent: #005a8f; --good: #00664a; --warn: #9a4200; }
@media screen and (prefers-color-scheme: dark) { :root { --paper: #161b22; --ink: #e6e9ee; --soft: #a8b2bf;
  --line: #38414d; --panel: #1f2630; --accent: #7cc4f0; --good: #4fd0a5; --warn: #f0a860; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink); font: 16px/1.55 system-ui, sans-serif; }
main { max-width: 62rem; margin: 0 auto; padding: 1.5rem 1.25rem 3rem; }
h1 { font-size: 1.75rem; line-height: 1.2; margin: 0 0 .5rem; overflow-wrap: anywhere; }
h2 { font-size: 1.2rem; margin: 2.2rem 0 .6rem; padding-bottom: .25rem; border-bottom: 1px solid var(--line); }
h3 { font-size: 1.02rem; margin: 1.6rem 0 .3rem; }
h3 .badge, td .badge { margin: 0; white-space: nowrap; }
p { margin: .5rem 0; max-width: 46rem; overflow-wrap: anywhere; }
a { color: var(--accent); }
.badge { display: inline-block; padding: .1rem .6rem; border: 1.5px solid currentColor; border-radius: 1rem;
  font-size: .85rem; font-weight: 600; margin-bottom: .6rem; }
.good { color: var(--good); } .warn { color: var(--warn); }
.lead { font-size: 1.15rem; }
.soft { color: var(--soft); font-size: .9rem; }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); gap: .75rem; margin: 1.2rem 0; }
.card { background: var(--panel); border-radius: .5rem; padding: .6rem .8rem; }
.card b { display: block; font-size: 1.25rem; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: right; padding: .35rem .6rem; border-bottom: 1px solid var(--line); vertical-align: top; }
td { white-space: nowrap; }
th.words, td.words { text-align: left; white-space: normal; min-width: 5.5rem; }
th:first-child, td:first-child { padding-left: 0; }
thead th { color: var(--soft); font-weight: 600; font-size: .88rem; }
tbody th.words { font-weight: 400; min-width: 6.5rem; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 1.25rem; }
.figures + .scroll, .figures + .figures, .scroll + figure, .scroll + .scroll { margin-top: 1.25rem; }
figure { margin: 0; max-width: 42rem; break-inside: avoid; }
figure img { width: 100%; height: auto; display: block; }
.wide figure, figure.wide { max-width: none; margin: 1rem 0; }
.wide figcaption { max-width: 46rem; }
video { width: 100%; max-width: 42rem; display: block; }
figcaption { color: var(--soft); font-size: .88rem; margin-top: .35rem; }
dl { display: grid; grid-template-columns: 13rem 1fr; gap: .35rem 1rem; margin: .5rem 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
pre { background: var(--panel); border-radius: .5rem; padding: .8rem 1rem; white-space: pre-wrap;
  overflow-wrap: anywhere; font-size: .88rem; }
footer { margin-top: 2.5rem; color: var(--soft); font-size: .85rem; }
@media (max-width: 36rem) { .stacked thead { display: none; } .stacked tr { display: block; padding: .5rem 0;
  border-bottom: 1px solid var(--line); } .stacked th, .stacked td { display: block; border: 0; padding: .1rem 0;
  text-align: left; white-space: normal; } .stacked [data-label]::before { content: attr(data-label) ": ";
  color: var(--soft); } th.words, td.words, tbody th.words { min-width: 4rem; }
  .wide figure { overflow-x: auto; } .wide img { width: 46rem; max-width: none; }
  dl { grid-template-columns: 1fr; gap: 0; } dd { margin-bottom: .6rem; }
  th, td { padding: .35rem .35rem; font-size: .92rem; } h1 { font-size: 1.45rem; } }
@media print { :root { color-scheme: light; } body { font-size: 11pt; } main { max-width: none; padding: 0; }
  h2 { break-after: avoid; }
  pre, tr, .card { break-inside: avoid; } .figures { grid-template-columns: 1fr 1fr; } }
"""


def document(title: str, body: str) -> bytes:
    """A whole page, UTF-8; its content policy forbids the browser to load anything that is not inside it."""
    policy = "default-src 'none'; img-src data:; media-src data:; style-src 'unsafe-inline'"
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n"
        f"<footer>Written by cautious {version('cautious')}.</footer>\n</main>\n</body>\n</html>\n"
    ).encode()


def header(title: str, verdict: str, lead: str, *parts: str, good: bool) -> str:
    """The top of a page: its title, a badge with the verdict, and the answer in a sentence."""
    badge = f'<span class="badge {"good" if good else "warn"}">{escape(verdict)}</span>'
    content = [f"<h1>{escape(title)}</h1>", badge, paragraphs([lead], "lead"), *parts]
    return "<header>\n" + "\n".join(content) + "\n</header>"


def section(title: str, *parts: str) -> str:
    """A heading and what belongs to it."""
    return f"<section>\n<h2>{escape(title)}</h2>\n" + "\n".join(parts) + "\n</section>"


def paragraphs(sentences: Iterable[str], kind: str = "") -> str:
    """One paragraph per text."""
    mark = f' class="{kind}"' if kind else ""
    return "\n".join(f"<p{mark}>{escape(sentence)}</p>" for sentence in sentences)


def cards(figures: Iterable[tuple[str, str]]) -> str:
    """(name, value) boxes."""
    boxes = "\n".join(
        f'<div class="card"><span class="soft">{escape(name)}</span><b>{escape(value)}</b></div>'
        for name, value in figures
    )
    return f'<div class="cards">\n{boxes}\n</div>'


def table(content: Table, strong: Set[tuple[int, int]] = frozenset()) -> str:
    """A table; cells (row, column) in ``strong`` stand out. On a narrow screen one of many columns becomes a list."""
    kinds = ["" if right else ' class="words"' for right in content.right]
    is_wide = len(content.headers) > MOST_COLUMNS
    labels = [f' data-label="{escape(text)}"' if is_wide else "" for text in content.headers]
    head = "".join(
        f'<th scope="col"{kind}>{escape(text)}</th>' for kind, text in zip(kinds, content.headers, strict=True)
    )
    lines = []
    for place, row in enumerate(content.rows):
        written = [
            f"<strong>{_cell(cell)}</strong>" if (place, j) in strong else _cell(cell) for j, cell in enumerate(row)
        ]
        rest = zip(kinds[1:], labels[1:], written[1:], strict=True)
        cells = "".join(f"<td{kind}{label}>{cell}</td>" for kind, label, cell in rest)
        lines.append(f'<tr><th scope="row" class="words"{labels[0]}>{_cell(row[0])}</th>{cells}</tr>')
    body, stacked = "\n".join(lines), ' class="stacked"' if is_wide else ""
    parts = f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>"
    return f'<div class="scroll"><table{stacked}>\n{parts}\n</table></div>'


def _cell(text: str) -> str:
    """A number and its percent sign stay on one line."""
    return escape(text).replace(" %", "&nbsp;%")


def definitions(rows: Iterable[tuple[str, str]]) -> str:
    """Term and description pairs."""
    return "<dl>\n" + "\n".join(f"<dt>{escape(a)}</dt><dd>{escape(b)}</dd>" for a, b in rows) + "\n</dl>"


def code(text: str) -> str:
    """A block of code."""
    return f"<pre><code>{escape(text)}</code></pre>"


def picture(draw: Callable[[Theme], Any], alt: str, caption: str) -> str:
    """A figure drawn twice, for light and for dark screens, inside the page."""
    return drawn(png(draw(LIGHT)), png(draw(DARK)), alt, caption)


def drawn(light: bytes, dark: bytes, alt: str, caption: str) -> str:
    """A figure that is there already, as two PNG files."""
    bright, dim = (data(content, "image/png") for content in (light, dark))
    return (
        f'<figure><picture><source media="screen and (prefers-color-scheme: dark)" srcset="{dim}">'
        f'<img src="{bright}" alt="{escape(alt)}"></picture><figcaption>{escape(caption)}</figcaption></figure>'
    )


def figures(*pictures: str) -> str:
    """Pictures side by side where there is room."""
    return '<div class="figures">\n' + "\n".join(pictures) + "\n</div>"


def beside(drawing: str, text: str) -> str:
    """A drawing and what belongs to it, side by side where there is room; the text alone without a drawing."""
    return f'<div class="figures">\n{drawing}\n<div>{text}</div>\n</div>' if drawing else text


def link(target: str, text: str) -> str:
    """A link to a page in the same folder."""
    return f'<a href="{escape(target)}">{escape(text)}</a>'


def data(content: bytes, kind: str) -> str:
    """A file as an address that holds it."""
    return f"data:{kind};base64," + base64.b64encode(content).decode("ascii")
