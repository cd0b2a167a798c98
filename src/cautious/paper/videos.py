"""Short films of agents on a map, side by side, at several stages of training.

    film(mdp, stages, seed, steps) -> bytes of an mp4 file

The still parts of a stage are drawn once by matplotlib; the agents are stamped on a copy of it, frame by frame.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cautious.arrays import Array, Indices
from cautious.errors import MissingExtraError
from cautious.models.tabular import MDP
from cautious.paper.maze_paths import DARK_CELL, GOAL_CELL, beside, draw_rewards, share_entering, walk
from cautious.report.canvas import LIGHT, new_figure, require_matplotlib
from cautious.report.words import scene_of
from cautious.worlds.grids import cells_marked

MISSING = 'a film needs imageio-ffmpeg; install it with: pip install "cautious[video]"'
# both multiples of 16, which is what H.264 works in
WIDTH, HEIGHT, DPI = 640, 400, 100
# one move is one frame; the end of a stage stays for a while
FRAMES_PER_SECOND, HOLD_FRAMES = 20, 12
AGENTS = 40
# pixels; older positions are smaller and fainter; a light rim keeps dots visible on dark cells
RADIUS_PIXELS, RIM_PIXELS, TRAIL_FRAMES, FADE_PER_FRAME, OFFSET_PIXELS = 2.8, 1.0, 4, 0.5, 8.0
# constant quality of x264 (lower is better and larger); bit-exact so that the same seed gives the same bytes
ENCODING = ("-crf", "27", "-preset", "veryfast", "-movflags", "+faststart", "-fflags", "+bitexact", "-threads", "1")

Picture = NDArray[np.uint8]


def can_film() -> bool:
    """Whether the packages for films are there."""
    try:
        require_film()
    except MissingExtraError:
        return False
    return True


def require_film() -> None:
    """Raise now, before any work, when a film would fail later."""
    require_matplotlib()
    try:
        import imageio_ffmpeg

        imageio_ffmpeg.get_ffmpeg_exe()
    except (ImportError, RuntimeError):
        raise MissingExtraError(MISSING) from None


def film(mdp: MDP, stages: Sequence[tuple[str, Mapping[str, Array]]], seed: int, steps: int) -> bytes:
    """A film of agents that follow policies on the map of a grid world, as the bytes of an mp4 file (H.264).

    Parameters
    ----------
    mdp
        A grid world with rewards per entered cell; agents start where it says.
    stages
        One after the other: a label ("after 1,000 samples") and the policies (S, A) by the name of their panel. Every
        stage has the same panels, at most three.
    seed
        Same seed, same bytes. All panels and stages use the same one.
    steps
        Moves shown in each stage, ``FRAMES_PER_SECOND`` of them in a second; its end stays for ``HOLD_FRAMES`` frames.
    """
    require_film()
    names = list(stages[0][1])
    walked = [(label, [walk(mdp, policies[name], AGENTS, steps, seed) for name in names]) for label, policies in stages]
    return _encoded(_frames(mdp, names, walked))


def _frames(mdp: MDP, names: Sequence[str], walked: Sequence[tuple[str, list[Indices]]]) -> Iterator[Picture]:
    figure = new_figure(LIGHT, WIDTH / DPI, HEIGHT / DPI)
    figure.set_dpi(DPI)
    panels = figure.subplots(1, len(names), squeeze=False)[0]
    for axes in panels:
        draw_rewards(axes, mdp, LIGHT)
        axes.set(xlabel="", ylabel="", xticks=[], yticks=[])
    for label, paths in walked:
        figure.suptitle(label, color=LIGHT.ink, fontsize=12)
        for axes, name, path in zip(panels, names, paths, strict=True):
            axes.set_title(f"{name}\n{_tally(mdp, path)}", fontsize=10, color=LIGHT.ink)
        figure.canvas.draw()
        # every stage has as many lines of text as the first: nothing moves, and the layout is found once
        figure.set_layout_engine("none")
        still = np.asarray(figure.canvas.buffer_rgba())[:, :, :3]
        yield from _moves(still, [_track(mdp, axes, path) for axes, path in zip(panels, paths, strict=True)])


def _track(mdp: MDP, axes: Any, paths: Indices) -> Array:
    """Where agents are drawn (agents, moves + 1, 2), in pixels from the top left corner, none hidden by another."""
    middles = axes.transData.transform(np.array(scene_of(mdp).cells, dtype=float)[:, ::-1])
    middles[:, 1] = HEIGHT - middles[:, 1]
    order = np.arange(len(paths))
    aside = beside(order, OFFSET_PIXELS * np.sqrt((order + 0.5) / len(paths)))
    return np.asarray(middles[paths] + aside[:, None])


def _moves(still: Picture, tracks: Sequence[Array]) -> Iterator[Picture]:
    """The agents on their way, and the end of the stage for a while; tracks (agents, moves + 1, 2), one per panel."""
    colours = (LIGHT.chosen,) if len(tracks) == 1 else (LIGHT.neutral, LIGHT.chosen, LIGHT.ink)
    frame = still.copy()
    for k in range(tracks[0].shape[1]):
        frame = still.copy()
        for track, colour in zip(tracks, colours, strict=False):
            for back in range(min(TRAIL_FRAMES, k), 0, -1):
                _stamp(frame, track[:, k - back], colour, RADIUS_PIXELS * (1 - 0.15 * back), FADE_PER_FRAME**back)
            _stamp(frame, track[:, k], "#ffffff", RADIUS_PIXELS + RIM_PIXELS, 1.0)
            _stamp(frame, track[:, k], colour, RADIUS_PIXELS, 1.0)
        yield frame
    for _ in range(HOLD_FRAMES):
        yield frame


def _tally(mdp: MDP, paths: Indices) -> str:
    """How many of the agents enter a dark cell and reach the goal in what is shown, for maps that have them."""
    said = []
    for mark, words in ((DARK_CELL, "enter the dark"), (GOAL_CELL, "reach G")):
        states = cells_marked(mdp, mark)
        if states.size:
            said.append(f"{round(share_entering(paths, states) * len(paths))} {words}")
    return f"of {len(paths)}: " + ", ".join(said) if said else ""


def _stamp(frame: Picture, points: Array, colour: str, radius: float, strength: float) -> None:
    """Blend round dots (n, 2) with soft edges into the frame, all at once; where dots overlap, the last one counts."""
    from matplotlib.colors import to_rgb

    ink = 255 * np.array(to_rgb(colour))
    reach = int(np.ceil(radius)) + 1
    dy, dx = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    middle = np.round(points).astype(int)
    off = (middle - points)[:, :, None, None]
    cover = strength * np.clip(radius + 0.5 - np.hypot(dx + off[:, 0], dy + off[:, 1]), 0.0, 1.0)
    dot, row, column = np.nonzero(cover > 0)
    y, x = middle[dot, 1] + row - reach, middle[dot, 0] + column - reach
    share = cover[dot, row, column][:, None]
    frame[y, x] = np.round((1 - share) * frame[y, x] + share * ink)


def _encoded(frames: Iterator[Picture]) -> bytes:
    import imageio_ffmpeg

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "film.mp4"
        writer: Any = imageio_ffmpeg.write_frames(
            str(path),
            (WIDTH, HEIGHT),
            fps=FRAMES_PER_SECOND,
            codec="libx264",
            pix_fmt_in="rgb24",
            pix_fmt_out="yuv420p",
            quality=None,
            output_params=list(ENCODING),
        )
        writer.send(None)
        try:
            for frame in frames:
                writer.send(np.ascontiguousarray(frame))
        finally:
            writer.close()
        return path.read_bytes()
