"""Storm in a child process: it is another licence, and a crash there must not be one here."""

import json
import subprocess
import sys
from pathlib import Path

import pytest


class Storm:
    """Asks the child, one request at a time."""

    def __init__(self, log):
        self.log = log
        with log.open("w") as errors:
            self.process = subprocess.Popen(
                [sys.executable, str(Path(__file__).parent / "storm_child.py")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )

    def ask(self, **request):
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"Storm ended: {self.log.read_text()[-2000:]}"
        return json.loads(line)

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


@pytest.fixture(scope="module")
def storm(tmp_path_factory):
    # its wheel needs libatomic, which a minimal system may not have
    loaded = subprocess.run([sys.executable, "-c", "import stormpy"], capture_output=True, text=True)
    if loaded.returncode != 0:
        pytest.skip(f"stormpy cannot be loaded: {loaded.stderr.strip().splitlines()[-1]}")
    storm = Storm(tmp_path_factory.mktemp("storm") / "log")
    yield storm
    storm.close()
