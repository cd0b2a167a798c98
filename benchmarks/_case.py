"""Models and risks of the benchmark of ``ca.solve``: the data, and nothing that is timed.

Two models: a grid whose moves slip, and a garnet whose pairs have five random successors. Every risk of the table can
be made for each of them. Nothing here is dense in the states but the matrix of distances of "Wasserstein (matrix)", so
that a million states can be made.
"""

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp

import cautious as ca
from cautious.occupancy import policy_occupancy

SLIP = 0.2
LARGE_GRID = 50_000
CAUTIONS = {"PeakExposure": 10.0, "Variance": 10.0, "CVaR": 5.0, "TotalVariation": 5.0, "TotalVariation (states)": 5.0}
CAUTIONS |= {"Quadratic": 100.0, "Quadratic (states)": 100.0, "Variance + PeakExposure": 10.0}


def grid(side: int, discount: float) -> ca.MDP:
    """A square grid; a move slips to either side with probability 0.1; the last corner pays 1, other cells less."""
    cells = np.arange(side * side)
    row, column = np.divmod(cells, side)
    compass = ((-1, 0), (0, 1), (1, 0), (0, -1))
    pairs, targets, chances = [], [], []
    for action in range(4):
        for turn, chance in ((0, 1 - SLIP), (1, SLIP / 2), (3, SLIP / 2)):
            down, right = compass[(action + turn) % 4]
            target = np.clip(row + down, 0, side - 1) * side + np.clip(column + right, 0, side - 1)
            pairs.append(cells * 4 + action)
            targets.append(target)
            chances.append(np.full(cells.size, chance))
    places = (np.concatenate(pairs), np.concatenate(targets))
    transitions = sp.csr_array(sp.coo_array((np.concatenate(chances), places), (cells.size * 4, cells.size)))
    pay = 0.3 * np.random.default_rng(0).random(cells.size)
    pay[-1] = 1.0
    return ca.MDP(transitions, np.repeat(pay[:, None], 4, axis=1), discount)


def model(name: str, n_states: int, discount: float) -> ca.MDP:
    """The grid, or a garnet whose pairs have five successors."""
    if name == "grid":
        return grid(round(n_states**0.5), discount)
    return ca.worlds.garnet(n_states, n_actions=4, n_successors=5, discount=discount)


class _Data:
    """What the risks are made of, each when it is first asked for; the same numbers in any order of asking."""

    def __init__(self, kind: str, mdp: ca.MDP) -> None:
        self.kind, self.mdp = kind, mdp
        self.n, self.side = mdp.n_states, round(mdp.n_states**0.5)

    @cached_property
    def random_rows(self) -> Any:
        """The rows (S, A) of a random policy, and the generator after drawing them."""
        rng = np.random.default_rng(1)
        return rng.dirichlet(np.ones(self.mdp.n_actions), size=self.n), rng

    @cached_property
    def shown(self) -> Any:
        """The behaviour (S, A) of the random policy."""
        return policy_occupancy(self.mdp, self.random_rows[0]).occupancy

    @cached_property
    def prior(self) -> Any:
        """The same, a little blurred."""
        return 0.95 * self.shown + 0.05 / self.shown.size

    @cached_property
    def tasks(self) -> Any:
        """Rewards (3, S, A) of three tasks."""
        return self.random_rows[1].random((3, *self.mdp.shape))

    @property
    def floors(self) -> Any:
        """A little more than the random policy earns in each task."""
        return 1.02 * np.sum(self.shown * self.tasks, axis=(1, 2)) / (1 - self.mdp.discount)

    @property
    def places(self) -> Any:
        """Points (S, 2) of the plane."""
        if self.kind == "grid":
            return np.stack(np.divmod(np.arange(self.n), self.side), axis=1).astype(float)
        # the generator draws the tasks first
        _ = self.tasks
        return self.random_rows[1].random((self.n, 2))

    @property
    def distances(self) -> Any:
        """(S, S)."""
        places = self.places
        return np.linalg.norm(places[:, None] - places[None], axis=-1)

    @property
    def zones(self) -> list[Any]:
        """Three danger sets: bands of the grid, or every fifth state."""
        if self.kind != "grid":
            return [np.arange(j, self.n, 5) for j in range(3)]
        third, quarter = self.side // 3, self.side // 4
        row, column = np.divmod(np.arange(self.n), self.side)
        bands = [(third * j <= row) & (row < third * j + quarter) for j in range(3)]
        return [np.flatnonzero(band & (column > quarter)) for band in bands]

    @property
    def safe_set(self) -> ca.Risk:
        """At most 15 % of the time in the first danger set; 20 % on large grids, which nobody leaves in time."""
        slack = 0.2 if self.kind == "grid" and self.n > LARGE_GRID else 0.15
        return ca.SafeSet(np.setdiff1d(np.arange(self.n), self.zones[0]), slack=slack)

    @property
    def graph(self) -> sp.csr_array:
        """The grid's own edges; for a garnet a ring with as many random chords."""
        n, side, cells = self.n, self.side, np.arange(self.n)
        if self.kind == "grid":
            right, down = cells[cells % side < side - 1], cells[: n - side]
            tail, head = np.concatenate([right, down]), np.concatenate([right + 1, down + side])
        else:
            chords = np.random.default_rng(2).permutation(n)
            tail, head = np.concatenate([cells, cells]), np.concatenate([(cells + 1) % n, chords])
        low, high = np.minimum(tail, head), np.maximum(tail, head)
        edges = np.unique((low * n + high)[low < high])
        return sp.csr_array((np.ones(edges.size), np.divmod(edges, n)), shape=(n, n))


MAKERS: dict[str, Callable[[_Data], ca.Risk | None]] = {
    "none": lambda data: None,
    "SafeSet": lambda data: data.safe_set,
    "TaskFloors": lambda data: ca.TaskFloors(data.tasks, data.floors),
    "PeakExposure": lambda data: ca.PeakExposure(data.zones),
    "WorstTask": lambda data: ca.WorstTask(data.tasks),
    "Variance": lambda data: ca.Variance(),
    "CVaR": lambda data: ca.CVaR(0.9),
    "KL": lambda data: ca.KL(data.prior),
    "KL (states)": lambda data: ca.KL(data.prior.sum(axis=1)),
    "TotalVariation": lambda data: ca.TotalVariation(data.prior),
    "TotalVariation (states)": lambda data: ca.TotalVariation(data.prior.sum(axis=1)),
    "Quadratic": lambda data: ca.Quadratic(data.prior),
    "Quadratic (states)": lambda data: ca.Quadratic(data.prior.sum(axis=1)),
    "Wasserstein (graph)": lambda data: ca.Wasserstein(data.prior.sum(axis=1), data.graph),
    "Wasserstein (matrix)": lambda data: ca.Wasserstein(data.prior.sum(axis=1), data.distances),
    "Entropy": lambda data: ca.Entropy(),
    "KL + PeakExposure": lambda data: ca.KL(data.prior) + 10.0 * ca.PeakExposure(data.zones),
    "SafeSet + Quadratic": lambda data: data.safe_set + 100.0 * ca.Quadratic(data.prior),
    "Variance + PeakExposure": lambda data: ca.Variance() + ca.PeakExposure(data.zones),
}


def risk_of(name: str, kind: str, mdp: ca.MDP) -> ca.Risk | None:
    """A risk of the table; priors are a random policy's behaviour, a little blurred."""
    return MAKERS[name](_Data(kind, mdp))
