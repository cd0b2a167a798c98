"""What tests in several folders use."""

import importlib
import signal
import sys

import pytest

from cautious import cli
from cautious.peers import roster
from cautious.report import pieces

# a shell that starts the tests in the background has Ctrl-C ignored, and their children would inherit that
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def run(monkeypatch, capsys):
    """Run ``cautious ...`` in this process; gives exit code, standard output and standard error."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["cautious", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        captured = capsys.readouterr()
        return caught.value.code or 0, captured.out, captured.err

    return call


@pytest.fixture
def quick_pictures(monkeypatch):
    """Pages are drawn, but their pictures are not turned into files: most of the time of a page, and no text."""
    monkeypatch.setattr(pieces, "png", lambda figure: b"picture")


@pytest.fixture
def require_package():
    """Skips a test of another package that is not installed, or whose wheel needs a library that this system lacks."""

    def require(solver):
        if roster.missing(solver) is not None:
            pytest.skip(f"{solver} is not installed")
        try:
            importlib.import_module(roster.MODULES[solver.split()[0]])
        except ImportError as error:
            pytest.skip(f"{solver} cannot be loaded: {error}")

    return require
