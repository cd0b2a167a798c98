"""The pieces our pages are made of; every text passes through ``escape``, once, here."""

import base64
from collections.abc import Callable, Iterable, Set
from html import escape
from importlib.metadata import version
from typing import Any

from cautious.report.canvas import DARK, LIGHT, Theme, png
from cautious.report.style import STYLE
from cautious.report.text_tables import Table


def document(title: str, body: str) -> bytes:
    """A whole page, UTF-8; the policy forbids it to load anything that is not inside it."""
    policy = "default-src 'none'; img-src data:; media-src data:; style-src 'unsafe-inline'"
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n"
        f"<footer>Written by cautious {version('cautious')}.</footer>\n</main>\n</body>\n</html>\n"
    ).encode()


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
    """A table that scrolls sideways on a narrow screen; cells (row, column) in ``strong`` stand out."""
    kinds = ["" if right else ' class="words"' for right in content.right]
    head = "".join(
        f'<th scope="col"{kind}>{escape(text)}</th>' for kind, text in zip(kinds, content.headers, strict=True)
    )
    lines = []
    for place, row in enumerate(content.rows):
        written = [
            f"<strong>{_cell(cell)}</strong>" if (place, j) in strong else _cell(cell) for j, cell in enumerate(row)
        ]
        cells = "".join(f"<td{kind}>{cell}</td>" for kind, cell in zip(kinds[1:], written[1:], strict=True))
        lines.append(f'<tr><th scope="row" class="words">{escape(row[0])}</th>{cells}</tr>')
    body = "\n".join(lines)
    return f'<div class="scroll"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table></div>'


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
