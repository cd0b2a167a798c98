"""Tables of a Solution, an Evaluation or a Frontier: rows of text, for a terminal or a page."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from rich import box
from rich.markup import escape
from rich.table import Table as RichTable

from cautious.arrays import Array
from cautious.evaluation.evaluate import Evaluation
from cautious.models.tabular import MDP
from cautious.report.accuracy import shares_of_time, shown_objective, shown_return, shown_risk, unsure_risk
from cautious.report.carriers import Carriers, largest, price
from cautious.report.neutral_comparison import Comparison
from cautious.report.trade import Step
from cautious.report.words import action_name, is_learned, is_neutral, number, percent, source, state_name, unit_after
from cautious.solution import Solution
from cautious.status import Status

# a number, "n/a", an infinity, a percentage such as "< 0.01 %", or nothing; "2 agents" is none
NUMBER_LIKE = r"(< )?-?([0-9][0-9,]*(\.[0-9]+)?(e[+-]?[0-9]+)?|∞)( %)?|n/a|"

# a policy does something else in a state where so much of its choices differs: less may be what a tolerance leaves open
NOTABLE = 0.01


@dataclass(frozen=True)
class Table:
    """Headers and rows of text; columns of numbers are right-aligned, the first and those of words left."""

    title: str
    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    @property
    def right(self) -> tuple[bool, ...]:
        """Which columns are numbers."""
        columns = range(len(self.headers))
        return tuple(i > 0 and all(re.fullmatch(NUMBER_LIKE, row[i]) for row in self.rows) for i in columns)

    def rich(self) -> RichTable:
        """For a terminal."""
        table = RichTable(title=escape(self.title) or None, title_justify="left", box=box.SIMPLE_HEAD)
        for index, (header, right) in enumerate(zip(self.headers, self.right, strict=True)):
            table.add_column(escape(header), justify="right" if right else "left", no_wrap=index == 0)
        for row in self.rows:
            table.add_row(*(escape(cell) for cell in row))
        return table


def solution_rows(solution: Solution) -> list[tuple[str, str]]:
    """The figures of a solution."""
    rows = [
        ("status", solution.status.name),
        ("objective", number(shown_objective(solution), 8)),
        ("expected return", number(shown_return(solution), 8)),
    ]
    if not is_neutral(solution):
        risk = number(shown_risk(solution), 8)
        rows += [(f"risk ({solution.risk_label})", risk), ("caution", number(solution.caution))]
    return [
        *rows,
        ("upper bound", _if_known(solution, solution.upper_bound, 8)),
        ("gap", _if_known(solution, solution.gap, 3)),
        ("proof", solution.certificate.kind),
        ("method", solution.method),
        ("seconds", number(solution.seconds, 3)),
    ]


def _if_known(solution: Solution, bound: float, digits: int) -> str:
    """A bound; where samples gave none it is not infinite but not known."""
    return "not known" if is_learned(solution) and not np.isfinite(bound) else number(bound, digits)


def solution_table(solution: Solution) -> Table:
    """The figures of a solution as a table."""
    return Table("", ("figure", "value"), tuple(solution_rows(solution)))


def evaluation_table(evaluation: Evaluation) -> Table:
    """Simulated and exact figures side by side."""
    rows = tuple(
        (name, number(simulated), "" if exact is None else number(exact))
        for name, simulated, exact in evaluation.table()
    )
    title = f"{evaluation.episodes:,} episodes of {evaluation.horizon:,} steps, seed {evaluation.seed}"
    return Table(title, ("figure", "simulated", "exact"), rows)


def frontier_table(frontier: Iterable[Solution], unit: str = "") -> Table:
    """One row per solution; at caution 0 too the risk is that of the policy, where its problem is known.

    ``unit`` follows the names of what is in units of reward.
    """
    rows = tuple(
        (
            number(one.caution),
            number(shown_return(one), 6),
            number(shown_risk(one), 6),
            number(shown_objective(one), 6),
            number(one.gap, 2),
            one.status.name,
        )
        for one in frontier
    )
    figures = (f"expected return{unit}", "risk", f"objective{unit}", f"gap{unit}")
    return Table("", ("caution", *figures, "status"), rows)


def steps_table(steps: Iterable[Step], unit: str = "") -> Table:
    """What each step of caution gives up and removes; ``unit`` follows the names of what is in units of reward."""
    rows = tuple(
        (
            f"{number(one.before.caution)} to {number(one.after.caution)}",
            number(one.given_up, 3),
            number(one.removed, 3),
            number(one.price, 3),
        )
        for one in steps
    )
    return Table("", ("caution", f"return given up{unit}", "risk removed", f"return per unit of risk{unit}"), rows)


def carriers_table(solution: Solution, found: Carriers, count: int = 10) -> Table:
    """The states that add most to the risk, and what a percentage point more time there would cost, where known."""
    mass, parts = solution.occupancy.sum(axis=1), settled_parts(solution, found)
    headers = ("state", "share of time", "contribution to the risk")
    states = largest(found, solution, count)
    rows = [
        (state_name(solution.mdp, state), percent(float(mass[state])), number(float(parts[state]), 4))
        for state in states
    ]
    if solution.problem is None:
        return Table("", headers, tuple(rows))
    prices = _clean(np.array([price(solution, state) for state in states]), solution.caution * unsure_risk(solution))
    priced = tuple((*row, number(float(cost), 3)) for row, cost in zip(rows, prices, strict=True))
    return Table("", (*headers, "price of a percentage point"), priced)


def settled_parts(solution: Solution, found: Carriers) -> Array:
    """What each state (S,) adds to the risk, 0 where that may be nothing."""
    return _clean(found.contributions, unsure_risk(solution))


def _clean(values: Array, unsure: float) -> Array:
    """What is unsure, or only rounding next to the largest, becomes 0."""
    largest_finite = np.abs(values[np.isfinite(values)]).max(initial=0.0)
    return np.where(np.abs(values) > max(unsure, 1e-9 * largest_finite), values, 0.0)


def estimates_table(solution: Solution) -> Table:
    """Mean and risk of a policy that was learned without a model."""
    unit = unit_after(solution.mdp)
    figures: list[tuple[str, float | None]] = [(f"expected return (estimate){unit}", shown_return(solution))]
    if not is_neutral(solution):
        figures.append((f"risk: {solution.risk_label} (estimate)", shown_risk(solution)))
        figures.append((f"objective: return - caution * risk (estimate){unit}", shown_objective(solution)))
    return Table("", ("figure", "this policy"), tuple((name, number(value)) for name, value in figures))


def comparison_table(comparison: Comparison) -> Table:
    """Mean and risk of the policy, next to the risk-neutral one."""
    solution, chosen, neutral = comparison.solution, comparison.chosen, comparison.neutral
    known, unit = source(solution), unit_after(solution.mdp)
    figures: list[tuple[str, float | None, float | None]] = [
        (f"expected return ({known}){unit}", shown_return(solution), comparison.neutral_return)
    ]
    if not is_neutral(solution) and solution.status is not Status.INFEASIBLE:
        figures.append((f"risk: {solution.risk_label} ({known})", shown_risk(solution), comparison.neutral_risk))
        worth = None
        if comparison.neutral_risk is not None:
            worth = comparison.neutral_return - solution.caution * comparison.neutral_risk
        figures.append((f"objective: return - caution * risk{unit}", shown_objective(solution), worth))
    figures.append((f"standard deviation of the return ({known}){unit}", _spread(chosen), _spread(neutral)))
    figures += [
        (f"{level} % quantile of the return (simulated){unit}", chosen.quantiles[level], neutral.quantiles[level])
        for level in (5, 50, 95)
    ]
    if is_neutral(solution):
        risk = shown_risk(solution)
        if risk is not None:
            assert solution.problem is not None
            figures.insert(1, (f"risk, which played no part: {solution.problem.risk_label}", risk, None))
        return Table("", ("figure", "this policy"), tuple((name, number(one)) for name, one, _ in figures))
    rows = tuple((name, number(one), number(other)) for name, one, other in figures)
    return Table("", ("figure", "this policy", "risk-neutral policy"), rows)


def busiest_states(shares: Array, count: int) -> Sequence[int]:
    """The ``count`` states with the largest shares (S,), largest first, none without; ties in the order of states."""
    count = min(count, int(np.count_nonzero(shares > 0)))
    candidates = np.argpartition(-shares, count - 1)[:count] if count < shares.size else np.arange(shares.size)
    order = np.lexsort((candidates, -shares[candidates]))
    return [int(state) for state in candidates[order][:count]]


def busiest_table(solution: Solution, count: int = 10) -> Table:
    """Which states carry most of the occupancy, and what the policy does there."""
    shares = shares_of_time(solution)
    rows, running = [], 0.0
    for state in busiest_states(shares, count):
        running += float(shares[state])
        name, share = state_name(solution.mdp, state), percent(float(shares[state]))
        rows.append((name, share, percent(running), doing(solution.mdp, solution.policy, state)))
    return Table("", ("state", "share of time", "together", "main action"), tuple(rows))


def is_idle(mdp: MDP, policy: Array, state: int) -> bool:
    """Whether a policy (S, A) takes one action in a state that none leaves, and all pay the same there."""
    actions = np.flatnonzero(mdp.allowed[state])
    if actions.size < 2 or not mdp.known_transitions or policy[state].max() < 1 - 1e-9:
        return False
    stays = mdp.transitions[state * mdp.n_actions + actions][:, [state]].toarray()
    return bool(stays.min() > 1 - 1e-12 and np.ptp(mdp.rewards[state, actions]) == 0)


def doing(mdp: MDP, policy: Array, state: int, count: int = 1) -> str:
    """The ``count`` likeliest actions of a policy (S, A) in a state, in words; after the first only notable ones."""
    if is_idle(mdp, policy, state):
        return "any"
    usable = policy[state][mdp.allowed[state]]
    if usable.size > 1 and np.ptp(usable) < 1e-9:
        return "any, equally likely"
    first, *others = np.argsort(-policy[state], kind="stable")[:count].tolist()
    shown = [first, *(action for action in others if policy[state, action] > NOTABLE)]
    chances = [percent(float(policy[state, action])).replace(".00 %", " %") for action in shown]
    return ", ".join(f"{action_name(mdp, action)} ({chance})" for action, chance in zip(shown, chances, strict=True))


def changed_states(comparison: Comparison) -> list[int]:
    """Visited states whose choice of an action is not that of the risk-neutral policy, most visited first."""
    solution = comparison.solution
    other = np.abs(solution.policy - comparison.neutral_policy).sum(axis=1) / 2 > NOTABLE
    shares = shares_of_time(solution)
    order = np.argsort(-shares, kind="stable")
    both = (solution.policy, comparison.neutral_policy)
    candidates = [int(state) for state in order if other[state] and shares[state] > 0]
    return [state for state in candidates if not all(is_idle(solution.mdp, policy, state) for policy in both)]


def changes_table(comparison: Comparison, states: Sequence[int]) -> Table:
    """What is done in these states, here and by the risk-neutral policy."""
    solution = comparison.solution
    mass = solution.occupancy.sum(axis=1)
    rows = tuple(
        (
            state_name(solution.mdp, state),
            percent(float(mass[state])),
            doing(solution.mdp, solution.policy, state, 2),
            doing(solution.mdp, comparison.neutral_policy, state, 2),
        )
        for state in states
    )
    return Table("", ("state", "share of time", "this policy", "risk-neutral policy"), rows)


def _spread(evaluation: Evaluation) -> float | None:
    return None if evaluation.exact_variance is None else float(np.sqrt(evaluation.exact_variance))
