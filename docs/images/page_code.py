"""Run the code of a page, so that pictures show the results of the page."""

import contextlib
import re
import tempfile
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1]
BLOCK = re.compile(r"^```python$\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run_page(name: str) -> dict[str, Any]:
    """The variables that the python blocks of a page define; files that they write are deleted."""
    code = "\n".join(BLOCK.findall((DOCS / name).read_text()))
    names: dict[str, Any] = {"__name__": "page"}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), contextlib.redirect_stdout(None):
        exec(compile(code, name, "exec"), names)
    return names
