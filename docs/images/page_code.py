"""Run the code of a page, so that pictures are drawn of what the page talks about."""

import contextlib
import re
import tempfile
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1]
BLOCK = re.compile(r"^```python$\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run_page(name: str) -> dict[str, Any]:
    """The names that the python blocks of a page leave behind; files they write are thrown away."""
    code = "\n".join(BLOCK.findall((DOCS / name).read_text()))
    names: dict[str, Any] = {"__name__": "page"}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), contextlib.redirect_stdout(None):
        exec(compile(code, name, "exec"), names)
    return names
