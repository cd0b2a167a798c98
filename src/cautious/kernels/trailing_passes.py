"""Many passes over a chain at once, each trailing the one before by as few states as the rows allow.

A pass over a large chain waits for memory: its rows and its values are long gone from the cache when the next pass
wants them. Where states lead to states with like numbers, as in a grid, a block of states can have its next pass when
the blocks it leads to have had this one, and passes run close behind each other through the same few rows. Every
number is the one that passes one after the other give. Where states lead anywhere, that is also the order of work.

Legend: (pointer, successor, chance) the chain P_pi of one policy and ``b`` (S,) its reward; ``widths`` as in
``planning.py``; ``ahead`` and ``behind``, one number per block of ``BLOCK`` states, from ``block_reach``.
"""

import numpy as np
from numba import njit

from cautious.arrays import Array, Indices
from cautious.kernels.expected_rows import BLOCK, step_rows

# iterates that are kept: a pass overwrites what the fourth pass before it has written
KEPT = 4
# blocks that a pass does at a time: few for the cache, many for the processor's guesses about what comes next
TURN = 16


@njit(cache=True, nogil=True)
def block_reach(indptr: Indices, indices: Indices, n_states: int) -> tuple[Indices, Indices]:
    """How far a pass must have come before the next one may do a block, and before the block may be overwritten.

    Both count blocks: ``ahead`` those that a block leads to, whatever the policy, and all before them; ``behind`` those
    that lead to it, and all before them.
    """
    n_actions = (indptr.size - 1) // n_states
    count = -(-n_states // BLOCK)
    ahead, behind = np.empty(count, np.int64), np.empty(count, np.int64)
    for block in range(count):
        # no pass overtakes another
        ahead[block] = behind[block] = block + 1
    for block in range(count):
        last = min((block + 1) * BLOCK, n_states)
        low, high = np.int64(n_states), np.int64(0)
        for k in range(np.uint64(indptr[block * BLOCK * n_actions]), np.uint64(indptr[last * n_actions])):
            low, high = min(low, np.int64(indices[k])), max(high, np.int64(indices[k]))
        ahead[block] = max(ahead[block], high // BLOCK + 1)
        if low < n_states:
            behind[low // BLOCK] = max(behind[low // BLOCK], block + 1)
    for block in range(1, count):
        behind[block] = max(behind[block], behind[block - 1])
    return ahead, behind


@njit(cache=True, nogil=True)
def trailing_passes(
    pointer: Indices,
    successor: Indices,
    chance: Array,
    widths: Indices,
    b: Array,
    gamma: float,
    v: Array,
    passes: int,
    ahead: Indices,
    behind: Indices,
    iterates: Array,
) -> None:
    """Row i % 4 of ``iterates`` (4, S) becomes b + gamma P_pi applied i + 1 times to v (S,), for the last four i."""
    done = np.zeros(passes + 1, np.int64)
    done[0] = widths.size
    while done[passes] < widths.size:
        for number in range(passes):
            block = done[number + 1]
            old, new = v if number == 0 else iterates[(number - 1) % KEPT], iterates[number % KEPT]
            for _ in range(TURN):
                if block == widths.size or ahead[block] > done[number]:
                    break
                if number >= KEPT and behind[block] > done[number - KEPT + 2]:
                    break
                start = np.uint64(block * BLOCK)
                out = new[start : start + np.uint64(BLOCK)]
                step_rows(pointer, successor, chance, widths[block], old, b, gamma, start, out)
                block += 1
            done[number + 1] = block
