"""The picture of the benchmark of ``ca.solve``: time against states, ours against the best peer."""

from collections.abc import Sequence
from pathlib import Path

from _rows import SUMS, Row, proved
from _targets import pick
from cautious.report.canvas import GREEN, LIGHT, dress_curves, new_figure, png, title

FAMILIES: dict[str, tuple[str, ...]] = {
    "risk-neutral": ("none",),
    "entropies": ("KL", "Entropy"),
    "barriers": ("SafeSet", "TaskFloors"),
    "worst cases": ("PeakExposure", "WorstTask"),
    "variance and CVaR": ("Variance", "CVaR"),
    "KL of the state marginal": ("KL (states)",),
    "total variation": ("TotalVariation", "TotalVariation (states)"),
    "quadratic": ("Quadratic", "Quadratic (states)"),
    "Wasserstein": ("Wasserstein (graph)", "Wasserstein (matrix)"),
    "sums": SUMS,
}
COLOURS = (LIGHT.chosen, LIGHT.neutral, GREEN)
COLUMNS = 4
Points = list[tuple[int, float]]


def own_points(rows: Sequence[Row], risk: str) -> Points:
    """(states, seconds) of our answers that are proved."""
    return sorted((row["n_states"], row["own"]["seconds"]) for row in pick(rows, risk=risk) if proved(row["own"]))


def peer_points(rows: Sequence[Row], risk: str) -> Points:
    """(states, seconds) of the best peer, where it proved its answer."""
    chosen = pick(rows, risk=risk)
    return sorted((row["n_states"], row["best_peer"]["seconds"]) for row in chosen if proved(row["best_peer"]))


def draw(rows: Sequence[Row], path: Path, model: str, discount: float) -> None:
    """One panel per family of risks; solid lines are ours, broken ones the best peer's."""
    rows = pick(rows, table=("compare", "scale"), model=model, discount=discount)
    lines = -(-len(FAMILIES) // COLUMNS)
    figure = new_figure(LIGHT, 3.4 * COLUMNS, 2.7 * lines + 0.5)
    panels = figure.subplots(lines, COLUMNS, sharex=True, sharey=True).ravel()
    for axes, (family, risks) in zip(panels, FAMILIES.items(), strict=False):
        for colour, risk in zip(COLOURS, risks, strict=False):
            for points, style in ((own_points(rows, risk), "o-"), (peer_points(rows, risk), "s--")):
                axes.loglog(*zip(*points, strict=True), style, color=colour, markersize=4) if points else None
            axes.plot([], [], "o-", color=colour, markersize=4, label="no risk" if risk == "none" else risk)
        title(axes, family, LIGHT)
        dress_curves(axes, LIGHT)
        axes.legend(loc="lower right", fontsize=8, frameon=False)
    for axes in panels[len(FAMILIES) :]:
        axes.axis("off")
    key = panels[-1]
    for style, label in (("o-", "cautious"), ("s--", "best peer with a proved answer")):
        key.plot([], [], style, color=LIGHT.ink, markersize=4, label=label)
    key.legend(loc="center", fontsize=9, frameon=False, title=f"{model}, discount {discount:g}, gap at most 1e-6")
    for place, axes in enumerate(panels[: len(FAMILIES)]):
        axes.set(
            xlabel="states" if place >= len(FAMILIES) - COLUMNS else "", ylabel="" if place % COLUMNS else "seconds"
        )
        axes.tick_params(labelbottom=place >= len(FAMILIES) - COLUMNS)
    path.write_bytes(png(figure, dpi=110))
