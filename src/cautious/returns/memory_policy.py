"""``MemoryPolicy``: a policy that remembers what is still to be earned."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from cautious.arrays import Array, Codes, Indices
from cautious.errors import InputError
from cautious.models.horizons import Horizon
from cautious.returns.backward import Grid

# of a grid in a file
MOST_NODES = 1e8


@dataclass(frozen=True)
class ActionTable:
    """The actions (S, n) of a step, as runs of neighbouring targets with the same action.

    Run k begins at ``starts[k]`` of the table read row by row, and takes ``actions[k]``.
    """

    starts: Indices
    actions: Codes
    shape: tuple[int, int]

    @classmethod
    def of(cls, table: Any) -> "ActionTable":
        """The runs of a table (S, n)."""
        flat = np.ravel(table)
        changes = np.flatnonzero(flat[1:] != flat[:-1]) + 1
        starts = np.concatenate([[0], changes]).astype(np.int64)
        return cls(starts, flat[starts].astype(np.int32), table.shape)

    def whole(self) -> Codes:
        """(S, n)."""
        lengths = np.diff(self.starts, append=self.shape[0] * self.shape[1])
        return np.repeat(self.actions, lengths).reshape(self.shape)

    def at(self, states: Indices, nodes: Indices) -> Indices:
        """The actions of these states at these nodes."""
        places = states * self.shape[1] + nodes
        return np.asarray(self.actions[np.searchsorted(self.starts, places, side="right") - 1], dtype=np.int64)


@dataclass(frozen=True, eq=False)
class MemoryPolicy:
    """What to do in every state with every target, step by step.

    An episode begins with ``target`` still to be earned. ``tables[t]`` belong to the nodes of ``grids[t]``. After a
    step that paid r the target is what is left of it, ``target - scales[t] (r - middle)``, moved to the nearest node of
    the next grid, or to the next one above (``to_upper``); a target less than ``snap`` from a node is the node.
    After the last step that is remembered ``policy_after`` (S, A) is played, if the episode goes on.

    Examples
    --------
    >>> import cautious as ca
    >>> problem = ca.Problem(ca.worlds.river_swim(), ca.ReturnVariance(), caution=1.0, horizon=20)
    >>> memory = ca.solve(problem).memory_policy
    >>> memory.n_steps, memory.n_memories > 20
    (20, True)
    """

    target: float
    grids: tuple[Grid, ...]
    tables: tuple[ActionTable, ...]
    scales: Array
    middle: float
    to_upper: bool
    snap: float
    policy_after: Array | None

    @property
    def n_steps(self) -> int:
        """How many steps are remembered."""
        return len(self.grids) - 1

    @property
    def clips(self) -> bool:
        """Whether the ends of its grids may stand for targets that are certain, or cannot be reached."""
        return self.snap > 0

    @property
    def n_memories(self) -> int:
        """How many pairs of a step and a target there are."""
        return sum(grid.count for grid in self.grids[: self.n_steps])

    def first(self) -> int:
        """The node of an episode that begins."""
        return int(self._node(0, np.float64(self.target)))

    def moved(self, t: int, node: Indices, reward: Array) -> Indices:
        """The nodes of the next grid, after step t at these nodes paid these rewards."""
        return self._node(t + 1, self.grids[t].nodes[node] - self.scales[t] * (reward - self.middle))

    def _node(self, t: int, target: Any) -> Indices:
        """The node of a grid that a target moves to: as in the compiled loop."""
        grid, x = self.grids[t], np.asarray(target, dtype=np.float64)
        if grid.step > 0:
            place = (x - grid.low) / grid.step
            below = np.floor(place)
            share, snap = place - below, self.snap / grid.step
        else:
            below = np.clip(np.searchsorted(grid.nodes, x, side="right") - 1, 0, max(grid.count - 2, 0))
            above = np.minimum(below + 1, grid.count - 1)
            width = np.maximum(grid.nodes[above] - grid.nodes[below], 1e-300)
            # all shares are alike where two nodes are nearer than doubles can divide by
            with np.errstate(over="ignore"):
                share, snap = (x - grid.nodes[below]) / width, self.snap / width
        up = (share > snap) if self.to_upper else (share > 0.5)
        return np.asarray(np.clip(below + up, 0, grid.count - 1), dtype=np.int64)

    def to_storage(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Header and arrays for a file."""
        header = {name: getattr(self, name) for name in ("target", "middle", "to_upper", "snap")}
        arrays = {
            "grids": np.array([(grid.low, grid.step, grid.count) for grid in self.grids]),
            "nodes": np.concatenate([np.zeros(0), *(grid.nodes for grid in self.grids if grid.step == 0)]),
            "scales": self.scales,
            "runs": np.array([table.starts.size for table in self.tables], dtype=np.int64),
            "starts": np.concatenate([table.starts for table in self.tables]),
            "actions": np.concatenate([table.actions for table in self.tables]),
        }
        if self.policy_after is not None:
            arrays["policy_after"] = self.policy_after
        return header, arrays

    @classmethod
    def from_storage(
        cls, header: Mapping[str, Any], arrays: Mapping[str, Any], shape: tuple[int, int], horizon: Horizon
    ) -> "MemoryPolicy":
        """From what ``to_storage`` wrote, for a model of this shape (S, A); whatever does not fit is refused."""
        numbers = np.asarray(arrays["grids"], dtype=np.float64)
        scales = np.asarray(arrays["scales"], dtype=np.float64)
        target, middle, snap = (float(header[name]) for name in ("target", "middle", "snap"))
        if numbers.ndim != 2 or numbers.shape[1] != 3 or not np.isfinite(numbers).all() or len(numbers) < 2:
            raise InputError("the grids of the memory are not three finite numbers for every step")
        if scales.shape != (len(numbers),) or not np.isfinite([*scales, target, middle, snap]).all():
            raise InputError("the numbers of the memory are not finite, or not as many as there are steps")
        if isinstance(horizon, int) is ("policy_after" in arrays) or (
            isinstance(horizon, int) and horizon != len(scales) - 1
        ):
            raise InputError("the memory is not one for this horizon")
        grids = _grids(numbers, np.asarray(arrays["nodes"], dtype=np.float64))
        tables = _tables(arrays, [(shape[0], grid.count) for grid in grids[:-1]], shape[1])
        after = arrays.get("policy_after")
        if after is not None and (after.shape != shape or not np.allclose(after.sum(axis=1), 1) or (after < 0).any()):
            raise InputError("the policy after the memory is not one of this model")
        return cls(target, grids, tables, scales, middle, bool(header["to_upper"]), snap, after)


