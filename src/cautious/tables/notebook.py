"""A table of texts as HTML, for the display of notebooks."""

from collections.abc import Iterable, Sequence
from html import escape


def html_table(headers: Sequence[str], rows: Iterable[Sequence[str]], title: str = "") -> str:
    """A plain table; every text is escaped."""
    caption = f"<caption>{escape(title)}</caption>" if title else ""
    head = "".join(f"<th>{escape(header)}</th>" for header in headers)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
