"""``inspect_model``: what a model is, and what about it is odd."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from cautious._core.rows import absorbing_states, duplicate_actions
from cautious.arrays import Mask
from cautious.errors import IncompatibleError
from cautious.models.encodings import read_only_view
from cautious.models.ends import components_of
from cautious.models.logged import LoggedMDP
from cautious.models.tabular import LARGEST_PLAIN_DISCOUNT, MDP

TINY_PROBABILITY = 1e-12
WILD_SCALES = 1e9


@dataclass(frozen=True)
class Inspection:
    """Figures of a model, and its suspicious sides in words.

    ``reward_range`` is (low, high); ``rewards_of`` is "pairs" or "outcomes"; ``density`` is the share of possible
    transitions that are stored; ``deterministic_share`` is the share of pairs with one outcome; ``end_components``
    counts the maximal end components, ``largest_end_component`` the states of the largest. Of a log: ``n_rows``,
    ``least_tried`` (state, action, how often) of the pairs that were tried, and ``rewards_seen`` as ``reward_range``.

    Examples
    --------
    >>> import cautious as ca
    >>> found = ca.inspect_model(ca.worlds.river_swim())
    >>> found.n_states, found.deterministic_share, found.rewards_of, found.suspicions
    (6, 0.5, 'outcomes', ())
    """

    title: str
    n_states: int
    n_actions: int
    n_pairs: int
    n_forbidden: int
    n_transitions: int
    density: float
    megabytes: float
    discount: float
    n_start_states: int
    n_reachable: int
    n_absorbing: int
    n_without_choice: int
    end_components: int
    largest_end_component: int
    deterministic_share: float
    reward_range: tuple[float, float]
    rewards_of: str
    suspicions: tuple[str, ...]
    n_rows: int | None = None
    least_tried: tuple[str, str, int] | None = None
    rewards_seen: tuple[float, float] | None = None

    def table(self) -> list[tuple[str, str]]:
        """Name and value of each figure, as text."""
        rewards = "{:.12g} to {:.12g}".format(*self.reward_range)
        if self.rewards_seen is not None and self.rewards_seen != self.reward_range:
            rewards = "{:.12g} to {:.12g} in the log, ".format(*self.rewards_seen) + f"{rewards} possible"
        figures = [
            ("states", f"{self.n_states:,}"),
            ("actions", f"{self.n_actions:,}"),
            ("pairs", f"{self.n_pairs:,}" + (f", {self.n_forbidden:,} forbidden" if self.n_forbidden else "")),
            ("transitions", f"{self.n_transitions:,}, {self.density:.3g} of all that could be"),
            ("deterministic pairs", f"{100 * self.deterministic_share:.3g} %"),
            ("memory", f"{self.megabytes:,.3g} MB"),
            ("discount", f"{self.discount:.12g}"),
            ("start", f"{self.n_start_states:,} state" + ("s" if self.n_start_states != 1 else "")),
            ("reachable states", f"{self.n_reachable:,}"),
            ("absorbing states", f"{self.n_absorbing:,}"),
            ("states without a choice", f"{self.n_without_choice:,}"),
            ("end components", f"{self.end_components:,}, the largest of {self.largest_end_component:,} states"),
            ("rewards", f"{rewards}, per {'pair' if self.rewards_of == 'pairs' else 'outcome'}"),
        ]
        if self.n_rows is not None:
            figures.append(("rows of the log", f"{self.n_rows:,}"))
        if self.least_tried is not None:
            state, action, count = self.least_tried
            often = "once" if count == 1 else f"{count:,} times"
            figures.append(("least tried pair", f"action {action} in state {state}, {often}"))
        return figures


def inspect_model(mdp: MDP) -> Inspection:
    """What a model is: its size, its graph, its rewards, and what is suspicious.

    Examples
    --------
    >>> import cautious as ca
    >>> found = ca.inspect_model(ca.worlds.machine_replacement())
    >>> found.n_states, found.n_reachable, found.end_components
    (11, 11, 1)
    >>> found.suspicions
    ()
    """
    if not isinstance(mdp, MDP):
        raise IncompatibleError(f"ca.inspect_model needs a ca.MDP, found {type(mdp).__name__}")
    mdp.require_transitions("inspecting")
    rows, used = mdp.transitions, mdp.allowed
    lengths = np.diff(rows.indptr)[used.ravel()]
    indptr, indices, _ = mdp.csr
    still = absorbing_states(indptr, indices, read_only_view(used).ravel(), mdp.n_states)
    components = components_of(mdp.csr[:2], mdp.allowed).number
    sizes = np.bincount(components[components >= 0])
    sizes = sizes[sizes > 0]
    arrays = (rows.data, rows.indices, rows.indptr, mdp.rewards, mdp.allowed, mdp.start, mdp.outcome_rewards)
    return Inspection(
        title="" if mdp.scene is None else mdp.scene.title,
        n_states=mdp.n_states,
        n_actions=mdp.n_actions,
        n_pairs=int(used.sum()),
        n_forbidden=int(used.size - used.sum()),
        n_transitions=int(rows.nnz),
        density=rows.nnz / (float(used.sum()) * mdp.n_states),
        megabytes=sum(array.nbytes for array in arrays if array is not None) / 1e6,
        discount=mdp.discount,
        n_start_states=int(np.count_nonzero(mdp.start)),
        n_reachable=int(mdp.visitable.sum()),
        n_absorbing=int(still.sum()),
        n_without_choice=int((used.sum(axis=1) == 1).sum()),
        end_components=sizes.size,
        largest_end_component=int(sizes.max(initial=0)),
        deterministic_share=float((lengths == 1).mean()),
        reward_range=mdp.reward_range,
        rewards_of="pairs" if mdp.outcome_rewards is None else "outcomes",
        suspicions=tuple(_suspicions(mdp, still)),
        **(_figures_of_log(mdp) if isinstance(mdp, LoggedMDP) else {}),
    )


def _figures_of_log(logged: LoggedMDP) -> dict[str, Any]:
    tried = np.where(logged.counts > 0, logged.counts, np.iinfo(logged.counts.dtype).max)
    state, action = divmod(int(np.argmin(tried)), logged.n_actions)
    states, actions = logged.state_names, logged.action_names
    least = (
        str(state) if states is None else states[state],
        str(action) if actions is None else actions[action],
        int(logged.counts[state, action]),
    )
    return {"n_rows": int(logged.counts.sum()), "least_tried": least, "rewards_seen": logged.rewards_seen}


def _suspicions(mdp: MDP, still: Mask) -> Iterator[str]:
    """What is probably a mistake, one sentence each."""
    unseen = ~mdp.visitable
    if unseen.any():
        yield f"{_some(mdp, unseen)} can never be reached from the start"
    if (mdp.allowed.sum(axis=1) == 1).all():
        yield "no state has a choice: there is only one policy"
    if np.all(still[mdp.start > 0]):
        yield "the start is absorbing: the model never moves"
    paying = still & (np.abs(mdp.rewards).max(axis=1) > 0)
    if paying.any() and not still.all():
        state = int(np.argmax(paying))
        paid = mdp.rewards[state][int(np.argmax(np.abs(mdp.rewards[state])))]
        yield f"{_some(mdp, paying)} cannot be left and pays for ever ({paid:g} per step there)"
    if LARGEST_PLAIN_DISCOUNT < mdp.discount < 1:
        yield f"the discount {mdp.discount!r} is within 1e-6 of one: rounding grows by {1 / (1 - mdp.discount):.1e}"
    if mdp.discount == 0:
        yield "the discount is 0: only the first reward counts"
    yield from _odd_numbers(mdp)
    yield from _duplicate_actions(mdp)


def _odd_numbers(mdp: MDP) -> Iterator[str]:
    if mdp.normalised:
        yield "rows of probabilities did not sum to one and were rescaled"
    low, high = mdp.reward_range
    if low == high:
        yield f"every reward is {low:g}: no policy is better than another"
    rows = mdp.transitions
    tiny = rows.data < TINY_PROBABILITY
    if tiny.any():
        at = int(np.argmax(tiny))
        row = int(np.searchsorted(rows.indptr, at, side="right")) - 1
        place = f"{mdp.state_label(row // mdp.n_actions)}, action {row % mdp.n_actions}"
        yield (
            f"{int(tiny.sum()):,} probabilities are below {TINY_PROBABILITY:g}, the first is {rows.data[at]:g} "
            f"({place}, to {mdp.state_label(int(rows.indices[at]))})"
        )
    paid = np.abs(mdp.rewards[mdp.allowed] if mdp.outcome_rewards is None else mdp.outcome_rewards)
    least, most = paid[paid > 0].min(initial=np.inf), paid.max(initial=0.0)
    if most > WILD_SCALES * least:
        yield f"rewards have very different sizes: {least:g} and {most:g}"


def _duplicate_actions(mdp: MDP) -> Iterator[str]:
    pay = np.empty(0) if mdp.outcome_rewards is None else mdp.outcome_rewards
    count = duplicate_actions(
        *mdp.csr,
        read_only_view(mdp.rewards).ravel(),
        read_only_view(pay),
        read_only_view(mdp.allowed).ravel(),
        mdp.n_states,
    )
    names = mdp.action_names or tuple(str(a) for a in range(mdp.n_actions))
    for a, b in np.argwhere(count == mdp.n_states):
        yield f"actions {names[a]} and {names[b]} do and pay the same in every state"


def _some(mdp: MDP, states: Mask) -> str:
    """How many states, and the first of them."""
    count, first = int(states.sum()), mdp.state_label(int(np.argmax(states)))
    return first if count == 1 else f"{count:,} of {mdp.n_states:,} states, such as {first},"
