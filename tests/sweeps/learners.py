"""Methods and simulators for tests of sweeps, importable by worker processes."""

import os
import signal
from pathlib import Path

import numpy as np


def first_action(simulator, risk, caution, samples, seed):
    return np.zeros(simulator.n_states, dtype=np.int64)


def by_seed(simulator, risk, caution, samples, seed):
    if seed == 1:
        raise ArithmeticError("seed 1 is unlucky")
    return lambda state: seed % simulator.n_actions


def deadly(simulator, risk, caution, samples, seed):
    """Ends its process, every time, for one seed."""
    if seed == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return np.zeros(simulator.n_states, dtype=np.int64)


class DiesOnce:
    """Learns nothing, but ends its process the first time that some seeds are tried."""

    def __init__(self, folder, seeds):
        self.folder, self.seeds = Path(folder), seeds

    def __call__(self, simulator, risk, caution, samples, seed):
        mark = self.folder / f"died-{seed}"
        if seed in self.seeds and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        with (self.folder / f"ran-{seed}").open("a") as file:
            file.write("x")
        rng = np.random.default_rng(seed)
        return rng.dirichlet(np.ones(simulator.n_actions), size=simulator.n_states)


class Hangs:
    def __call__(self, simulator, risk, caution, samples, seed):
        if seed == 1:
            import time

            time.sleep(3600)
        return np.zeros(simulator.n_states, dtype=np.int64)


def coin(state, action, rng):
    return int(rng.random() < 0.5), float(action)
