"""Drawings of a policy with a finite horizon, step by step, on given axes."""

from typing import Any

import numpy as np

from cautious.report.canvas import GREEN, PURPLE, Theme, dress
from cautious.report.schedule import NOT_VISITED, OverSteps, step_word
from cautious.report.words import action_name, short, state_name
from cautious.solution import Solution

# states with a colour of their own in a drawing of time; the others share one
MAX_BANDS = 6
# of Okabe and Ito, told apart by all readers, after the two colours of the theme
MORE_COLOURS = (GREEN, PURPLE, "#F0E442", "#999999")
# with more steps the lines between them would hide the colours
MAX_STEPS_WITH_LINES = 60
CLEAR_CHANCE = 0.995
# in percent
SMALLEST_BAND = 1e-6


def draw_actions_over_steps(axes: Any, solution: Solution, found: OverSteps, theme: Theme) -> None:
    """A cell for every state and step in the colour of the likeliest action, paler where others are taken too."""
    from matplotlib.colors import to_rgb
    from matplotlib.patches import Patch

    mdp, (steps, rows) = solution.mdp, found.action.shape
    actions = [action for action in range(mdp.n_actions) if (found.action == action).any()]
    colours = dict(zip(actions, _colours(theme, len(actions)), strict=True))
    paper = np.array(to_rgb(theme.paper))
    picture = np.empty((rows, steps, 3))
    picture[:] = paper
    for action, colour in colours.items():
        here = (found.action == action).T
        strength = np.where(found.chance.T[here] > CLEAR_CHANCE, 1.0, 0.35 + 0.5 * found.chance.T[here])[:, None]
        picture[here] = strength * np.array(to_rgb(colour)) + (1 - strength) * paper
    axes.imshow(picture, aspect="auto", interpolation="nearest", extent=(0.5, steps + 0.5, rows - 0.5, -0.5))
    if steps <= MAX_STEPS_WITH_LINES:
        axes.vlines(np.arange(1.5, steps), -0.5, rows - 0.5, colors=theme.paper, linewidth=0.6)
    axes.hlines(np.arange(0.5, rows - 1), 0.5, steps + 0.5, colors=theme.paper, linewidth=1.2)
    axes.set_yticks(range(rows), [short(state_name(mdp, int(state))) for state in found.states], parse_math=False)
    pale = bool((found.chance[found.action != NOT_VISITED] <= CLEAR_CHANCE).any())
    keys = [Patch(color=colour, label=short(action_name(mdp, action))) for action, colour in colours.items()]
    legend = axes.legend(
        handles=keys,
        title="paler: other actions are taken too" if pale else None,
        ncols=min(4, max(1, len(keys))),
        frameon=False,
        fontsize=9,
        title_fontsize=8,
        labelcolor=theme.ink,
        loc="lower left",
        bbox_to_anchor=(0, 1.0),
    )
    legend.get_title().set_color(theme.ink)
    dress(axes, theme, frame=False)
    axes.tick_params(length=0)


def draw_time_over_steps(axes: Any, solution: Solution, found: OverSteps, theme: Theme) -> None:
    """How the time of each step is shared by the states that are visited most, and by all others."""
    from matplotlib import colormaps
    from matplotlib.ticker import MaxNLocator

    mdp, steps, word = solution.mdp, len(found.share), step_word(solution.mdp)
    most = np.sort(np.argsort(-found.share.sum(axis=0), kind="stable")[:MAX_BANDS])
    bands = [100 * found.share[:, place] for place in most]
    names = [short(state_name(mdp, int(found.states[place]))) for place in most]
    # colours of their own: those of the actions mean something else
    colours: list[Any] = [colormaps["viridis"](shade) for shade in np.linspace(0.05, 0.95, len(most))]
    rest = np.maximum(100 * (found.share.sum(axis=1) > 0) - np.sum(bands, axis=0), 0.0)
    if rest.max() > SMALLEST_BAND:
        bands, names, colours = [*bands, rest], [*names, "other states"], [*colours, theme.faint]
    base, edges = np.zeros(steps), np.arange(steps + 1) + 0.5
    for band, name, colour in zip(bands, names, colours, strict=True):
        axes.stairs(base + band, edges, baseline=base, fill=True, color=colour, label=name)
        base = base + band
    axes.set(xlabel=word, ylabel=f"where it is that {word} (%)", ylim=(0, 100), xlim=(0.5, steps + 0.5))
    legend = axes.legend(
        frameon=False, fontsize=8, labelcolor=theme.ink, loc="center left", bbox_to_anchor=(1.0, 0.5), reverse=True
    )
    for text in legend.get_texts():
        text.set_parse_math(False)
    dress(axes, theme)
    axes.xaxis.set_major_locator(MaxNLocator("auto", integer=True, min_n_ticks=1))


def _colours(theme: Theme, count: int) -> list[str]:
    """That many colours, repeated where there are more than can be told apart."""
    known = [theme.chosen, theme.neutral, *MORE_COLOURS]
    return [known[place % len(known)] for place in range(count)]
