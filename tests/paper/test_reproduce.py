"""The page, the files and the intervals of the reproduction, on a part made by hand."""

import csv
import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

import cautious as ca
from cautious.paper import reproduce as module
from cautious.paper.evidence import PaperClaim, Part, Scale, Video
from cautious.paper.reproduce import reproduce, write_part
from cautious.paper.training import snapshots
from cautious.paper.videos import can_film
from cautious.report.canvas import dress, new_figure
from cautious.sweeps.statistics import band, interval
from page_reader import read


def draw(theme):
    figure = new_figure(theme, 3, 2)
    axes = figure.subplots()
    axes.plot([1, 2], [3, 5])
    dress(axes, theme)
    return figure


def part(key="figure-9", holds=True):
    claim = PaperClaim(
        "section 6 <b>", "less & less", "it fell by 2", holds, "on rewards", {"fall": interval([1.0, 3.0]), "n": 2.0}
    )
    film = Video("film", "a film of <nothing>", b"\0\0\0 ftypisom")
    rows = ({"seed": 0, "policy": "neutral", "fall": 1.5}, {"seed": 1, "policy": "averse, twice", "fall": 2.5})
    return Part(key, "Figure 9", "What is drawn.", "a line", draw, rows, (claim,), (film,))


def test_interval_is_students():
    values = np.random.default_rng(0).normal(size=12)
    one = interval(values)
    low, high = stats.ttest_1samp(values, 0.0).confidence_interval(0.95)
    np.testing.assert_allclose([one.low, one.high], [low, high], rtol=1e-12)


@pytest.mark.parametrize("values", [[1.0], [], [1.0, np.nan], [1.0, np.inf]])
def test_interval_needs_two_finite_numbers(values):
    with pytest.raises(ca.InputError, match="at least two finite numbers"):
        interval(values)


def test_a_band_has_the_interval_of_every_column():
    table = np.random.default_rng(2).normal(size=(6, 3))
    mean, low, high = band(table)
    np.testing.assert_allclose(mean, table.mean(axis=0))
    reach = stats.t.ppf(0.975, 5) * table.std(axis=0, ddof=1) / np.sqrt(6)
    np.testing.assert_allclose([mean - low, high - mean], [reach, reach])


def test_intervals_cover_as_promised():
    rng = np.random.default_rng(1)
    found = [interval(rng.normal(3.0, 2.0, size=5)) for _ in range(2000)]
    covered = sum(one.low <= 3.0 <= one.high for one in found)
    assert 0.935 < covered / 2000 < 0.965


def test_files_of_a_part(tmp_path):
    image = write_part(part(), tmp_path)
    written = sorted(tmp_path.iterdir())
    assert image == (tmp_path / "figure-9.png").read_bytes()
    assert [path.name for path in written] == ["figure-9.csv", "figure-9.pdf", "figure-9.png", "film.mp4"]
    rows = list(csv.DictReader((tmp_path / "figure-9.csv").read_text().splitlines()))
    assert rows[1] == {"seed": "1", "policy": "averse, twice", "fall": "2.5"}
    assert (tmp_path / "figure-9.pdf").read_bytes().startswith(b"%PDF")
    before = {path.name: path.read_bytes() for path in written}
    write_part(part(), tmp_path)
    assert before == {path.name: path.read_bytes() for path in written}


def test_the_page_says_every_claim(tmp_path, monkeypatch):
    makers = {"1": lambda scale, executor: part("figure-1"), "2": lambda scale, executor: part("figure-2", holds=False)}
    monkeypatch.setattr(module, "PARTS", makers)
    reproduce(tmp_path, ("1", "2"), Scale(3), command="cautious paper <x>")
    text, page = read(tmp_path / "index.html")
    assert "1 of 2 claims" in text
    assert "section 6 &lt;b&gt;" in text
    assert "less &amp; less" in text
    assert text.count("does not hold</span>") == 2
    local = {"#figure-1", "#figure-2", *(f"figure-{i}.{kind}" for i in (1, 2) for kind in ("png", "pdf", "csv"))}
    assert {address for address in page.references if not address.startswith("data:")} == local
    claims = json.loads((tmp_path / "claims.json").read_text())["claims"]
    assert [claim["holds"] for claim in claims] == [True, False]
    assert claims[0]["numbers"]["fall"]["n"] == 2


def test_the_page_says_why_there_are_no_films(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "PARTS", {"1": lambda scale, executor: replace(part("figure-1"), videos=())})
    reproduce(tmp_path, ("1",))
    assert ("There are no films here" in read(tmp_path / "index.html")[0]) == (not can_film())
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    reproduce(tmp_path, ("1",))
    text, _ = read(tmp_path / "index.html")
    why = (
        "There are no films here: a film needs imageio-ffmpeg; install it with: pip install &quot;cautious[video]&quot;"
    )
    assert why in text


def test_an_interrupted_run_keeps_what_it_finished(tmp_path, monkeypatch):
    def interrupted(scale, executor):
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "PARTS", {"1": lambda scale, executor: part("figure-1"), "2": interrupted})
    with pytest.raises(KeyboardInterrupt):
        reproduce(tmp_path, ("1", "2"))
    assert "1 of 1 claims" in (tmp_path / "index.html").read_text()


@pytest.mark.parametrize(
    ("names", "found"),
    [(("5",), "there is no part '5'"), (("1", "two"), "there is no part 'two'"), ((), "no part was")],
)
def test_unknown_parts_are_refused_before_any_work(tmp_path, names, found):
    with pytest.raises(ca.InputError, match=f"{found}.*; the parts are 1, 2, 3, 4, theorems"):
        reproduce(tmp_path, names)
    assert list(tmp_path.iterdir()) == []


def test_snapshots_are_taken_at_the_marks():
    mdp = ca.worlds.river_swim()
    seen = snapshots(mdp, None, 0.0, ca.AlgorithmOne(), 900, 0, [100, 250, 600])
    # pieces of 100, the smallest distance between marks: a mark within a piece is seen at its end
    assert [one.samples for one in seen] == [100, 300, 600, 900]
    for one in seen:
        np.testing.assert_allclose(one.policy.sum(axis=1), 1.0)


def test_looking_does_not_change_the_run():
    mdp = ca.worlds.river_swim()
    looked = snapshots(mdp, None, 0.0, ca.PrimalDual(), 20_000, 3, [1000, 5000])
    plain = snapshots(mdp, None, 0.0, ca.PrimalDual(), 20_000, 3, [])
    assert len(plain) == 1
    np.testing.assert_array_equal(looked[-1].policy, plain[-1].policy)
