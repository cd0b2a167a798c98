"""Figures without global state: matplotlib is optional, imported here only, and pyplot is never touched."""

import io
import warnings
from dataclasses import dataclass
from functools import partial
from typing import Any

from cautious.errors import MissingExtraError


@dataclass(frozen=True)
class Theme:
    """Colours of a drawing: paper and ink, and the Okabe-Ito pair that tells two policies apart without red-green."""

    paper: str
    ink: str
    faint: str
    wall: str
    chosen: str
    neutral: str


LIGHT = Theme(paper="#ffffff", ink="#1c2430", faint="#d5dae1", wall="#a3a9b2", chosen="#0072B2", neutral="#D55E00")
DARK = Theme(paper="#161b22", ink="#e6e9ee", faint="#38414d", wall="#555e6b", chosen="#56B4E9", neutral="#E69F00")
# two more colours of Okabe and Ito, legible on light and on dark paper
GREEN, PURPLE = "#009E73", "#CC79A7"


def require_matplotlib() -> None:
    """Raise now, before any work, when drawing would fail later."""
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        raise MissingExtraError('drawing needs matplotlib; install it with: pip install "cautious[plot]"') from None


def new_figure(theme: Theme, width: float, height: float) -> Any:
    """An empty matplotlib Figure (inches) with its own Agg canvas; nothing has to be closed, and notebooks show it."""
    require_matplotlib()
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(width, height), facecolor=theme.paper, layout="constrained")
    FigureCanvasAgg(figure)
    # notebooks ask for this; they know matplotlib's own figures only after an import of pyplot
    figure._repr_png_ = partial(png, figure, 110)
    return figure


def dress(axes: Any, theme: Theme, *, frame: bool = True) -> None:
    """Colours of axes, ticks and labels."""
    axes.set_facecolor(theme.paper)
    axes.tick_params(colors=theme.ink, labelcolor=theme.ink, labelsize=9)
    for label in (axes.xaxis.label, axes.yaxis.label, axes.title):
        label.set_color(theme.ink)
        label.set_fontsize(10)
    for side, spine in axes.spines.items():
        spine.set_color(theme.ink)
        spine.set_visible(frame and side in ("left", "bottom"))


def dress_curves(axes: Any, theme: Theme) -> None:
    """``dress`` for curves: with a faint grid behind them, and the small ticks of logarithmic axes."""
    dress(axes, theme)
    axes.tick_params(which="minor", colors=theme.ink)
    axes.grid(color=theme.faint, linewidth=0.5)
    axes.set_axisbelow(True)


def title(axes: Any, text: str, theme: Theme, size: float = 10) -> None:
    """A title above the left end of the axes."""
    axes.set_title(text, loc="left", fontsize=size, color=theme.ink)


def png(figure: Any, dpi: int = 150) -> bytes:
    """The figure as a PNG file."""
    stream = io.BytesIO()
    with warnings.catch_warnings():
        # a name in a script that the font does not have is drawn as boxes; the text of a page has it in full
        warnings.filterwarnings("ignore", message="Glyph .* missing from font", category=UserWarning)
        figure.savefig(stream, format="png", dpi=dpi, facecolor=figure.get_facecolor())
    return stream.getvalue()
