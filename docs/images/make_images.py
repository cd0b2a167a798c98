"""Draw the picture of the README (two ways through the maze) and those of the tutorial and the teachers' page.

Run from the root of a checkout: python docs/images/make_images.py
"""

from pathlib import Path

from page_code import run_page

import cautious as ca
from cautious.report.canvas import LIGHT, new_figure, png, title
from cautious.report.drawings import draw_map, draw_returns, draw_time_bar, time_scale
from cautious.report.plots import plot_side_by_side
from cautious.report.trade_off import compare_with_neutral

HERE = Path(__file__).parent
CAUTION = 10.0


def maze_picture() -> bytes:
    """The maze, risk-neutral and cautious, and the simulated returns of both."""
    mdp = ca.worlds.maze(start_at_s=True)
    neutral = ca.solve(ca.Problem(mdp)).require()
    cautious = ca.solve(ca.Problem(mdp, ca.Variance(), CAUTION)).require()
    both = compare_with_neutral(cautious, episodes=20_000)
    figure, scale = new_figure(LIGHT, 12, 3.9), time_scale([neutral, cautious])
    left, middle, right = figure.subplots(1, 3, width_ratios=[1, 1, 1.15])
    for axes, solution, evaluation, name in (
        (left, neutral, both.neutral, "risk-neutral"),
        (middle, cautious, both.chosen, f"caution {CAUTION:g}"),
    ):
        draw_map(axes, solution, LIGHT, scale)
        axes.set(xlabel="", ylabel="", xticks=[], yticks=[])
        variance = f"return: mean {evaluation.exact_mean:.3f}, variance {evaluation.exact_variance:.3f}"
        title(axes, f"{name}\n{variance}", LIGHT)
    draw_time_bar(figure, [left, middle], scale, LIGHT)
    series = [("risk-neutral", LIGHT.neutral, both.neutral), (f"caution {CAUTION:g}", LIGHT.chosen, both.chosen)]
    draw_returns(right, series, "points", LIGHT)
    right.set_xlim(left=-3)
    return png(figure, dpi=110)


def tutorial_pictures() -> dict[str, bytes]:
    """The frontier of the tutorial, and its machine without and with the contract."""
    names = run_page("tutorial.md")
    both = plot_side_by_side([names["neutral"], names["solution"]], ["without the contract", "with it"])
    return {"tutorial-frontier": png(names["points"].plot(), dpi=90), "tutorial-machine": png(both, dpi=90)}


def bridge_picture() -> bytes:
    """The policy that crosses the bridge, and the one that goes round it."""
    points = run_page("how-to/teacher.md")["points"]
    return png(plot_side_by_side([points[0], points[2]]), dpi=90)


if __name__ == "__main__":
    pictures = {"maze": maze_picture(), "bridge": bridge_picture(), **tutorial_pictures()}
    for name, picture in pictures.items():
        (HERE / f"{name}.png").write_bytes(picture)
