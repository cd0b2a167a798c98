"""Draw the picture of the README (two ways through the maze) and those of the tutorial and the teachers' page.

Run from the root of a checkout: python docs/images/make_images.py
"""

from pathlib import Path

from page_code import run_page

import cautious as ca
from cautious.report.canvas import GREEN, LIGHT, new_figure, png, title
from cautious.report.drawings import draw_map, draw_time_bar, time_scale
from cautious.report.over_steps import as_one_table
from cautious.report.plots import plot_side_by_side
from cautious.report.return_drawing import draw_return

HERE = Path(__file__).parent
CAUTION, RETURN_CAUTION = 10.0, 2.0


def maze_picture() -> bytes:
    """The maze: risk-neutral, with the variance of the step, with that of the return; and the returns of all."""
    mdp = ca.worlds.maze(start_at_s=True)
    neutral = ca.solve(ca.Problem(mdp)).require()
    by_step = ca.solve(ca.Problem(mdp, ca.Variance(), CAUTION)).require()
    by_return = ca.solve(ca.Problem(mdp, ca.ReturnVariance(), RETURN_CAUTION), tolerance=1e-3).require()
    shown = [
        ("risk-neutral", LIGHT.neutral, neutral),
        (f"Variance, caution {CAUTION:g}", GREEN, by_step),
        (f"ReturnVariance, caution {RETURN_CAUTION:g}", LIGHT.chosen, by_return),
    ]
    figure, scale = new_figure(LIGHT, 14.5, 3.9), time_scale([one for *_, one in shown])
    *maps, right = figure.subplots(1, 4, width_ratios=[1, 1, 1, 1.2])
    returns = [one.return_distribution() for *_, one in shown]
    for axes, (name, _, solution), found in zip(maps, shown, returns, strict=True):
        draw_map(axes, as_one_table(solution), LIGHT, scale)
        axes.set(xlabel="", ylabel="", xticks=[], yticks=[])
        title(axes, f"{name}\nreturn: mean {found.expectation:.3f}, variance {found.variance:.3f}", LIGHT)
    draw_time_bar(figure, maps, scale, LIGHT, mdp)
    series = [(name, colour, found) for (name, colour, _), found in zip(shown, returns, strict=True)]
    draw_return(right, series, 0.95, "points", LIGHT)
    right.set_xlim(left=-3)
    return png(figure, dpi=100)


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
