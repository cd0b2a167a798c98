"""Saves the figures of the gallery: every matplotlib figure that a block of a script names, without pyplot."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any
from weakref import WeakSet

from matplotlib.figure import Figure

DPI = 160
# as wide on the page as on paper; wide figures fill the column and can be clicked
PIXELS_PER_INCH = 100
WIDEST = 1000
# the order of the paper's section 3.2, then the risks that are not in it, then limits, and limits over some steps
ORDER = (
    "safe_set",
    "multiple_jobs",
    "danger_areas",
    "worst_task",
    "variance",
    "kl_pairs",
    "kl_states",
    "wasserstein",
    "total_variation",
    "quadratic",
    "cvar",
    "return",
    "return_inventory",
    "return_care",
    "entropy",
    "your_own",
    "limits",
    "horizon",
)
_shown: "WeakSet[Figure]" = WeakSet()


def scrape(block: tuple[Any, ...], block_vars: Mapping[str, Any], gallery_conf: Mapping[str, Any]) -> str:
    """Save the figures that are new since the last block; the text that shows them."""
    parts = []
    for value in list(block_vars["example_globals"].values()):
        if not isinstance(value, Figure) or value in _shown:
            continue
        _shown.add(value)
        path = Path(next(block_vars["image_path_iterator"]))
        value.savefig(path, format="png", dpi=DPI, facecolor=value.get_facecolor())
        source = path.relative_to(gallery_conf["src_dir"]).as_posix()
        width = min(WIDEST, round(PIXELS_PER_INCH * value.get_figwidth()))
        parts.append(
            f".. image:: /{source}\n   :alt: {describe(value)}\n   :width: {width}px\n   :class: gallery-figure\n"
        )
    return "\n".join(parts)


def describe(figure: Figure) -> str:
    """A figure in words, for those who cannot see it: titles and axes of its panels."""
    panels = []
    for axes in figure.axes:
        title = axes.get_title(loc="left") or axes.get_title()
        labels = " against ".join(label for label in (axes.get_ylabel(), axes.get_xlabel()) if label)
        # a colour bar has a label and no title: it belongs to the panel before
        if axes.get_label() != "<colorbar>":
            panels.append(": ".join(word for word in (title, labels) if word))
    return "; ".join(dict.fromkeys(panel for panel in panels if panel)).replace("\n", ", ")


def place(name: str) -> int:
    """Where a script stands in the gallery."""
    return ORDER.index(Path(name).stem.removeprefix("plot_"))
