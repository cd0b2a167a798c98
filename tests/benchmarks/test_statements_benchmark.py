"""A short version of ``benchmarks/statements.py``: statements hold, and say as much as the benchmark demands."""

import runpy
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(FOLDER), *sys.path])
    return runpy.run_path(str(FOLDER / "statements.py"), run_name="cautious_benchmark")


def test_simulators(benchmark):
    """Two worlds that nothing was tuned on; over 200 runs the ratios are below nine."""
    for world in (benchmark["evaluation_worlds"]()[number] for number in (0, 2)):
        for risk, caution in ((None, 0.0), (world.risk, world.caution)):
            row = benchmark["simulator_row"](world, risk, caution, benchmark["Seeds"](12))
            assert row["coverage"] == 1
            assert row["ratio"] <= benchmark["LARGEST_RATIO"]


@pytest.mark.parametrize(("shape", "branching"), [((8, 3), None), ((15, 4), 3)])
def test_logs(benchmark, shape, branching):
    """The counted optimum misses the aim on small one-sided logs, and the robust policy reaches it."""
    row = benchmark["log_row"](shape, branching, True, 4)
    assert row["coverage"] == row["a tenth proved"] == 1
    assert row["proved"] > max(0.4, row["proved, counted"])
