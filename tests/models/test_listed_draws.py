"""Draws listed instead of drawn: exact chances against closed forms, and against the same programs really drawing."""

from collections import Counter

import numpy as np
import pytest

from cautious.models.listed_draws import UnlistedDraw, listed_ways


def chances(program):
    found = Counter()
    for chance, result in listed_ways(program):
        found[result] += chance
    return dict(found)


@pytest.mark.parametrize("seed", range(10))
def test_listed_and_drawn_programs_agree(seed):
    rng = np.random.default_rng(seed)
    cuts, faces, weights = np.sort(rng.random(3)), int(rng.integers(2, 5)), rng.dirichlet(np.ones(3))

    def program(draws):
        number = draws.random()
        part = int(np.argmax(np.append(cuts, 1.0) > number))
        face = int(draws.integers(faces)) if number < cuts[1] else None
        return part, face, int(draws.choice(3, p=weights)), bool(draws.uniform(-2, 2) > cuts[0])

    exact, n = chances(program), 2000
    assert sum(exact.values()) == pytest.approx(1.0, abs=1e-13)
    drawn = Counter(program(rng) for _ in range(n))
    assert set(drawn) <= set(exact)
    for result, p in exact.items():
        assert abs(drawn[result] / n - p) <= 6 * np.sqrt(p * (1 - p) / n) + 1e-9


@pytest.mark.parametrize(
    ("program", "exact"),
    [
        (lambda draws: draws.random() < 0.3, {True: 0.3, False: 0.7}),
        (lambda draws: draws.random() >= 0.3, {True: 0.7, False: 0.3}),
        (lambda draws: np.float64(0.3) > draws.random(), {True: 0.3, False: 0.7}),
        (lambda draws: bool((draws.random() >= np.array([0.3, 0.5])).all()), {True: 0.5, False: 0.5}),
        (lambda draws: draws.random() < 2.0, {True: 1.0}),
        (lambda draws: draws.uniform(2, 4) <= 3.5, {True: 0.75, False: 0.25}),
        (lambda draws: int(np.searchsorted([0.25, 0.75, 1.0], draws.random())), {0: 0.25, 1: 0.5, 2: 0.25}),
        (lambda draws: int(draws.integers(2, 4, endpoint=True)), {2: 1 / 3, 3: 1 / 3, 4: 1 / 3}),
        (lambda draws: draws.choice(["a", "b", "c"], p=[0.5, 0.0, 0.5]), {"a": 0.5, "c": 0.5}),
        (lambda draws: "sure", {"sure": 1.0}),
    ],
)
def test_chances_are_exact(program, exact):
    assert chances(program) == pytest.approx(exact, abs=1e-15)


def toss_until_tails(draws):
    while draws.random() < 0.5:
        pass


kept = []


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (toss_until_tails, "can draw more than 1000 random numbers"),
        (lambda draws: int(draws.random() * 4), "does more than compare it"),
        (lambda draws: draws.random() < draws.random(), "does more than compare it"),
        (lambda draws: draws.random() == 0.5, "does more than compare it"),
        (lambda draws: draws.normal(), "draws by np_random.normal, whose outcomes cannot be listed"),
        (lambda draws: draws.random(3), "draws many numbers at once"),
        (lambda draws: draws.integers(10**12), "can come out in more than 10000 ways"),
        (lambda draws: [draws.integers(30) for _ in range(3)], "can come out in more than 10000 ways"),
        (lambda draws: draws.choice(2, p=[0.0, 0.0]), "expected 2 chances of at least 0 that sum to 1"),
        (lambda draws: draws.choice(2, p=[1.5, -0.5]), r"p=\[1.5, -0.5\]; expected 2 chances of at least 0"),
        (lambda draws: draws.choice(2, p=[0.5, 0.4]), "that sum to 1"),
        (lambda draws: draws.choice(2, p=[float("nan"), 1.0]), "of at least 0"),
        (lambda draws: draws.choice(3, p=[0.5, 0.5]), "expected 3 chances"),
        (lambda draws: draws.integers(3, 3), "none of which is above zero"),
        (lambda draws: draws.random() < float("nan"), "none of which is above zero"),
        (lambda draws: draws.uniform(1, 1), "between 1 and 1"),
        (
            lambda draws: kept.append(draws.random()) or [one < 0.5 for one in kept],
            "a random number of an earlier step",
        ),
    ],
)
def test_what_cannot_be_listed_is_refused(program, reason):
    with pytest.raises(UnlistedDraw, match=reason):
        list(listed_ways(program))


@pytest.mark.parametrize("p", [[0.5, 0.5 + 1e-9], [1 / 3, 1 / 3, 1 / 3], [0.5, 0.5 + 1e-7], [2.0, -1.0], [np.nan, 1.0]])
def test_chances_are_taken_where_numpy_takes_them(p):
    try:
        np.random.default_rng(0).choice(len(p), p=p)
    except ValueError:
        with pytest.raises(UnlistedDraw):
            chances(lambda draws: int(draws.choice(len(p), p=p)))
    else:
        assert chances(lambda draws: int(draws.choice(len(p), p=p))) == pytest.approx(dict(enumerate(p)))
