"""``Sweep``: the rows of a study, their summaries, and how they are kept and drawn."""

import csv
import io
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cautious.checks import as_seed, did_you_mean, is_listable
from cautious.errors import InputError, MissingExtraError, shown
from cautious.regular_files import as_path, replacing
from cautious.sweeps.statistics import interquartile_mean, stratified_bootstrap

AXES = ("problem", "method", "caution", "samples", "seed")
NUMBERS = ("objective", "expected_return", "risk", "gap")
COLUMNS = (*AXES, "status", "objective", "expected_return", "risk", "gap", "drawn", "error")
PARQUET = ".parquet"


@dataclass(frozen=True, repr=False)
class Sweep:
    """What ``ca.sweep`` returns: a row for each run, in the order of its arguments.

    Attributes
    ----------
    rows
        One mapping per run: ``problem``, ``method``, ``caution``, ``samples`` and ``seed`` say which it is; ``status``
        is a name of ``ca.Status``, "GIVEN" for the policy of a function, or "FAILED"; ``objective``,
        ``expected_return`` and ``risk`` are those of the policy, exact in a known model; ``gap`` is how far it is at
        most below the best policy, None with a simulator; ``drawn`` is how many samples were drawn; ``error`` is what
        a failed run raised.
    missing
        How many runs were not done, because the callback stopped the sweep.

    Examples
    --------
    >>> import cautious as ca
    >>> problem = ca.Problem(ca.worlds.river_swim(), ca.Variance(), caution=2.0)
    >>> found = ca.sweep({"swim": problem}, ["plug-in"], samples=[2_000, 8_000], seeds=4)
    >>> [(row["samples"], row["n"], row["low"] <= row["iqm"] <= row["high"]) for row in found.summary("gap")]
    [(2000, 4, True), (8000, 4, True)]
    """

    rows: tuple[Mapping[str, Any], ...]
    missing: int = 0

    @property
    def failed(self) -> tuple[Mapping[str, Any], ...]:
        """The rows of runs that failed."""
        return tuple(row for row in self.rows if row["error"])

    def table(self) -> list[dict[str, Any]]:
        """One dictionary per run, for a DataFrame."""
        return [dict(row) for row in self.rows]

    def summary(
        self,
        number: str = "objective",
        by: Sequence[str] = ("problem", "method", "caution", "samples"),
        seed: int = 0,
    ) -> list[dict[str, Any]]:
        """Interquartile mean, its 95 % interval and the mean of a number, for each combination of the columns ``by``.

        The interval is that of the stratified bootstrap: runs are drawn again within each combination of the other
        columns that say what a run is, such as problems. Runs without the number are left out; ``n`` counts the others.
        A combination without any has no row.
        """
        if not isinstance(number, str) or number not in NUMBERS:
            near = did_you_mean(number, NUMBERS) if isinstance(number, str) else ""
            raise InputError(f"number is {shown(number)}{near or ';'} it can be {', '.join(NUMBERS)}")
        if not is_listable(by):
            raise InputError(f"by is {shown(by)}; it is a list of {', '.join(AXES[:-1])}")
        by = list(by)
        wrong = [name for name in by if not isinstance(name, str) or name not in AXES[:-1]]
        if wrong:
            raise InputError(f"by holds {shown(wrong[0])}; it is a list of {', '.join(AXES[:-1])}")
        within = [name for name in AXES[:-1] if name not in by]
        groups: dict[tuple[Any, ...], dict[tuple[Any, ...], list[float]]] = {}
        for row in self.rows:
            value = row[number]
            if value is None or not np.isfinite(value):
                continue
            strata = groups.setdefault(tuple(row[name] for name in by), {})
            strata.setdefault(tuple(row[name] for name in within), []).append(float(value))
        found = []
        for key, strata in groups.items():
            columns = [np.array(values) for values in strata.values()]
            values = np.concatenate(columns)
            low, high = stratified_bootstrap(columns, np.random.default_rng(as_seed(seed)))
            found.append(
                dict(zip(by, key, strict=True))
                | {
                    "n": values.size,
                    "iqm": float(interquartile_mean(values)),
                    "low": low,
                    "high": high,
                    "mean": float(values.mean()),
                }
            )
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the table: ``.csv``, or ``.parquet`` (extra ``data``)."""
        target = as_path(path)
        kind = target.suffix.lower()
        if kind not in (".csv", PARQUET):
            raise InputError(f"{target} ends with {kind!r}; a sweep is written as .csv or .parquet")
        content = self._parquet() if kind == PARQUET else self._csv()
        with replacing(target) as stream:
            stream.write(content)

    def _csv(self) -> bytes:
        text = io.StringIO()
        writer = csv.DictWriter(text, fieldnames=COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(self.rows)
        return text.getvalue().encode()

    def _parquet(self) -> bytes:
        try:
            import pyarrow as pa
            import pyarrow.parquet as parquet
        except ImportError:
            raise MissingExtraError(
                'Parquet files need pyarrow; install it with: pip install "cautious[data]"'
            ) from None
        texts, whole = ("problem", "method", "status", "error"), ("samples", "seed", "drawn")
        kinds = {
            name: pa.string() if name in texts else pa.int64() if name in whole else pa.float64() for name in COLUMNS
        }
        columns = {name: pa.array([row[name] for row in self.rows], kind) for name, kind in kinds.items()}
        buffer = io.BytesIO()
        parquet.write_table(pa.table(columns), buffer)
        return buffer.getvalue()

    def plot(self, number: str | None = None, against: str | None = None) -> Any:
        """Interquartile means with their 95 % bands (extra ``plot``): a panel for each problem, a line for each method.

        ``against`` is "samples" or "caution": by default samples, if there are several. ``number`` is by default the
        gap against samples where it is known, and otherwise the objective.
        """
        from cautious.report.sweep_plot import plot_sweep

        return plot_sweep(self, number, against)

    def __repr__(self) -> str:
        sizes = {name: len({row[name] for row in self.rows}) for name in AXES if name != "samples"}
        counts = [f"{size} {name}{'' if size == 1 else 's'}" for name, size in sizes.items()]
        notes = f", {len(self.failed)} failed" if self.failed else ""
        notes += f", {self.missing} missing" if self.missing else ""
        return f"Sweep({len(self.rows)} runs: {', '.join(counts)}{notes})"
