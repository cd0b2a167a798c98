"""What tests in several folders use."""

import signal
import sys

import pytest

from cautious import cli
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
