"""Arguments of real calls: what kernels are given while small problems are solved and learned."""

import copy
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from cautious import _core

MOST_PER_KERNEL = 8


def recorded_calls() -> dict[str, list[tuple[Any, ...]]]:
    """Copies of the first arguments of every kernel, by subject and name.

    It must run before the modules that import kernels are loaded: those see functions that write down their arguments.
    """
    found: dict[str, list[tuple[Any, ...]]] = {}
    for subject, name, *_ in _core.DESCRIPTIONS:
        module = getattr(_core, subject)
        setattr(module, name, _recorder(getattr(module, name), found.setdefault(f"{subject}.{name}", [])))
    _solve_and_learn()
    return found


def _recorder(function: Callable[..., Any], calls: list[tuple[Any, ...]]) -> Callable[..., Any]:
    def called(*arguments: Any) -> Any:
        if len(calls) < MOST_PER_KERNEL:
            calls.append(copy.deepcopy(arguments))
        return function(*arguments)

    return called


def _solve_and_learn() -> None:
    """Every solver on every kind of risk that it takes, every learner, and a file."""
    import cautious as ca
    from cautious.models.chains import DeterministicChains
    from cautious.models.evaluation_acceleration import EvaluationAcceleration
    from cautious.models.formats.text import read_columns
    from cautious.runtime.clock import Clock
    from cautious.solvers.base import Target, run
    from cautious.solvers.choose import SOLVERS

    rng = np.random.default_rng(0)
    line = sp.csr_array(np.eye(12, k=1) + np.eye(12, k=-1))
    # corrections along likely paths, which small models do not need
    steady = ca.MDP(_walk(12), rng.random((12, 3)), 0.999)
    actions = np.zeros(12, np.int64)
    chain, gain = DeterministicChains(steady, steady.rewards.ravel()).chain(actions)
    EvaluationAcceleration(steady).evaluate(chain, gain, np.zeros(12), 6, actions)
    # with several threads
    _core.planning.evaluate(*chain.arrays, gain, 0.999, np.zeros(12), np.empty(12), 0, 1)
    for mdp in (ca.worlds.garnet(12, 3, 4), ca.MDP(_walk(12), rng.random((12, 3)), 0.95)):
        n, shape = mdp.n_states, mdp.shape
        states, pairs = np.full(n, 1 / n), np.full(shape, 1 / mdp.rewards.size)
        risks = [
            ca.KL(pairs),
            ca.KL(states),
            ca.TotalVariation(pairs),
            ca.TotalVariation(states),
            ca.Quadratic(pairs),
            ca.Quadratic(states),
            ca.Wasserstein(states, line),
            ca.Wasserstein(states, np.abs(np.subtract.outer(np.arange(n), np.arange(n))).astype(float)),
            ca.SafeSet(np.arange(n) > 2, slack=0.9),
            ca.WorstTask(rng.random((3, *shape))),
            ca.Variance(),
            ca.KL(np.arange(3) / (3 * n) * np.ones(shape)),
        ]
        for risk in [*risks, risks[0] + risks[8], risks[2] + risks[9]]:
            for caution in (0.1, 1.0):
                problem = ca.Problem(mdp, risk, caution)
                for solver in SOLVERS:
                    if solver.refusal(problem) is None:
                        run(solver, problem, Target(tolerance=1e-6, clock=Clock(5.0)), None)
        # conditional gradients take no step on models as small as these
        rest = (np.zeros(n), pairs, 1.0, np.empty(shape))
        _core.simplex.projected_step(*mdp.csr, mdp.rewards, np.ones(shape, np.bool_), mdp.discount, *rest)
        for risk in (ca.ReturnVariance(), ca.ReturnCVaR(0.9), ca.ReturnEntropic(1.0), ca.ReturnBelow(1.0)):
            for horizon in (None, 3):
                ca.solve(ca.Problem(mdp, risk, horizon=horizon), tolerance=0.1)
        # grids of targets that are refined where it matters
        ca.solve(ca.Problem(mdp, ca.ReturnVariance()), tolerance=1e-6)
        # returns told apart more finely than a policy remembers
        ca.solve(ca.Problem(mdp, ca.ReturnCVaR(0.9), horizon=3), tolerance=0.1).return_distribution()
        ca.inspect_model(mdp)
        ca.solve(ca.Problem(mdp))
        # more than rounding allows: multipliers and values in twice the working precision
        ca.solve(ca.Problem(mdp, ca.PeakExposure([[0], [1]]), 1.0), tolerance=1e-15)
        for method in ("plug-in", "primal-dual", "paper"):
            ca.learn(mdp.simulator(), ca.KL(pairs), caution=1.0, samples=2000, method=method)
    # steps until an end
    ca.solve(ca.Problem(_until_the_end(rng), horizon="total"))
    ca.from_kernel(9, 2, lambda states, action: (states[:, None], np.ones((states.size, 1)), np.ones((states.size, 1))))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "columns.txt"
        path.write_text("0 1 0.5 a\n1 0 1e-30 b\n# nothing\n")
        with path.open("rb") as stream:
            read_columns(path, stream, 0, 2, "two whole numbers", words=True)


def _until_the_end(rng: np.random.Generator) -> Any:
    """Twelve states in which both actions lead forward, and sometimes a step back, until the last one."""
    import cautious as ca

    table = np.zeros((12, 2, 12))
    for state in range(11):
        table[state, :, state + 1] = 0.8
        table[state, :, max(state - 1, 0)] = 0.2
    table[11, :, 11] = 1.0
    rewards = -rng.random((12, 2))
    rewards[11] = 0.0
    return ca.MDP(table, rewards, 1.0)


def _walk(n: int) -> Any:
    """Transitions (n, 3, n) on a line: right, left or stay, mostly."""
    walk = 10.0 * np.stack([np.eye(n, k=1), np.eye(n, k=-1), np.eye(n)], axis=1) + np.eye(n)[:, None]
    return walk / walk.sum(axis=2, keepdims=True)


def varied(arguments: tuple[Any, ...], rng: np.random.Generator, numbers: tuple[float, ...]) -> list[Any]:
    """A copy in which some entries of arrays of fractions, and some numbers, are others; indices are kept."""
    made = list(copy.deepcopy(arguments))
    # each at most once: a count that is changed twice could become a smaller one
    for at in rng.permutation(len(made))[: rng.integers(0, 4)]:
        old = made[at]
        if isinstance(old, np.ndarray) and old.dtype == np.float64:
            places = rng.random(old.shape) < rng.choice([0.05, 0.5, 1.0])
            old[places] = rng.choice([*numbers, *rng.normal(size=8)], old.shape)[places]
        elif isinstance(old, np.ndarray) and old.dtype == np.bool_:
            old ^= rng.random(old.shape) < 0.2
        elif isinstance(old, float):
            made[at] = float(rng.choice(numbers))
        elif type(old) is int:
            # not a smaller count: indices would lie beyond it
            made[at] = int(rng.choice([-1, old + 1, -(2**62)]))
    return made
