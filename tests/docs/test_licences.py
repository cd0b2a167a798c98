"""The page on licences has every dependency, with the licence that its package declares."""

import re
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROWS = dict(re.findall(r"^\| (\S+) \| [^|]* \| ([^|]*) \|$", (ROOT / "docs/licences.md").read_text(), re.MULTILINE))
WORDS = {"MIT License": "MIT", "BSD License": "BSD", "Python Software Foundation License": "Python Software Foundation"}


def declared():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"].values()
    wanted = [*project["dependencies"], *(item for extra in extras for item in extra)]
    return {re.split("[>\\[]", item)[0] for item in wanted} - {"cautious"}


def test_the_page_has_every_dependency():
    assert set(ROWS) - {"package"} == declared()


@pytest.mark.parametrize("name", sorted(declared()))
def test_licences_are_those_that_packages_declare(name):
    try:
        about = metadata.metadata(name)
    except metadata.PackageNotFoundError:
        pytest.skip(f"{name} is not installed")
    classes = [line.split(" :: ")[-1] for line in about.get_all("Classifier") or [] if line.startswith("License")]
    # a backport of the standard library, which Dask imports, has messages that raise where a header is missing
    said = about.get("License-Expression") or next(iter(classes), about.get("License") or "")
    assert WORDS.get(said, said.split(" AND ")[0]) in ROWS[name]
