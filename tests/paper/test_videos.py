"""Films: valid files, as many frames as asked for, agents where their paths lead."""

import re
import subprocess
import sys

import numpy as np
import pytest

import cautious as ca
from cautious.errors import InputError, MissingExtraError
from cautious.paper import videos

imageio_ffmpeg = pytest.importorskip("imageio_ffmpeg", reason="films need the extra video")

STEPS = 4


@pytest.fixture(scope="module")
def corridor():
    """One row of five cells; every move succeeds."""
    return ca.worlds.from_grid(["S...G"], {"S": 0, ".": -1, "G": 1}, p=1.0, absorbing="G", start="S")


@pytest.fixture(scope="module")
def policies(corridor):
    right, left = np.zeros(corridor.shape), np.zeros(corridor.shape)
    right[:, 1], left[:, 3] = 1.0, 1.0
    return {"goes": right, "stays": left}


@pytest.fixture(scope="module")
def content(corridor, policies):
    return videos.film(corridor, [("first", policies), ("second", policies)], seed=0, steps=STEPS)


def decoded(content, folder):
    """Frames (n, height, width, 3), by ffmpeg itself: the reader of imageio leaves its pipes open."""
    path = folder / "film.mp4"
    path.write_bytes(content)
    wanted = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-v", "error", "-i", str(path), *wanted]
    raw = subprocess.run(command, capture_output=True, check=True).stdout
    return np.frombuffer(raw, np.uint8).reshape(-1, videos.HEIGHT, videos.WIDTH, 3).astype(float)


def middle_of(frame, colour, columns):
    """The mean place (x, y) of the pixels of nearly this colour between two columns of the picture."""
    wanted = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)])
    y, x = np.nonzero(np.abs(frame - wanted).max(axis=2) < 60)
    inside = (x >= columns[0]) & (x < columns[1])
    assert inside.sum() > 20
    return x[inside].mean(), y[inside].mean()


def test_a_film_is_an_mp4_that_browsers_play(content, tmp_path):
    assert content[4:8] == b"ftyp"
    # the index comes before the pictures, so that playing starts at once
    assert content.index(b"moov") < content.index(b"mdat")
    assert b"avc1" in content
    path = tmp_path / "film.mp4"
    path.write_bytes(content)
    about = subprocess.run([imageio_ffmpeg.get_ffmpeg_exe(), "-i", str(path)], capture_output=True, text=True).stderr
    assert re.search(rf"Video: h264 .*yuv420p.* {videos.WIDTH}x{videos.HEIGHT}", about)
    assert len(decoded(content, tmp_path)) == 2 * (STEPS + 1 + videos.HOLD_FRAMES)


def test_agents_are_where_their_paths_lead(content, tmp_path):
    frames = decoded(content, tmp_path)
    left, right = (0, videos.WIDTH // 2), (videos.WIDTH // 2, videos.WIDTH)
    places = [middle_of(frames[k], videos.LIGHT.neutral, left)[0] for k in (0, 1, STEPS)]
    cell = places[1] - places[0]
    assert videos.WIDTH / 2 / 5 * 0.7 < cell < videos.WIDTH / 2 / 5
    assert places[2] - places[0] == pytest.approx(STEPS * cell, rel=0.1)
    stays = [middle_of(frames[k], videos.LIGHT.chosen, right)[0] for k in (0, STEPS)]
    assert stays[0] == pytest.approx(stays[1], abs=2)
    # the second stage begins where the first began
    again = middle_of(frames[STEPS + 1 + videos.HOLD_FRAMES], videos.LIGHT.neutral, left)[0]
    assert again == pytest.approx(places[0], abs=2)


def test_same_seed_same_bytes(corridor, policies, content):
    assert videos.film(corridor, [("first", policies), ("second", policies)], seed=0, steps=STEPS) == content


def test_one_and_three_panels_and_maps_without_dark_cells(policies, tmp_path):
    drift = ca.worlds.drift()
    uniform = np.full(drift.shape, 0.25)
    for names in (("one",), ("one", "two", "three")):
        film = videos.film(drift, [("x", dict.fromkeys(names, uniform))], seed=1, steps=2)
        assert len(decoded(film, tmp_path)) == 2 + 1 + videos.HOLD_FRAMES


def test_wrong_policies_are_refused(corridor, policies):
    with pytest.raises(InputError, match="policy"):
        videos.film(corridor, [("x", {"goes": policies["goes"] / 2})], seed=0, steps=2)


def test_the_missing_package_is_named(corridor, policies, monkeypatch):
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    assert not videos.can_film()
    with pytest.raises(MissingExtraError, match=r'pip install "cautious\[video\]"'):
        videos.film(corridor, [("x", policies)], seed=0, steps=2)
