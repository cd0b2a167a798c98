"""``requirements.lock``: every release is pinned with hashes that pip checks, and no index is named."""

import re
from pathlib import Path

LOCK = Path(__file__).parents[1] / "requirements.lock"
RELEASE = re.compile(r"[a-z0-9.-]+==[a-z0-9.+]+( ; [^\\]+)?( --hash=sha256:[0-9a-f]{64})+")


def test_every_release_has_hashes_and_no_address():
    requirements = re.sub(r" *\\\n *", " ", LOCK.read_text()).splitlines()
    assert len(requirements) > 100
    assert [line for line in requirements if not RELEASE.fullmatch(line)] == []
