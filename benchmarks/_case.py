"""Models and risks of the benchmark of ``ca.solve``: the data, and nothing that is timed.

Two models come in any size: a grid whose moves slip, and a garnet whose pairs have five random successors. The others
(``SHAPES``) have one size each, and a structure that grids and garnets lack. Every risk of the table can be made for
each of them. Nothing here is dense in the states but the matrix of distances of "Wasserstein (matrix)" and the models
"dense" and "successors", so that grids and garnets of a million states can be made.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, reduce
from typing import Any

import numpy as np
import scipy.sparse as sp

import cautious as ca
from cautious.occupancy import policy_occupancy

SLIP_PROBABILITY = 0.2
LARGE_GRID_STATES = 50_000
CAUTIONS = {"PeakExposure": 10.0, "Variance": 10.0, "CVaR": 5.0, "TotalVariation": 5.0, "TotalVariation (states)": 5.0}
CAUTIONS |= {"Quadratic": 100.0, "Quadratic (states)": 100.0, "Variance + PeakExposure": 10.0}


def moves(targets: Any) -> sp.csr_array:
    """The matrix (S, S) of a step from every state to its target."""
    n = len(targets)
    return sp.csr_array((np.ones(n), (np.arange(n), targets)), shape=(n, n))


def corner_pay(n_states: int, n_actions: int) -> Any:
    """Rewards (S, A): the last state pays 1, every other one a random amount below 0.3."""
    pay = 0.3 * np.random.default_rng(0).random(n_states)
    pay[-1] = 1.0
    return np.repeat(pay[:, None], n_actions, axis=1)


def grid(side: int, discount: float) -> ca.MDP:
    """A square grid; a move slips to either side with probability 0.1; the last corner pays 1, other cells less."""
    row, column = np.divmod(np.arange(side * side), side)
    compass = [
        moves(np.clip(row + down, 0, side - 1) * side + np.clip(column + right, 0, side - 1))
        for down, right in ((-1, 0), (0, 1), (1, 0), (0, -1))
    ]
    transitions = [
        (1 - SLIP_PROBABILITY) * compass[a]
        + SLIP_PROBABILITY / 2 * compass[(a + 1) % 4]
        + SLIP_PROBABILITY / 2 * compass[(a + 3) % 4]
        for a in range(4)
    ]
    return ca.MDP(transitions, corner_pay(side * side, 4), discount)


def dense(discount: float, n: int = 600) -> ca.MDP:
    """Every pair can lead to every state."""
    rng = np.random.default_rng(0)
    return ca.MDP(rng.dirichlet(np.ones(n), size=(n, 4)), rng.random((n, 4)), discount)


def line(discount: float, n: int = 20_000) -> ca.MDP:
    """A walk on a line: left, stay or right, each replaced by either of the others with probability 0.1."""
    steps = [moves(np.clip(np.arange(n) + step, 0, n - 1)) for step in (-1, 0, 1)]
    return ca.MDP([0.7 * step + 0.1 * (steps[0] + steps[1] + steps[2]) for step in steps], corner_pay(n, 3), discount)


def tandem(discount: float, room: int = 30) -> ca.MDP:
    """Two queues in series: a customer who leaves the first joins the second; each server is slow, or fast at a price.

    One event per step: an arrival with probability 0.3, the end of a service with 0.25 (slow) or 0.35 (fast). A full
    queue blocks.
    """
    first, second = np.divmod(np.arange(room * room), room)
    stays = np.arange(room * room)
    arrives = moves(np.where(first < room - 1, stays + room, stays))
    passes = moves(np.where((first > 0) & (second < room - 1), stays - room + 1, stays))
    leaves = moves(np.where(second > 0, stays - 1, stays))
    rates = [(one, two) for one in (0.25, 0.35) for two in (0.25, 0.35)]
    transitions = [0.3 * arrives + one * passes + two * leaves + (0.7 - one - two) * moves(stays) for one, two in rates]
    waiting = (first + second) / (2 * room - 2)
    rewards = 1.0 - waiting[:, None] - np.array([one + two - 0.5 for one, two in rates])
    return ca.MDP(transitions, rewards, discount)


def repair(discount: float, components: int = 6) -> ca.MDP:
    """Components that are good, worn or failed, and wear independently at different rates: which one to repair."""
    chances = 0.05 + 0.02 * np.arange(components)
    wears = [np.array([[1 - chance, chance, 0], [0, 1 - chance, chance], [0, 0, 1]]) for chance in chances]
    repaired = np.array([[1, 0, 0], [0.9, 0.1, 0], [0.6, 0, 0.4]])

    def step(chosen: int) -> Any:
        """The transitions when one component is repaired; the last action repairs none."""
        return reduce(sp.kron, (sp.csr_array(repaired if i == chosen else wears[i]) for i in range(components)))

    levels = np.stack(np.unravel_index(np.arange(3**components), (3,) * components))
    output = np.array([1.0, 0.7, 0.0])[levels].mean(axis=0)
    price = np.array([0.1] * components + [0.0])
    return ca.MDP([step(chosen) for chosen in range(components + 1)], output[:, None] - price, discount)


def taxi(discount: float) -> ca.MDP:
    """Gymnasium's Taxi, with an absorbing state after the delivery."""
    import gymnasium

    return ca.from_gym(gymnasium.make("Taxi-v4"), discount=discount, at_end="absorb")


