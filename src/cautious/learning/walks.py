"""Paths of a policy through a simulator, walked wherever there is a worker.

Paths are taken in blocks of as many as one call of the simulator draws for, those with the most steps first. The paths
of a block go side by side. A leg is some steps of a block, about half a second of work: a worker that knows the policy
takes it alone, so that no step waits for a message, or for other blocks. Every step of a block has a call of its own,
numbered before anything is drawn; so the draws depend neither on the length of legs nor on who walks them.
"""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np

from cautious.arrays import Array, Indices
from cautious.evaluation.rollouts import drawn_actions
from cautious.learning.draws import MOST_DRAWS_PER_TASK, Draws, DrawSource, check_promises, generator, one_call
from cautious.runtime.executors import Together

# states, actions, next states and rewards of all draws, step after step
Steps = tuple[Indices, Indices, Indices, Array]


@dataclass(frozen=True)
class Leg:
    """Some steps of a block: the number of the first ``call``, the ``states`` (n,) of its paths, the longest first.

    ``alive`` (steps,): how many of them take each step. ``seconds_per_draw`` as in ``Order``.
    """

    block: int
    call: int
    states: Indices
    alive: Indices
    seconds_per_draw: float


def walk(known: tuple[DrawSource, Array], leg: Leg) -> tuple[Steps, float]:
    """The checked draws of a leg, and the seconds they took; ``known`` has ``cumulative_rows`` of the policy."""
    (source, cumulative), began = known, time.monotonic()
    states, parts = leg.states, []
    for call, count in enumerate(leg.alive.tolist(), leg.call):
        states, rng = states[:count], generator(source.seed, call)
        actions = drawn_actions(cumulative, states, rng)
        next_states, rewards = one_call(source, call, count, states, actions, leg.seconds_per_draw, rng)
        parts.append((states, actions, next_states, rewards))
        states = next_states
    check_promises(source, leg.call + len(parts) - 1)
    return joined(parts), time.monotonic() - began


def joined(parts: list[Steps]) -> Steps:
    """Steps one after the other."""
    if len(parts) == 1:
        return parts[0]
    states, actions, next_states, rewards = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return states, actions, next_states, rewards


class Walks:
    """All paths of a policy: their first states ``starts`` (n,) and how many steps each takes, ``lengths`` (n,) >= 1.

    ``lengths`` descends. Call ``first_call`` is the first of ``n_calls``.
    """

    def __init__(self, draws: Draws, cumulative: Array, starts: Indices, lengths: Indices, first_call: int) -> None:
        self.draws, self.starts, self.lengths = draws, starts, lengths
        self.known = Together((draws.source, cumulative))
        self.n_blocks = -(-lengths.size // draws.per_call)
        # the longest path of a block is its first
        ends = np.cumsum(lengths[:: draws.per_call])
        self.n_calls = int(ends[-1]) if ends.size else 0
        self._calls = first_call + np.concatenate([[0], ends])

    def paths(self, block: int) -> slice:
        """Those of a block."""
        return slice(block * self.draws.per_call, min((block + 1) * self.draws.per_call, self.lengths.size))

    def alive(self, block: int) -> Indices:
        """How many paths of a block take each of its steps."""
        lengths = self.lengths[self.paths(block)]
        return np.asarray(np.searchsorted(-lengths, -np.arange(int(lengths[0])), side="left"))

    def legs(self, first: int, walked: dict[int, Steps]) -> Iterator[tuple[int, Steps]]:
        """Block and draws of every leg, as they come, of the blocks from the ``first`` on.

        What is ``walked`` of them already is left out. Until the end nobody else may draw.
        """
        at = {block: self._reached(block, steps) for block, steps in walked.items()}
        ready = [b for b in range(first, self.n_blocks) if b not in at or at[b][0] < self._n_steps(b)]
        heapify(ready)
        begins = first * self.draws.per_call
        left = int(self.lengths[begins:].sum()) - sum(steps[0].size for steps in walked.values())
        under_way: dict[int, Leg] = {}
        unfinished, handed_out = len(ready), 0

        def tasks() -> Iterator[Leg | None]:
            nonlocal left, handed_out
            while unfinished:
                if not ready:
                    # all blocks are under way
                    yield None
                    continue
                block = heappop(ready)
                taken, states = at.get(block, (0, self.starts[self.paths(block)]))
                alive = self.alive(block)[taken:]
                wanted = self._draws_per_leg(left)
                alive = alive[: max(1, int(np.searchsorted(np.cumsum(alive), wanted, side="right")))]
                left -= int(alive.sum())
                leg = Leg(block, int(self._calls[block]) + taken, states, alive, self.draws.seconds_per_draw())
                under_way[handed_out] = leg
                handed_out += 1
                yield leg

        for number, found in self.draws.answers(walk, self.known, tasks(), ordered=False):
            leg, steps = under_way.pop(number), (found[0], found[1], found[2], found[3])
            taken = int(leg.call - self._calls[leg.block]) + leg.alive.size
            at[leg.block] = taken, steps[2][-int(leg.alive[-1]) :]
            if taken < self._n_steps(leg.block):
                heappush(ready, leg.block)
            else:
                unfinished -= 1
            yield leg.block, steps

    def _n_steps(self, block: int) -> int:
        return int(self.lengths[block * self.draws.per_call])

    def _reached(self, block: int, steps: Steps) -> tuple[int, Indices]:
        """How many steps of a block these are, and where its paths are then."""
        alive = self.alive(block)
        taken = int(np.searchsorted(np.cumsum(alive), steps[0].size)) + 1
        return taken, steps[2][-int(alive[taken - 1]) :]

    def _draws_per_leg(self, left: int) -> int:
        if self.draws.table is not None:
            return MOST_DRAWS_PER_TASK
        return self.draws.calls_per_task(False, left, 1)
