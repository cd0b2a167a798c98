"""Every parameter of every public function, given odd values: a normal answer or an error of ours.

Never a TypeError of Python, an overflow, a crash or a call without end. The calls run in processes of their own, with
limits of time and memory.
"""

import inspect
import resource
import signal
import subprocess
import sys
import time
import warnings
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp

import cautious as ca

CPU_SECONDS = 6
# functions that share a process, because starting one takes a second
TOGETHER = 12
SECONDS = 900
MEMORY = 8 * 2**30
BIG = 10**5000


def broken():
    """A sparse matrix with an index out of range."""
    matrix = sp.lil_array(np.eye(6))
    matrix.rows[0] = [2**40]
    return matrix


ODD = {
    "None": lambda: None,
    "True": lambda: True,
    "False": lambda: False,
    "0": lambda: 0,
    "1": lambda: 1,
    "-1": lambda: -1,
    "0.5": lambda: 0.5,
    "-0.5": lambda: -0.5,
    "NaN": lambda: float("nan"),
    "infinity": lambda: float("inf"),
    "minus infinity": lambda: float("-inf"),
    "1e300": lambda: 1e300,
    "-1e300": lambda: -1e300,
    "1e-320": lambda: 1e-320,
    "2**31": lambda: 2**31,
    "2**63": lambda: 2**63,
    "5,001 digits": lambda: BIG,
    "minus 5,001 digits": lambda: -BIG,
    "list of 5,001 digits": lambda: [BIG],
    "complex": lambda: 1j,
    "fraction": lambda: Fraction(1, 3),
    "decimal": lambda: Decimal("NaN"),
    "date": lambda: datetime(2020, 1, 1, tzinfo=UTC),
    "empty text": lambda: "",
    "text": lambda: "x",
    "null character": lambda: "\0",
    "lone surrogate": lambda: "\ud800",
    "text of digits": lambda: "9" * 5001,
    "bytes": lambda: b"x",
    "empty list": lambda: [],
    "list": lambda: [1, 2],
    "ragged": lambda: [[1.0], [2.0, 3.0]],
    "ragged beside a number": lambda: [1.0, [2.0, 3.0]],
    "nested empty": lambda: [[]],
    "list of None": lambda: [None],
    "tuple": lambda: (),
    "tuple of texts": lambda: ("a", "b"),
    "mapping": lambda: {"a": 1},
    "empty mapping": lambda: {},
    "mapping of arrays": lambda: {0: np.ones(2)},
    "set": lambda: {1, "a"},
    "generator": lambda: (one for one in (1, 2)),
    "range": lambda: range(3),
    "empty array": lambda: np.array([]),
    "array": lambda: np.array([1.0, 2.0]),
    "array of one flag": lambda: np.array([True]),
    "array without axes": lambda: np.array(0.5),
    "array of NaN": lambda: np.full((6, 2), np.nan),
    "array of three axes": lambda: np.ones((2, 2, 2)),
    "array of eight axes": lambda: np.ones((1,) * 8),
    "array of texts": lambda: np.array(["x", "y"]),
    "array of objects": lambda: np.array([None, "x", 1], dtype=object),
    "array of dates": lambda: np.array(["2020-01-01"], "M8[D]"),
    "structured array": lambda: np.zeros(2, "f8,i4"),
    "masked": lambda: np.ma.masked,
    "NumPy integer": lambda: np.int8(3),
    "NumPy NaN": lambda: np.float32("nan"),
    "sparse": lambda: sp.eye_array(6),
    "broken sparse": broken,
    "function": lambda: lambda *anything: 0,
    "class": lambda: int,
    "object": object,
    "model": lambda: MDP,
    "risk": lambda: ca.Entropy(),
    "solution": lambda: SOLUTION,
}

