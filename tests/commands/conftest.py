"""What the tests of the commands share."""

import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOG = "state,action,reward,next_state\na,go,1,b\nb,go,0,a\na,stay,0.5,a\nb,go,0,b\nb,stay,0,b\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder to work in, with the examples and a small log in it."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / "log.csv").write_text(LOG)
    monkeypatch.chdir(tmp_path)
    return tmp_path
