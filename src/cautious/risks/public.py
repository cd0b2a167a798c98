"""The risks of the public contract: those that problem files can name, and that reports describe."""

from cautious.risks.base import UnboundRisk
from cautious.risks.divergence import KL, Entropy, Quadratic, TotalVariation
from cautious.risks.features import PeakExposure, SafeSet, TaskFloors, WorstTask
from cautious.risks.measures import Exposure, Reach, Return
from cautious.risks.returns import ReturnBelow, ReturnCVaR, ReturnEntropic, ReturnEVaR, ReturnVariance
from cautious.risks.scalar import CVaR, Variance
from cautious.risks.wasserstein import Wasserstein

PUBLIC_RISKS: dict[str, type[UnboundRisk]] = {
    kind.__name__: kind
    for kind in (
        SafeSet,
        TaskFloors,
        PeakExposure,
        WorstTask,
        Variance,
        KL,
        TotalVariation,
        Quadratic,
        Wasserstein,
        CVaR,
        Entropy,
        Exposure,
        Reach,
        Return,
        ReturnVariance,
        ReturnCVaR,
        ReturnEntropic,
        ReturnEVaR,
        ReturnBelow,
    )
}
