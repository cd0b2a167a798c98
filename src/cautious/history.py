"""What a learning run looked like, sample by sample."""

from dataclasses import dataclass, fields
from typing import Any

from cautious.arrays import Array


@dataclass(frozen=True)
class History:
    """One row per report: ``samples`` drawn so far and the estimates for the policy of that moment.

    ``objective``, ``risk`` and ``gap`` are estimates (NaN where none was made); ``violation`` is the 1-norm by which
    the learner's occupancy misses the balance of flows.

    Examples
    --------
    >>> import cautious as ca
    >>> learned = ca.learn(ca.worlds.river_swim().simulator(), samples=20_000)
    >>> list(learned.history.table())
    ['samples', 'objective', 'risk', 'gap', 'violation']
    """

    samples: Array
    objective: Array
    risk: Array
    gap: Array
    violation: Array

    def plot(self) -> Any:
        """The run as a matplotlib figure (extra ``plot``)."""
        from cautious.report.plots import plot_history

        return plot_history(self)

    def table(self) -> dict[str, list[float]]:
        """Columns by name."""
        return {field.name: getattr(self, field.name).tolist() for field in fields(self)}