MDP = ca.worlds.river_swim()
POLICY = np.full((6, 2), 0.5)
UNIFORM = np.full(6, 1 / 6)
PROBLEM = ca.Problem(MDP, ca.Entropy(), 0.1)
SOLUTION = ca.solve(ca.Problem(MDP))
AGENT = SOLUTION.agent()
REMEMBERING = ca.solve(ca.Problem(MDP, ca.ReturnCVaR(0.5), horizon=3))
FRONTIER = ca.frontier(MDP, ca.Entropy(), [0.1, 0.2])
SWEEP = ca.sweep(PROBLEM, methods=["exact"], cautions=[0.1, 0.2], samples=100, seeds=1)
RETURNS = ca.solve(PROBLEM).return_distribution()
LINE = np.abs(np.arange(6.0)[:, None] - np.arange(6.0))
LOG = {"state": [0, 0, 1], "action": [0, 1, 0], "reward": [0.0, 1.0, 0.5], "next_state": [1, 0, 0]}
TASKS = np.stack([MDP.rewards, 1 - MDP.rewards])
P = MDP.transitions.toarray().reshape(6, 2, 6)


def used(make):
    """A risk is used in a problem, which is where its data are checked."""

    def call(**given):
        return ca.solve(ca.Problem(MDP, make(**given), 0.1), tolerance=1e-3, time_limit_seconds=3.0)

    return call


# functions of the user, whose own errors are not ours
CALLED = ("callback", "outcomes", "actions", "step", "set_state")


def stopping():
    """A callback that ends a long run; that it may be long is not an error."""
    until = time.process_time() + 1
    return lambda progress: time.process_time() > until


def learned(make):
    def call(**given):
        return ca.learn(MDP.simulator(), samples=3000, method=make(**given), callback=stopping())

    return call


def simulated(**given):
    return ca.learn(ca.FunctionSimulator(**given), samples=500)


def summarised(self=None, **given):
    return SWEEP.summary(**given)


def plotted(self=None, **given):
    figure = SWEEP.plot(**given)
    figure.clear()


def weighted(weight):
    for bounded in (lambda: ca.Entropy() * weight, lambda: ca.Entropy() <= weight, lambda: ca.Exposure([0]) >= weight):
        with suppress(ca.InputError):
            bounded()


def scenes(**given):
    mdp = ca.MDP(P, MDP.rewards, scene=ca.Scene(**given))
    mdp.save("scene.npz")
    return ca.read_model("scene.npz")


def environment():
    import gymnasium

    return gymnasium.make("FrozenLake-v1")


def saved(suffix):
    name = f"model{suffix}"
    MDP.save(name)
    return name


def counted(state):
    return [0, 1] if isinstance(state, int) and 0 <= state < 3 else []


def outcomes(state, action):
    return [(1.0, state + 1, 1.0)]


def staying(states, action):
    return states[:, None], np.ones((states.size, 1)), np.zeros((states.size, 1))