def unreachable(discount: float, n: int = 5000, reached: int = 300) -> ca.MDP:
    """A garnet whose start leads to few of the states; the others lead anywhere. The states are shuffled."""
    rng = np.random.default_rng(0)
    shuffled = rng.permutation(n)
    inside, anywhere = ca.worlds.garnet(reached, 4, 5).transitions, ca.worlds.garnet(n, 4, 5).transitions
    inside = sp.csr_array((inside.data, inside.indices, inside.indptr), shape=(4 * reached, n))
    found = sp.coo_array(sp.vstack([inside, anywhere[4 * reached :]]))
    pairs = shuffled[found.row // 4] * 4 + found.row % 4
    transitions = sp.csr_array(sp.coo_array((found.data, (pairs, shuffled[found.col])), shape=(4 * n, n)))
    return ca.MDP(transitions, rng.random((n, 4)), discount, start=np.arange(n) == shuffled[0])


@dataclass(frozen=True)
class Shape:
    """A model of one size; ``lattice`` are the sides of the box of whole numbers that its states fill, if they do."""

    n_states: int
    build: Callable[[float], ca.MDP]
    lattice: tuple[int, ...] = ()


SHAPES = {
    "wide": Shape(500, lambda discount: ca.worlds.garnet(500, 100, 5, discount)),
    "successors": Shape(800, lambda discount: ca.worlds.garnet(800, 2, 400, discount)),
    "dense": Shape(600, dense),
    "line": Shape(20_000, line, (20_000,)),
    "tandem": Shape(900, tandem, (30, 30)),
    "repair": Shape(729, repair, (3,) * 6),
    "taxi": Shape(501, taxi),
    "unreachable": Shape(5000, unreachable),
}


def model(name: str, n_states: int, discount: float) -> ca.MDP:
    """A shape, which has its own size; or the grid; or a garnet whose pairs have five successors."""
    if name in SHAPES:
        return SHAPES[name].build(discount)
    if name == "grid":
        return grid(round(n_states**0.5), discount)
    return ca.worlds.garnet(n_states, n_actions=4, n_successors=5, discount=discount)


class _Data:
    """What the risks are made of, each when it is first asked for; the same numbers in any order of asking."""

    def __init__(self, kind: str, mdp: ca.MDP) -> None:
        self.kind, self.mdp = kind, mdp
        self.n, self.side = mdp.n_states, round(mdp.n_states**0.5)
        self.lattice = (self.side, self.side) if kind == "grid" else SHAPES[kind].lattice if kind in SHAPES else ()

    @cached_property
    def random_rows(self) -> Any:
        """The rows (S, A) of a random policy, and the generator after drawing them."""
        rng = np.random.default_rng(1)
        return rng.dirichlet(np.ones(self.mdp.n_actions), size=self.n), rng

    @cached_property
    def random_occupancy(self) -> Any:
        """The behaviour (S, A) of the random policy."""
        return policy_occupancy(self.mdp, self.random_rows[0]).occupancy

    @cached_property
    def prior(self) -> Any:
        """The same, a little blurred."""
        return 0.95 * self.random_occupancy + 0.05 / self.random_occupancy.size

    @cached_property
    def tasks(self) -> Any:
        """Rewards (3, S, A) of three tasks."""
        return self.random_rows[1].random((3, *self.mdp.shape))

    @property
    def floors(self) -> Any:
        """A little more than the random policy earns in each task."""
        return 1.02 * np.sum(self.random_occupancy * self.tasks, axis=(1, 2)) / (1 - self.mdp.discount)

    @property
    def places(self) -> Any:
        """Points (S, dimensions): those of the lattice, otherwise random ones of the plane."""
        if self.lattice:
            return np.stack(np.unravel_index(np.arange(self.n), self.lattice), axis=1).astype(float)
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
            # state 500 of the taxi is the end of a ride, which is no danger
            first = 1 if self.kind in SHAPES else 0
            return [np.arange(first + j, self.n, 5) for j in range(3)]
        third, quarter = self.side // 3, self.side // 4
        row, column = np.divmod(np.arange(self.n), self.side)
        bands = [(third * j <= row) & (row < third * j + quarter) for j in range(3)]
        return [np.flatnonzero(band & (column > quarter)) for band in bands]

    @property
    def safe_set(self) -> ca.Risk:
        """At most 15 % of the time in the first danger set; 20 % on large grids, where 15 % is infeasible.

        Shapes differ in what can be avoided: there, halfway between the random policy's share and the least one.
        """
        zone = self.zones[0]
        slack = 0.2 if self.kind == "grid" and self.n > LARGE_GRID_STATES else 0.15
        if self.kind in SHAPES:
            inside = np.zeros(self.mdp.shape)
            inside[zone] = 1.0
            avoiding = ca.MDP(self.mdp.transitions, -inside, self.mdp.discount, self.mdp.start)
            least = -(1 - self.mdp.discount) * ca.solve(ca.Problem(avoiding)).expected_return
            slack = (least + np.sum(self.random_occupancy * inside)) / 2
        return ca.SafeSet(np.setdiff1d(np.arange(self.n), zone), slack=slack)

    @property
    def graph(self) -> sp.csr_array:
        """Neighbours on the lattice, otherwise a ring with as many random chords."""
        n, cells = self.n, np.arange(self.n)
        if self.lattice:
            numbers = cells.reshape(self.lattice)
            ends = [(np.delete(numbers, -1, axis), np.delete(numbers, 0, axis)) for axis in range(numbers.ndim)]
            tail, head = np.concatenate([np.reshape(pair, (2, -1)) for pair in ends], axis=1)
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