def _grids(numbers: Array, nodes: Array) -> tuple[Grid, ...]:
    """From low, step and count of every grid (T + 1, 3), and the nodes of those without a step."""
    if (numbers[:, 1] < 0).any() or (numbers[:, 2] < 1).any() or (numbers[:, 2] > MOST_NODES).any():
        raise InputError("a grid of the memory has no nodes, or too many, or a negative step")
    grids, end = [], 0
    for low, step, count in numbers:
        if step > 0:
            grids.append(Grid.even(float(low), float(step), int(count)))
            continue
        first, end = end, end + int(count)
        own = nodes[first:end]
        if own.size != int(count) or not np.isfinite(own).all() or (np.diff(own) <= 0).any():
            raise InputError("the nodes of the memory do not ascend, or are not as many as its grids say")
        grids.append(Grid(own))
    return tuple(grids)


def _tables(arrays: Mapping[str, Any], shapes: Sequence[tuple[int, int]], n_actions: int) -> tuple[ActionTable, ...]:
    runs = np.asarray(arrays["runs"], dtype=np.int64)
    starts, actions = np.asarray(arrays["starts"], dtype=np.int64), np.asarray(arrays["actions"], dtype=np.int32)
    if runs.shape != (len(shapes),) or (runs < 1).any() or not runs.sum() == starts.size == actions.size:
        raise InputError("the actions of the memory are not as many as its runs")
    if (actions < 0).any() or (actions >= n_actions).any():
        raise InputError(f"the memory takes an action that is not one of 0 to {n_actions - 1}")
    tables, end = [], 0
    for count, own in zip(runs.tolist(), shapes, strict=True):
        first, end = end, end + count
        begins = starts[first:end]
        if begins[0] != 0 or (np.diff(begins) <= 0).any() or begins[-1] >= own[0] * own[1]:
            raise InputError("the runs of the memory do not begin one after the other within their table")
        tables.append(ActionTable(begins, actions[first:end], own))
    return tuple(tables)
