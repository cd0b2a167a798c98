"""cautious: risk-aware policies for Markov decision processes, each with a proof of how good it is.

Public names are loaded on first use, so that ``import cautious`` and the command line start at once.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "MDP": "cautious.models.tabular",
    "Scene": "cautious.models.scene",
    "Simulator": "cautious.models.simulators",
    "FunctionSimulator": "cautious.models.simulators",
    "GymSimulator": "cautious.models.gym_simulator",
    "from_gym": "cautious.models.gym_models",
    "to_gym": "cautious.models.gym_environment",
    "from_function": "cautious.models.exploration",
    "ExploredMDP": "cautious.models.exploration",
    "ExplorationProgress": "cautious.models.exploration",
    "LoggedMDP": "cautious.models.logged",
    "from_kernel": "cautious.models.matrix_free",
    "from_transitions": "cautious.models.logged",
    "read_model": "cautious.models.files",
    "read_labels": "cautious.models.files",
    "Inspection": "cautious.models.inspection",
    "inspect_model": "cautious.models.inspection",
    "read_problem": "cautious.problem_files.reading",
    "Problem": "cautious.problem",
    "Risk": "cautious.risks.base",
    "SafeSet": "cautious.risks.features",
    "TaskFloors": "cautious.risks.features",
    "PeakExposure": "cautious.risks.features",
    "WorstTask": "cautious.risks.features",
    "Variance": "cautious.risks.scalar",
    "CVaR": "cautious.risks.scalar",
    "ReturnVariance": "cautious.risks.returns",
    "ReturnCVaR": "cautious.risks.returns",
    "ReturnEntropic": "cautious.risks.returns",
    "ReturnEVaR": "cautious.risks.returns",
    "ReturnBelow": "cautious.risks.returns",
    "demonstrations": "cautious.episodes.demonstrations",
    "Demonstrations": "cautious.episodes.demonstrations",
    "KL": "cautious.risks.divergence",
    "Entropy": "cautious.risks.divergence",
    "TotalVariation": "cautious.risks.divergence",
    "Quadratic": "cautious.risks.divergence",
    "Wasserstein": "cautious.risks.wasserstein",
    "solve": "cautious.solvers.solve",
    "Progress": "cautious.solvers.base",
    "Certificate": "cautious.certificate.bounds",
    "Solution": "cautious.solution",
    "SolutionAgent": "cautious.solution_agent",
    "MemoryPolicy": "cautious.returns.memory_policy",
    "ReturnDistribution": "cautious.returns.forward",
    "ConstraintValue": "cautious.solution",
    "Status": "cautious.status",
    "load": "cautious.solution",
    "verify": "cautious.verification.verify",
    "Verification": "cautious.verification.verify",
    "sweep": "cautious.sweeps.sweep",
    "Sweep": "cautious.sweeps.results",
    "SweepProgress": "cautious.sweeps.jobs",
    "History": "cautious.history",
    "learn": "cautious.learning.learn",
    "LearningProgress": "cautious.learning.loop",
    "PlugIn": "cautious.learning.plug_in.plug_in",
    "PrimalDual": "cautious.learning.primal_dual.primal_dual",
    "AlgorithmOne": "cautious.learning.printed.algorithm_1",
    "AlgorithmTwo": "cautious.learning.printed.algorithm_2",
    "TensorBoard": "cautious.learning.tensorboard",
    "block_ascent": "cautious.learning.printed.block_ascent",
    "Constraint": "cautious.risks.base",
    "Exposure": "cautious.risks.measures",
    "Reach": "cautious.risks.measures",
    "Return": "cautious.risks.measures",
    "evaluate": "cautious.evaluation.evaluate",
    "Evaluation": "cautious.evaluation.evaluate",
    "compare": "cautious.comparison.compare",
    "Comparison": "cautious.comparison.results",
    "off_policy": "cautious.evaluation.off_policy",
    "OffPolicy": "cautious.evaluation.off_policy",
    "frontier": "cautious.frontiers",
    "Frontier": "cautious.frontiers",
    "CautiousError": "cautious.errors",
    "CautiousWarning": "cautious.errors",
    "FileError": "cautious.errors",
    "IncompatibleError": "cautious.errors",
    "InputError": "cautious.errors",
    "MissingExtraError": "cautious.errors",
    "SimulatorError": "cautious.errors",
    "WorkerError": "cautious.errors",
    "MemoryLimitError": "cautious.errors",
    "SolveError": "cautious.errors",
}
_MODULES = ("testing", "worlds")

__all__ = [
    "KL",
    "MDP",
    "AlgorithmOne",
    "AlgorithmTwo",
    "CVaR",
    "CautiousError",
    "CautiousWarning",
    "Certificate",
    "Comparison",
    "Constraint",
    "ConstraintValue",
    "Demonstrations",
    "Entropy",
    "Evaluation",
    "ExplorationProgress",
    "ExploredMDP",
    "Exposure",
    "FileError",
    "Frontier",
    "FunctionSimulator",
    "GymSimulator",
    "History",
    "IncompatibleError",
    "InputError",
    "Inspection",
    "LearningProgress",
    "LoggedMDP",
    "MemoryLimitError",
    "MemoryPolicy",
    "MissingExtraError",
    "OffPolicy",
    "PeakExposure",
    "PlugIn",
    "PrimalDual",
    "Problem",
    "Progress",
    "Quadratic",
    "Reach",
    "Return",
    "ReturnBelow",
    "ReturnCVaR",
    "ReturnDistribution",
    "ReturnEVaR",
    "ReturnEntropic",
    "ReturnVariance",
    "Risk",
    "SafeSet",
    "Scene",
    "Simulator",
    "SimulatorError",
    "Solution",
    "SolutionAgent",
    "SolveError",
    "Status",
    "Sweep",
    "SweepProgress",
    "TaskFloors",
    "TensorBoard",
    "TotalVariation",
    "Variance",
    "Verification",
    "Wasserstein",
    "WorkerError",
    "WorstTask",
    "block_ascent",
    "compare",
    "demonstrations",
    "evaluate",
    "from_function",
    "from_gym",
    "from_kernel",
    "from_transitions",
    "frontier",
    "inspect_model",
    "learn",
    "load",
    "off_policy",
    "read_labels",
    "read_model",
    "read_problem",
    "solve",
    "sweep",
    "testing",
    "to_gym",
    "verify",
    "worlds",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"cautious.{name}")
    if name not in _HOME:
        raise AttributeError(f"module 'cautious' has no attribute {name!r}")
    value = getattr(import_module(_HOME[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


if TYPE_CHECKING:
    from cautious import testing, worlds
    from cautious.certificate.bounds import Certificate
    from cautious.comparison.compare import compare
    from cautious.comparison.results import Comparison
    from cautious.episodes.demonstrations import Demonstrations, demonstrations
    from cautious.errors import (
        CautiousError,
        CautiousWarning,
        FileError,
        IncompatibleError,
        InputError,
        MemoryLimitError,
        MissingExtraError,
        SimulatorError,
        SolveError,
        WorkerError,
    )
    from cautious.evaluation.evaluate import Evaluation, evaluate
    from cautious.evaluation.off_policy import OffPolicy, off_policy
    from cautious.frontiers import Frontier, frontier
    from cautious.history import History
    from cautious.learning.learn import learn
    from cautious.learning.loop import LearningProgress
    from cautious.learning.plug_in.plug_in import PlugIn
    from cautious.learning.primal_dual.primal_dual import PrimalDual
    from cautious.learning.printed.algorithm_1 import AlgorithmOne
    from cautious.learning.printed.algorithm_2 import AlgorithmTwo
    from cautious.learning.printed.block_ascent import block_ascent
    from cautious.learning.tensorboard import TensorBoard
    from cautious.models.exploration import ExplorationProgress, ExploredMDP, from_function
    from cautious.models.files import read_labels, read_model
    from cautious.models.gym_environment import to_gym
    from cautious.models.gym_models import from_gym
    from cautious.models.gym_simulator import GymSimulator
    from cautious.models.inspection import Inspection, inspect_model
    from cautious.models.logged import LoggedMDP, from_transitions
    from cautious.models.scene import Scene
    from cautious.models.simulators import FunctionSimulator, Simulator
    from cautious.models.tabular import MDP
    from cautious.problem import Problem
    from cautious.problem_files.reading import read_problem
    from cautious.returns.forward import ReturnDistribution
    from cautious.returns.memory_policy import MemoryPolicy
    from cautious.risks.base import Risk
    from cautious.risks.divergence import KL, Entropy, Quadratic, TotalVariation
    from cautious.risks.features import PeakExposure, SafeSet, TaskFloors, WorstTask
    from cautious.risks.returns import ReturnBelow, ReturnCVaR, ReturnEntropic, ReturnEVaR, ReturnVariance
    from cautious.risks.scalar import CVaR, Variance
    from cautious.risks.wasserstein import Wasserstein
    from cautious.solution import Solution, load
    from cautious.solution_agent import SolutionAgent
    from cautious.solvers.base import Progress
    from cautious.solvers.solve import solve
    from cautious.status import Status
    from cautious.sweeps.jobs import SweepProgress
    from cautious.sweeps.results import Sweep
    from cautious.sweeps.sweep import sweep
    from cautious.verification.verify import Verification, verify
