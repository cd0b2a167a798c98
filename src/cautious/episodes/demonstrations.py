"""``ca.demonstrations``: recorded behaviour as a prior occupancy.

Legend: T_i steps of episode i, gamma the model's discount, x_i (S, A) what was seen of its discounted time:

    x_i = (1 - gamma) sum_{t < T_i} gamma^t 1[s_t, a_t],        of mass m_i = 1 - gamma^T_i.

The rest, gamma^T_i, belongs to what follows the last step. Where the last state goes on for ever ("absorb") it is added
to x_i, and m_i = 1. Where a fresh episode follows ("restart") the occupancy d solves  d = mean(x) + mean(gamma^T) d.
Where the recording was cut nothing is known of it, and it is taken to be like the rest. One formula serves all three:

    d = sum_i x_i / sum_i m_i,     off by at most  c / (1 - r)  in total variation because of cuts,

with c and r the mean of gamma^T_i over all episodes, counted where they were cut and where they restart.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp

from cautious.arrays import Array, Indices, Mask
from cautious.checks import as_number, check_choice, is_listable
from cautious.episodes.records import Episode, read_record
from cautious.episodes.space import Space, space_of
from cautious.episodes.tables import read_table
from cautious.errors import IncompatibleError, InputError
from cautious.models.horizons import require_discounting
from cautious.models.simulators import Simulator
from cautious.models.tabular import MDP
from cautious.occupancy import uniform_policy

AtEnd = Literal["absorb", "restart", "cut"]
FOLLOWS = {
    "absorb": "the last state of an ended episode goes on for ever",
    "restart": "a fresh episode follows one that has ended",
    "cut": "nothing is known of what follows an episode",
}


@dataclass(frozen=True, eq=False, repr=False)
class Demonstrations:
    """Recorded behaviour, ready to be the prior of ``KL``, ``TotalVariation``, ``Quadratic`` or ``Wasserstein``.

    ``occupancy`` (S, A), or (S,) where actions are not known, sums to one; ``standard_error`` has its shape and says
    how far other episodes of the same demonstrator would move each entry (infinite for a single episode).
    ``states_seen`` (S,) marks the states that carry weight before smoothing. ``unseen`` bounds, in total variation,
    what recordings that were cut could still change.

    Examples
    --------
    >>> import cautious as ca
    >>> episodes = [[(0, 1), (1, 1)], [(0, 1), (0, 0)]]  # rows of (state, action)
    >>> prior = ca.demonstrations(episodes, ca.worlds.river_swim(), smoothing=0, at_end="cut")
    >>> prior.n_episodes, prior.states.shape, round(float(prior.occupancy.sum()), 12)
    (2, (6,), 1.0)
    """

    occupancy: Array
    standard_error: Array
    states_seen: Mask
    n_episodes: int
    n_steps: int
    discount: float
    smoothing: float
    at_end: AtEnd
    unseen: float

    @cached_property
    def states(self) -> Array:
        """The prior over states alone, (S,)."""
        return self.occupancy if self.occupancy.ndim == 1 else self.occupancy.sum(axis=1)

    @property
    def sampling_error(self) -> float:
        """About the largest that the expected total variation to endless demonstrations can be; infinite for one."""
        return 0.5 * float(self.standard_error.sum())

    @property
    def statement(self) -> str:
        """What was done with how much, in one sentence."""
        parts = [
            f"{_count(self.n_episodes, 'episode')} with {_count(self.n_steps, 'step')} in all, discounted by "
            f"{self.discount:g} as the model is, saw {np.count_nonzero(self.states_seen)} of {self.states.size} states",
            FOLLOWS[self.at_end],
        ]
        if self.unseen > 0:
            parts.append(f"recordings that were cut leave up to {self.unseen:.2g} of total variation open")
        if self.n_episodes > 1:
            parts.append(f"chance accounts for about {self.sampling_error:.1g} of total variation")
        thing = "states" if self.occupancy.ndim == 1 else "pairs"
        if self.smoothing == 0:
            parts.append(f"nothing is mixed in, so that KL forbids the {thing} that were not seen")
        else:
            parts.append(f"a share of {self.smoothing:g} is spread evenly over all {thing}")
        return "; ".join(parts) + "."

    def __repr__(self) -> str:
        return f"Demonstrations({self.statement})"


def demonstrations(
    episodes: str | os.PathLike[str] | Iterable[Any], model: MDP | Simulator, *, smoothing: float, at_end: AtEnd
) -> Demonstrations:
    """A prior from recorded episodes.

    Parameters
    ----------
    episodes
        The name of a csv, Parquet or Arrow file (columns episode, state, and optionally step and action), or a list or
        other iterable of episodes. Each is a list of states (T,), of pairs (T, 2), or a record: a mapping, or an object
        such as ``minari.EpisodeData``, with ``observations`` (T+1,), ``actions`` (T,) or None, and the marks
        ``terminations`` and ``truncations`` (T,) or None. States and actions are numbers or the model's names; either
        every episode has actions or none.
    model
        What the prior is for: its sizes and names are used, and its discount, so that prior and policies are weighed
        alike. Demonstrations may come from another world.
    smoothing
        Share in [0, 1) that is spread evenly: over the states, and in each over its allowed actions. With 0, ``KL``
        forbids whatever was not seen.
    at_end
        What follows the last step. "absorb": the last state goes on for ever (the last pair, where its action is the
        last thing known; the extra state of a ``ca.GymSimulator``). "restart": a fresh episode. "cut": it is not
        known, the recording stopped. Records whose marks say that they were not terminated count as cut in any case.

    Examples
    --------
    >>> import cautious as ca
    >>> swim = ca.worlds.river_swim()
    >>> upstream = [[0, 1, 2, 3, 4, 5], [0, 0, 1, 2, 3, 4, 5]]
    >>> prior = ca.demonstrations(upstream, swim, smoothing=0.1, at_end="absorb")
    >>> prior.states.round(2).tolist()
    [0.08, 0.06, 0.06, 0.05, 0.05, 0.7]
    >>> problem = ca.Problem(swim, ca.KL(prior), caution=1.0)
    """
    share = as_number("smoothing", smoothing, 0.0, 1.0, open_ends=")")
    check_choice("at_end", at_end, tuple(FOLLOWS))
    space = space_of(model)
    require_discounting("ca.demonstrations", space.discount)
    if space.at_end is not None and at_end not in (space.at_end, "cut"):
        raise IncompatibleError(f'at_end is "{at_end}", but the simulator was made with at_end="{space.at_end}"')
    read = _read(episodes, space)
    seen, left = _seen(read, space, at_end)
    estimate, error = _pooled(seen)
    even = uniform_policy(space.allowed) / space.allowed.shape[0]
    shape = space.allowed.shape if read[0].actions is not None else space.allowed.shape[:1]
    even = even if len(shape) == 2 else even.sum(axis=1)
    estimate, error = estimate.reshape(shape), error.reshape(shape)
    occupancy, spread = (1 - share) * estimate + share * even, (1 - share) * error
    states_seen = estimate.reshape(shape[0], -1).sum(axis=1) > 0
    for fixed in (occupancy, spread, states_seen):
        fixed.setflags(write=False)
    return Demonstrations(
        occupancy=occupancy,
        standard_error=spread,
        states_seen=states_seen,
        n_episodes=len(read),
        n_steps=sum(one.states.size for one in read),
        discount=space.discount,
        smoothing=share,
        at_end=at_end,
        unseen=_unseen(read, left, at_end),
    )


def _read(episodes: Any, space: Space) -> list[Episode]:
    if isinstance(episodes, str | os.PathLike):
        read = read_table(episodes, space)
    elif isinstance(episodes, np.ndarray) or not is_listable(episodes):
        raise InputError(
            f"episodes must be a list of episodes or the name of a csv file, found {type(episodes).__name__}; "
            "a single episode is a list of one: [episode]"
        )
    else:
        read = [read_record(f"episode {index}", item, space) for index, item in enumerate(episodes)]
    if not read:
        raise InputError("episodes is empty; it needs at least one episode")
    for index, one in enumerate(read):
        if (one.actions is None) != (read[0].actions is None):
            has, other = ("no actions", "some") if one.actions is None else ("actions", "none")
            raise InputError(f"episode {index} has {has}, and episode 0 has {other}; all or none must have them")
    return read


def _seen(read: list[Episode], space: Space, at_end: AtEnd) -> tuple[sp.csr_array, Array]:
    """What was seen, a row x_i per episode over pairs or states; and the weights gamma^T_i (n,) that are left."""
    gamma, with_actions = space.discount, read[0].actions is not None
    n_states, n_actions = space.allowed.shape
    size = n_states * n_actions if with_actions else n_states
    lengths = np.array([one.states.size for one in read])
    owner = np.repeat(np.arange(lengths.size), lengths)
    first = np.cumsum(lengths) - lengths
    steps = np.arange(owner.size) - first[owner]
    entries = np.concatenate(
        [one.states if one.actions is None else one.states * n_actions + one.actions for one in read]
    )
    # powers that underflow belong to steps without weight
    with np.errstate(under="ignore"):
        weights, left = (1 - gamma) * np.power(gamma, steps), np.power(gamma, lengths)
    seen = _table(weights, owner, entries, (lengths.size, size))
    if at_end != "absorb":
        return seen, left
    ended = np.array([one.ended for one in read])
    # the state after the last step, -1 where it is not known
    final = np.array([-1 if one.final is None else one.final for one in read])
    if space.end_state is not None:
        final[:] = space.end_state
    # the state after the last step is known: what is done there is not, so its actions share alike
    known = np.flatnonzero(ended & (final >= 0))
    stays = _table(left[known], known, final[known], (lengths.size, n_states))
    if with_actions:
        stays = stays @ _spread(space.allowed)
    # it is not known: the last step is repeated for ever
    open_ = np.flatnonzero(ended & (final < 0))
    goes_on = _table(left[open_], open_, entries[(first + lengths - 1)[open_]], seen.shape)
    return sp.csr_array(seen + stays + goes_on), left


def _table(weights: Array, rows: Indices, columns: Indices, shape: tuple[int, int]) -> sp.csr_array:
    """Sums of weights by row and column."""
    return sp.csr_array((weights, (rows, columns)), shape=shape)


def _spread(allowed: Mask) -> sp.csr_array:
    """(S, S*A): from a state to its allowed actions, alike."""
    n_states, n_actions = allowed.shape
    states, actions = np.nonzero(allowed)
    return _table(
        uniform_policy(allowed)[states, actions], states, states * n_actions + actions, (n_states, allowed.size)
    )


def _pooled(seen: sp.csr_array) -> tuple[Array, Array]:
    """sum x / sum m, and its standard error over episodes: that of a ratio of two means."""
    count, mass = seen.shape[0], np.asarray(seen.sum(axis=1))
    total = float(mass.sum())
    estimate = np.asarray(seen.sum(axis=0)) / total
    estimate /= estimate.sum()
    if count == 1:
        return estimate, np.full(estimate.size, np.inf)
    squares = np.asarray(seen.power(2).sum(axis=0)) - 2 * estimate * (seen.T @ mass) + estimate**2 * float(mass @ mass)
    return estimate, np.sqrt(np.maximum(squares, 0.0) * count / (count - 1)) / total


def _unseen(read: list[Episode], left: Array, at_end: AtEnd) -> float:
    """c / (1 - r) of the module's formula."""
    ended = np.array([one.ended and at_end != "cut" for one in read])
    cut = float(left[~ended].sum()) / left.size
    restarts = float(left[ended].sum()) / left.size if at_end == "restart" else 0.0
    return cut / (1 - restarts)


def _count(number: int, thing: str) -> str:
    return f"{number} {thing}{'s' * (number != 1)}"