# name: (function, whose signature has the parameters, and the arguments of a good call, made when they are needed)
FUNCTIONS = {
    "MDP": (ca.MDP, ca.MDP, lambda: {"transitions": P, "rewards": MDP.rewards}),
    "Problem": (ca.Problem, ca.Problem, lambda: {"mdp": MDP}),
    "Problem with a risk": (ca.Problem, ca.Problem, lambda: {"mdp": MDP, "risk": ca.Entropy()}),
    "solve": (ca.solve, ca.solve, lambda: {"problem": PROBLEM, "time_limit_seconds": 3.0}),
    "frontier": (
        ca.frontier,
        ca.frontier,
        lambda: {"mdp": MDP, "risk": ca.Entropy(), "cautions": [0.1, 0.2], "time_limit_seconds": 3.0},
    ),
    "evaluate": (
        ca.evaluate,
        ca.evaluate,
        lambda: {"mdp_or_simulator": MDP, "policy": POLICY, "episodes": 5, "horizon": 10},
    ),
    "evaluate a simulator": (
        ca.evaluate,
        ca.evaluate,
        lambda: {"mdp_or_simulator": MDP.simulator(), "policy": POLICY, "episodes": 5, "horizon": 10},
    ),
    "learn": (ca.learn, ca.learn, lambda: {"simulator": MDP.simulator(), "samples": 3000, "callback": stopping()}),
    **{
        f"learn {method}": (
            ca.learn,
            ca.learn,
            lambda method=method: {
                "simulator": MDP.simulator(),
                "samples": 3000,
                "risk": ca.Entropy(),
                "caution": 0.1,
                "method": method,
                "callback": stopping(),
            },
        )
        for method in ("plug-in", "primal-dual", "paper")
    },
    "learn a log": (
        ca.learn,
        ca.learn,
        lambda: {"simulator": ca.from_transitions(LOG, 0.9, untried="forbid"), "risk": ca.Entropy(), "caution": 0.1},
    ),
    "compare": (
        ca.compare,
        ca.compare,
        lambda: {"problem": PROBLEM, "methods": ["cautious"], "time_limit_seconds": 0.3},
    ),
    "off_policy": (
        ca.off_policy,
        ca.off_policy,
        lambda: {"logged": ca.from_transitions(LOG, 0.9, untried="forbid"), "policy": np.full((2, 2), 0.5)},
    ),
    "from_transitions": (
        ca.from_transitions,
        ca.from_transitions,
        lambda: {"table": LOG, "discount": 0.9, "untried": "forbid"},
    ),
    "from_function": (
        ca.from_function,
        ca.from_function,
        lambda: {"initial_states": [0], "actions": counted, "outcomes": outcomes, "at_end": "absorb"},
    ),
    "from_gym": (
        ca.from_gym,
        ca.from_gym,
        lambda: {"env": environment(), "discount": 0.9, "at_end": "absorb"},
    ),
    "GymSimulator": (
        ca.GymSimulator,
        ca.GymSimulator,
        lambda: {"env": environment(), "discount": 0.9, "at_end": "absorb"},
    ),
    "to_gym": (ca.to_gym, ca.to_gym, lambda: {"mdp": MDP}),
    "FunctionSimulator": (
        simulated,
        ca.FunctionSimulator,
        lambda: {
            "step": lambda state, action, rng: (0, 0.5),
            "n_states": 2,
            "n_actions": 1,
            "discount": 0.9,
            "reward_range": (0.0, 1.0),
        },
    ),
    "demonstrations": (
        ca.demonstrations,
        ca.demonstrations,
        lambda: {"episodes": [[0, 1, 2]], "model": MDP, "smoothing": 0.1, "at_end": "absorb"},
    ),
    "inspect_model": (ca.inspect_model, ca.inspect_model, lambda: {"mdp": MDP}),
    "block_ascent": (
        ca.block_ascent,
        ca.block_ascent,
        lambda: {"problem": ca.Problem(MDP, ca.Variance(), 0.1), "rounds": 3},
    ),
    **{
        f"read_model {suffix}": (ca.read_model, ca.read_model, lambda suffix=suffix: {"path": saved(suffix)})
        for suffix in (".npz", ".umb", ".tra", ".csv", ".mat")
    },
    "read_labels": (ca.read_labels, ca.read_labels, lambda: {"path": saved(".umb")}),
    "read_problem": (ca.read_problem, ca.read_problem, lambda: {"path": "problem.toml"}),
    "load": (ca.load, ca.load, lambda: {"path": "solution.npz"}),
    "verify": (ca.verify, ca.verify, lambda: {"solution": "solution.npz"}),
    "save": (MDP.save, MDP.save, lambda: {"path": "saved.npz"}),
    "save solution": (SOLUTION.save, SOLUTION.save, lambda: {"path": "saved.npz"}),
    "report": (SOLUTION.report, SOLUTION.report, lambda: {"path": "report.html"}),
    "save as csv": (SOLUTION.to_csv, SOLUTION.to_csv, lambda: {"path": "policy.csv"}),
    "save as a workbook": (SOLUTION.to_excel, SOLUTION.to_excel, lambda: {"path": "policy.xlsx"}),
    "explore": (SOLUTION.explore, SOLUTION.explore, dict),
    "report of a frontier": (FRONTIER.report, FRONTIER.report, lambda: {"path": "frontier.html"}),
    "Sweep save": (SWEEP.save, SWEEP.save, lambda: {"path": "runs.csv"}),
    "Sweep plot": (plotted, ca.Sweep.plot, lambda: {"self": None}),
    "solve a return": (
        ca.solve,
        ca.solve,
        lambda: {"problem": ca.Problem(MDP, ca.ReturnCVaR(0.5), horizon=3), "time_limit_seconds": 3.0},
    ),
    "frontier of limits": (
        ca.frontier,
        ca.frontier,
        lambda: {"mdp": MDP, "constraints": [ca.Exposure([0]) <= 0.5], "limits": [0.4], "time_limit_seconds": 3.0},
    ),
    "evaluate an agent": (
        ca.evaluate,
        ca.evaluate,
        lambda: {"mdp_or_simulator": MDP, "policy": REMEMBERING.agent(), "episodes": 3, "horizon": 3},
    ),
    "predict with memory": (REMEMBERING.predict, REMEMBERING.predict, lambda: {"observation": 0}),
    "save with memory": (REMEMBERING.save, REMEMBERING.save, lambda: {"path": "saved.npz"}),
    "Scene": (scenes, ca.Scene, lambda: {"title": "x"}),
    "TensorBoard": (ca.TensorBoard, ca.TensorBoard, lambda: {"folder": "board"}),
    "KL": (used(ca.KL), ca.KL, lambda: {"prior": UNIFORM}),
    "TotalVariation": (used(ca.TotalVariation), ca.TotalVariation, lambda: {"prior": POLICY}),
    "Quadratic": (used(ca.Quadratic), ca.Quadratic, lambda: {"prior": POLICY / 6}),
    "Wasserstein": (used(ca.Wasserstein), ca.Wasserstein, lambda: {"prior": UNIFORM, "metric": LINE}),
    "Exposure": (used(ca.Exposure), ca.Exposure, lambda: {"states": [0, 1]}),
    "Reach": (ca.Reach, ca.Reach, lambda: {"states": [0, 1]}),
    "Return": (used(ca.Return), ca.Return, lambda: {"rewards": MDP.rewards}),
    "SafeSet": (used(ca.SafeSet), ca.SafeSet, lambda: {"states": [0, 1, 2, 3, 4], "slack": 0.5}),
    "TaskFloors": (used(ca.TaskFloors), ca.TaskFloors, lambda: {"task_rewards": TASKS, "floors": [-1.0, -1.0]}),
    "PeakExposure": (used(ca.PeakExposure), ca.PeakExposure, lambda: {"sets": [[0], [1]]}),
    "WorstTask": (used(ca.WorstTask), ca.WorstTask, lambda: {"task_rewards": TASKS}),
    "CVaR": (used(ca.CVaR), ca.CVaR, lambda: {"level": 0.5}),
    "ReturnVariance": (used(ca.ReturnVariance), ca.ReturnVariance, dict),
    "ReturnCVaR": (used(ca.ReturnCVaR), ca.ReturnCVaR, lambda: {"level": 0.5}),
    "ReturnEntropic": (used(ca.ReturnEntropic), ca.ReturnEntropic, lambda: {"rate": 0.5}),
    "ReturnEVaR": (used(ca.ReturnEVaR), ca.ReturnEVaR, lambda: {"level": 0.5}),
    "ReturnBelow": (used(ca.ReturnBelow), ca.ReturnBelow, lambda: {"threshold": 0.5}),
    "SolutionAgent reset": (AGENT.reset, AGENT.reset, dict),
    "SolutionAgent act": (AGENT.act, AGENT.act, lambda: {"state": 0}),
    "SolutionAgent observe": (AGENT.observe, AGENT.observe, lambda: {"reward": 0.0, "next_state": 0}),
    "ReturnDistribution quantile": (RETURNS.quantile, RETURNS.quantile, lambda: {"share": 0.5}),
    "ReturnDistribution cvar": (RETURNS.cvar, RETURNS.cvar, lambda: {"level": 0.5}),
    "ReturnDistribution below": (RETURNS.below, RETURNS.below, lambda: {"threshold": 0.5}),
    "from_kernel": (
        ca.from_kernel,
        ca.from_kernel,
        lambda: {"n_states": 4, "n_actions": 2, "outcomes": staying},
    ),
    "sweep": (
        ca.sweep,
        ca.sweep,
        lambda: {"problems": PROBLEM, "methods": ["exact"], "cautions": [0.1], "samples": 100, "seeds": 1},
    ),
    "Sweep summary": (summarised, ca.Sweep.summary, lambda: {"self": None}),
    "predict": (SOLUTION.predict, SOLUTION.predict, lambda: {"observation": 0}),
    "expect_next": (MDP.expect_next, MDP.expect_next, lambda: {"values": UNIFORM}),
    "flow_into": (MDP.flow_into, MDP.flow_into, lambda: {"occupancy": POLICY}),
    "under": (MDP.under, MDP.under, lambda: {"policy": POLICY}),
    "weighted risk": (weighted, weighted, lambda: {"weight": 2.0}),
    "PlugIn": (learned(ca.PlugIn), ca.PlugIn, dict),
    "AlgorithmOne": (learned(ca.AlgorithmOne), ca.AlgorithmOne, dict),
    **{
        f"worlds.{name}": (getattr(ca.worlds, name), getattr(ca.worlds, name), dict)
        for name in [
            "clinic",
            "drift",
            "drift_prior",
            "drift_prior_world",
            "forest",
            "garnet",
            "inventory",
            "liquidation",
            "machine_replacement",
            "maze",
            "queue",
            "river_swim",
        ]
    },
    "worlds.problem": (ca.worlds.problem, ca.worlds.problem, lambda: {"name": "maze"}),
    "worlds.describe": (ca.worlds.describe, ca.worlds.describe, lambda: {"name": "maze"}),
    "worlds.dark_cells": (ca.worlds.dark_cells, ca.worlds.dark_cells, lambda: {"mdp": ca.worlds.maze()}),
    "worlds.clinic_tasks": (ca.worlds.clinic_tasks, ca.worlds.clinic_tasks, lambda: {"mdp": ca.worlds.clinic()}),
    "worlds.from_grid": (
        ca.worlds.from_grid,
        ca.worlds.from_grid,
        lambda: {"grid": ["S.G"], "pays": {"S": 0.0, ".": -1.0, "G": 0.0}, "absorbing": "G", "start": "S"},
    ),
}


