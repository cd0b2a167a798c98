"""Groups of states, for pages about models in which the ten most visited states say little.

States belong together by their names ("stock 3, rain" and "stock 3, sun"), or, where names do not divide them, by where
the policy leads from them. The groups are shown as the states of a small model, with the flows of time between them.
"""

import re
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from cautious.arrays import Array, Indices, Mask
from cautious.horizons.visits import PolicyOccupancy
from cautious.models.tabular import MDP
from cautious.report.accuracy import shares_of_time
from cautious.report.graph import MAX_NODES
from cautious.report.text_tables import busiest_states
from cautious.report.words import fits_grid, scene_of, state_name
from cautious.solution import Solution

# states are grouped where the busiest ones have less than this share of the time together
MIN_SHARE_OF_BUSIEST, N_BUSIEST = 0.5, 10
N_CENTRES = 8
# how far the policy is followed to see which centre is reached first
FOLLOWED_STEPS, FOLLOWING_DISCOUNT = 100, 0.98
FIRST_PART = re.compile(r"[,;/|(]")
NUMBERS = re.compile(r"[-\d.]+")


@dataclass(frozen=True)
class Groups:
    """``solution`` has the groups for states; ``how`` says what makes a group."""

    solution: Solution
    how: str


def grouped(solution: Solution) -> Groups | None:
    """The solution (policy (S, A)) in groups of its visited states; None where the busiest states say enough."""
    mdp, shares = solution.mdp, shares_of_time(solution)
    few = float(shares[busiest_states(shares, N_BUSIEST)].sum()) >= MIN_SHARE_OF_BUSIEST
    if few or fits_grid(mdp) or not mdp.known_transitions or not mdp.written_down:
        return None
    names, group = _by_name(mdp, shares > 0)
    how = "States with the same beginning of their names are one group."
    if not names:
        names, group = _by_flow(solution, shares)
        how = (
            f"Every state belongs to that of the {N_CENTRES} most visited states to which the policy leads first, in "
            "all likelihood."
        )
    return Groups(_lumped(solution, names, group), how)


def _by_name(mdp: MDP, visited: Mask) -> tuple[list[str], Indices]:
    """Names of groups, and the group (S,) of each state; no names where they make one group or too many."""
    names = [state_name(mdp, state) for state in range(mdp.n_states)]
    for keys in (
        [FIRST_PART.split(name)[0].strip() for name in names],
        [NUMBERS.sub("", name).strip() for name in names],
    ):
        found = np.unique(np.array(keys)[visited])
        if 2 <= found.size <= MAX_NODES and all(found):
            # states that are never visited belong to no group that is shown: any will do
            return found.tolist(), np.minimum(np.searchsorted(found, keys), found.size - 1)
    return [], np.zeros(0, dtype=np.int64)


def _by_flow(solution: Solution, shares: Array) -> tuple[list[str], Indices]:
    """Groups around the most visited states: each state is with the one that is most likely reached first."""
    centres = np.array(busiest_states(shares, N_CENTRES))
    chain = sp.csr_array(solution.mdp.under(solution.policy))
    reached = np.zeros((shares.size, centres.size))
    for _ in range(FOLLOWED_STEPS):
        reached[centres] = np.eye(centres.size)
        reached = FOLLOWING_DISCOUNT * (chain @ reached)
    reached[centres] = np.eye(centres.size)
    names = [f"around {state_name(solution.mdp, int(state))}" for state in centres]
    return names, np.argmax(reached, axis=1)


def _lumped(solution: Solution, names: list[str], group: Indices) -> Solution:
    """The model of the groups: their flows are those of all their states, weighted by the time spent there."""
    mdp, pairs = solution.mdp, solution.certificate.visits.pairs
    n_groups, (n_states, n_actions) = len(names), mdp.shape
    into = sp.csr_array((np.ones(n_states), (group, np.arange(n_states))), shape=(n_groups, n_states))
    spent = np.asarray(into @ pairs)
    rows = group[:, None] * n_actions + np.arange(n_actions)
    weighted = sp.csr_array(
        (pairs.ravel(), (rows.ravel(), np.arange(pairs.size))), shape=(n_groups * n_actions, pairs.size)
    )
    flows = (weighted @ mdp.transitions @ into.T).toarray().reshape(n_groups, n_actions, n_groups)
    used = spent > 0
    # a group of which no pair is used has one action, which stays
    used[~used.any(axis=1), 0] = True
    stay = np.broadcast_to(np.eye(n_groups)[:, None, :], flows.shape)
    transitions = np.where((spent > 0)[:, :, None], flows / np.where(spent > 0, spent, 1.0)[:, :, None], stay)
    counts = np.bincount(group[pairs.sum(axis=1) > 0], minlength=n_groups)
    small = MDP(
        transitions,
        np.asarray(into @ (pairs * mdp.rewards)) / np.where(spent > 0, spent, 1.0),
        mdp.discount,
        np.asarray(into @ mdp.start),
        allowed=used,
        state_names=[f"{name} ({count:,} states)" for name, count in zip(names, counts.tolist(), strict=True)],
        action_names=mdp.action_names,
        scene=replace(scene_of(mdp), grid=(), action_arrows=()),
    ).with_horizon(mdp.horizon)
    total = spent.sum(axis=1, keepdims=True)
    policy = np.where(total > 0, spent / np.where(total > 0, total, 1.0), used / used.sum(axis=1, keepdims=True))
    visits = PolicyOccupancy(spent, total[:, 0] > 0, 0.0)
    return replace(
        solution, mdp=small, policy=policy, problem=None, certificate=replace(solution.certificate, visits=visits)
    )
