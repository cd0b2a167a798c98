"""The picture of ``benchmarks/learn.py``: how far from optimal each method is, against the samples it drew."""

from pathlib import Path
from typing import Any

from cautious.report.canvas import LIGHT, dress, new_figure, png

TARGET = Path("docs/images/learning-curves.png")
COLOURS = {"plug-in": LIGHT.chosen, "primal-dual": "#00664a", "paper": LIGHT.neutral}


def save(curves: dict[str, dict[str, list[dict[str, Any]]]]) -> None:
    """One panel per risk; methods by colour and by name at the end of their line."""
    figure = new_figure(LIGHT, 10, 4.2)
    panels = figure.subplots(1, len(curves), sharey=True)
    for axes, (risk, methods) in zip(panels, curves.items(), strict=True):
        for method, rows in methods.items():
            samples = [row["samples"] for row in rows]
            axes.loglog(samples, [100 * row["off"] for row in rows], "o-", color=COLOURS[method], markersize=4)
            last = rows[-1]
            label = "as printed" if method == "paper" else method
            place = (last["samples"], 100 * last["off"])
            away = (-42, -10) if method == "plug-in" else (8, -3)
            axes.annotate(label, place, xytext=away, textcoords="offset points", color=COLOURS[method], fontsize=9)
        low, high = axes.get_xlim()
        axes.set_xlim(low, high * 14)
        axes.set(xlabel="samples")
        axes.set_title(f"{risk}, 10x10 grid, discount .9", loc="left", fontsize=10)
        dress(axes, LIGHT)
    panels[0].set_ylabel("true suboptimality of the policy, %")
    TARGET.write_bytes(png(figure, dpi=110))
