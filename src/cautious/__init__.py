"""cautious: risk-aware policies for Markov decision processes, each with a proof of how good it is."""

from cautious import worlds
from cautious.certificate import Certificate
from cautious.errors import (
    CautiousError,
    CautiousWarning,
    FileError,
    IncompatibleError,
    InputError,
    MissingExtraError,
    SolveError,
)
from cautious.evaluate import Evaluation, evaluate
from cautious.frontier import Frontier, frontier
from cautious.models.files import read_model
from cautious.models.scene import Scene
from cautious.models.simulators import Simulator
from cautious.models.tabular import MDP
from cautious.problem import Problem
from cautious.risks.base import Risk
from cautious.risks.features import PeakExposure, SafeSet, TaskFloors, WorstTask
from cautious.risks.scalar import CVaR, Variance
from cautious.risks.separable import KL, Entropy, Quadratic, TotalVariation
from cautious.risks.transport import Wasserstein
from cautious.solution import Solution, Status, load
from cautious.solvers.base import Progress
from cautious.solvers.solve import solve

__version__ = "0.1.0"

__all__ = [
    "KL",
    "MDP",
    "CVaR",
    "CautiousError",
    "CautiousWarning",
    "Certificate",
    "Entropy",
    "Evaluation",
    "FileError",
    "Frontier",
    "IncompatibleError",
    "InputError",
    "MissingExtraError",
    "PeakExposure",
    "Problem",
    "Progress",
    "Quadratic",
    "Risk",
    "SafeSet",
    "Scene",
    "Simulator",
    "Solution",
    "SolveError",
    "Status",
    "TaskFloors",
    "TotalVariation",
    "Variance",
    "Wasserstein",
    "WorstTask",
    "evaluate",
    "frontier",
    "load",
    "read_model",
    "solve",
    "worlds",
]
