"""Pages of the repository, which are written for GitHub, as pages of the site.

Some pages are in the root of the repository: they are copied to ``auto_root``, with another suffix because every
``.md`` below ``docs`` is a page that people edit. Links are written as paths in the repository; while Sphinx
reads a page they become paths among its sources. The sidebar follows the lists of ``index.md``. Docstrings are written
for readers at a prompt: the bars of an absolute value are not markup, and text after the parameters is not a
parameter.
"""

import os
import re
from pathlib import Path, PurePosixPath
from typing import Any

from sphinx.application import Sphinx

ROOT_PAGES = ("README", "CONTRIBUTING", "CHANGELOG", "SECURITY", "CODE_OF_CONDUCT")
FOLDER = "auto_root"
# listed by the index only: in the sidebar they would take more room than all the rest
UNLISTED = ("decisions/", "lab-notes/")
FENCED = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s#]+)(#[^)\s]*)?\)")
SECTION = re.compile(r"^## (.*)$", re.MULTILINE)
LISTED = re.compile(r"^- \[([^\]]*)\]\(([^)\s#]+)\)", re.MULTILINE)
LITERAL = re.compile(r"(``.*?``)")
RULE = re.compile(r"-{3,}")
PARAMETERS = re.compile(r"\*{0,2}\w+(, \*{0,2}\w+)*")


def place_on_site(path: str) -> str:
    """Where the site has what the repository has at ``path``; both from the root of the repository."""
    where = PurePosixPath(path)
    if path in [f"{name}.md" for name in ROOT_PAGES]:
        return f"docs/{FOLDER}/{where.stem}.page"
    if where.parent == PurePosixPath("docs/gallery"):
        return f"docs/auto_gallery/{'index' if where.stem == 'GALLERY_HEADER' else where.stem}.rst"
    folders = {
        "docs/decisions": "docs/index.md",
        "docs/lab-notes": "docs/index.md",
        "docs/gallery": "docs/auto_gallery/index.rst",
    }
    return folders.get(path, path)


def links_on_site(text: str, page: str) -> str:
    """The text of a page of the repository with its links as the site needs them."""
    folder, new_folder = os.path.dirname(page), os.path.dirname(place_on_site(page))

    def rewritten(found: "re.Match[str]") -> str:
        link, anchor = found.group(1), found.group(2) or ""
        if "://" in link:
            return found.group(0)
        target = os.path.normpath(os.path.join(folder, link))
        return f"]({os.path.relpath(place_on_site(target), new_folder)}{anchor})"

    # every second part is a block of code
    parts = FENCED.split(text)
    parts[::2] = [LINK.sub(rewritten, part) for part in parts[::2]]
    return "".join(parts)


def sidebar(index: str) -> str:
    """Hidden tables of contents, one per section of the index with the pages that it lists."""
    _, *parts = SECTION.split(index)
    tables = []
    for title, body in zip(parts[::2], parts[1::2], strict=True):
        listed = [found for found in LISTED.findall(body) if not found[1].startswith(UNLISTED)]
        tables.append(_table(f":caption: {title}", listed))
    return "\n\n".join(tables)


def _table(caption: str, pages: list[tuple[str, str]]) -> str:
    entries = [f"{name} <{path}>" for name, path in pages]
    return "\n".join(["```{toctree}", ":hidden:", caption, "", *entries, "```"])


def read_page(app: Sphinx, docname: str, source: list[str]) -> None:
    """Called by Sphinx with the text of every page, which it may change."""
    page = app.env.doc2path(docname, base=False)
    if page.suffix == ".rst":
        return
    name = f"{page.stem}.md" if page.suffix == ".page" else f"docs/{page.as_posix()}"
    source[0] = links_on_site(source[0], name)
    if docname.startswith(UNLISTED):
        source[0] = f"---\norphan: true\n---\n\n{source[0]}"
    if docname == app.config.root_doc:
        source[0] = f"{source[0]}\n\n{sidebar(source[0])}\n"


def copy_root_pages(app: Sphinx, config: Any) -> None:
    """Called by Sphinx before it looks for pages; a copy that is up to date is left alone."""
    folder = Path(app.srcdir) / FOLDER
    folder.mkdir(exist_ok=True)
    for name in ROOT_PAGES:
        text = (Path(app.srcdir).parent / f"{name}.md").read_text()
        copy = folder / f"{name}.page"
        if not copy.exists() or copy.read_text() != text:
            copy.write_text(text)


def plain_docstring(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Called by Sphinx with the lines of every docstring, which it may change."""
    lines[:] = [_without_markup(line) for line in _with_notes(lines)]


def _without_markup(line: str) -> str:
    """A line with the bars of absolute values kept as they are; literals and examples are left alone."""
    if line.lstrip().startswith((">>>", "...")):
        return line
    parts = LITERAL.split(line)
    parts[::2] = [part.replace("|", r"\|") for part in parts[::2]]
    return "".join(parts)


def _with_notes(lines: list[str]) -> list[str]:
    """The lines with a heading before the free text that follows a list of parameters."""
    found: list[str] = []
    section = ""
    for i, line in enumerate(lines):
        if i + 1 < len(lines) and line and RULE.fullmatch(lines[i + 1]):
            section = line
        elif section == "Parameters" and line[:1].strip() and not (PARAMETERS.fullmatch(line) or RULE.fullmatch(line)):
            found += ["Notes", "-----"]
            section = "Notes"
        found.append(line)
    return found


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx once."""
    app.connect("config-inited", copy_root_pages)
    app.connect("source-read", read_page)
    app.connect("autodoc-process-docstring", plain_docstring, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