class TooLongError(Exception):
    """The call took too much time."""


def too_long(number, frame):
    raise TooLongError


def attack(name):
    """Every odd value for every parameter; prints what was neither an answer nor an error of ours."""
    call, described, arguments = FUNCTIONS[name]
    for parameter in inspect.signature(described).parameters:
        for odd, value in ODD.items():
            if odd == "class" and parameter in CALLED:
                continue
            if odd == "2**31" and parameter == "episodes":
                # so many are simulated, in hours
                continue
            given = arguments() | {parameter: value()}
            print(f"{name}({parameter}={odd})", file=sys.stderr, flush=True)
            signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
            try:
                call(**given)
            except ca.CautiousError as error:
                # a message shows the beginning of what was found
                if len(str(error)) > 6000:
                    print(f"{name}({parameter}={odd}): a message of {len(str(error))} characters")
            except BaseException as error:
                print(f"{name}({parameter}={odd}): {type(error).__name__}: {error!s:.200}")
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)


@pytest.mark.parametrize("first", range(0, len(FUNCTIONS), TOGETHER))
def test_odd_arguments_give_an_answer_or_an_error_of_ours(first, tmp_path):
    names = list(FUNCTIONS)[first : first + TOGETHER]
    done = subprocess.run(
        [sys.executable, __file__, *names], capture_output=True, text=True, timeout=SECONDS, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr[-1000:]
    assert done.stdout == ""


# what users are given and do not make, and what has no parameters that mean anything by themselves
GIVEN = {
    "AlgorithmTwo",
    "Certificate",
    "Comparison",
    "Constraint",
    "ConstraintValue",
    "Demonstrations",
    "Entropy",
    "Evaluation",
    "ExplorationProgress",
    "ExploredMDP",
    "Frontier",
    "History",
    "Inspection",
    "LearningProgress",
    "LoggedMDP",
    "MemoryPolicy",
    "OffPolicy",
    "PrimalDual",
    "Progress",
    "ReturnDistribution",
    "Risk",
    "Simulator",
    "Solution",
    "Status",
    "Sweep",
    "SweepProgress",
    "Variance",
    "Verification",
}


def test_every_public_function_is_tried():
    public = {name for name in ca.__all__ if callable(getattr(ca, name))}
    errors = {
        name for name in public if inspect.isclass(getattr(ca, name)) and issubclass(getattr(ca, name), Exception)
    }
    tried = {name.split(" ")[0] for name in FUNCTIONS}
    assert public - errors - tried <= GIVEN
    worlds = {f"worlds.{name}" for name in ca.worlds.__all__ if inspect.isfunction(getattr(ca.worlds, name))}
    assert worlds - tried <= {"worlds.names"}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGPROF, too_long)
    SOLUTION.save("solution.npz")
    with open("problem.toml", "w") as file:
        file.write('[model]\nworld = "river_swim"\n')
    for one in sys.argv[1:] or FUNCTIONS:
        attack(one)
