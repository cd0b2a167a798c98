"""Tables of a Solution, an Evaluation or a Frontier: rows of text, for a terminal or a page."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from rich import box
from rich.markup import escape
from rich.table import Table as RichTable

from cautious.arrays import Array, Indices
from cautious.evaluation.evaluate import Evaluation
from cautious.models.horizons import AVERAGE
from cautious.models.tabular import MDP
from cautious.problem import Problem
from cautious.report.accuracy import shares_of_time, shown_objective, shown_return, shown_risk
from cautious.report.barriers import PLAIN_RISK, RiskFigure, requirements_of, risk_figure
from cautious.report.limit_words import bound_words, is_share, measure_words, shown_constraints, value_text
from cautious.report.over_steps import as_one_table
from cautious.report.return_drawing import is_drawable
from cautious.report.trade_off import NeutralComparison, Step
from cautious.report.words import (
    action_name,
    amount,
    is_learned,
    is_neutral,
    number,
    number_or_bounds,
    percent,
    source,
    state_name,
    unit_after,
)
from cautious.solution import Solution
from cautious.status import Status

# a number, "n/a", an infinity, a percentage such as "< 0.01 %", or nothing; "2 agents" is none
NUMBER_LIKE = r"(< )?-?([0-9][0-9,]*(\.[0-9]+)?(e[+-]?[0-9]+)?|∞)( %)?|n/a|"

# probability that must move before a policy counts as different in a state: less may be what a tolerance leaves open
MIN_POLICY_CHANGE = 0.01


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


def solution_table(solution: Solution) -> Table:
    """The figures of a solution."""

    def bound(value: float, digits: int) -> str:
        # a bound that samples did not give is not infinite but not known
        return "not known" if is_learned(solution) and not np.isfinite(value) else number(value, digits)

    figure = risk_figure([solution])
    risk_name = figure.name if figure.is_barrier else f"risk ({solution.risk_label})"
    risk_rows = [(risk_name, figure.text(figure.value(solution), 8)), ("caution", number(solution.caution))]
    rows = [
        ("status", solution.status.name),
        ("objective", number(shown_objective(solution), 8)),
        ("expected return", number(shown_return(solution), 8)),
        *([] if is_neutral(solution) else risk_rows),
        ("upper bound", bound(solution.upper_bound, 8)),
        ("gap", bound(solution.gap, 3)),
        ("proof", solution.certificate.kind),
        ("method", solution.method),
        ("seconds", number(solution.seconds, 3)),
    ]
    return Table("", ("figure", "value"), tuple(rows))


def evaluation_table(evaluation: Evaluation) -> Table:
    """Simulated and exact figures side by side."""
    rows = tuple(
        (name, number(simulated), "" if exact is None else number_or_bounds(exact))
        for name, simulated, exact in evaluation.table()
    )
    title = f"{evaluation.episodes:,} episodes of {evaluation.horizon:,} steps, seed {evaluation.seed}"
    return Table(title, ("figure", "simulated", "exact"), rows)


def quantile_of(evaluation: Evaluation, percent: int) -> float:
    """A quantile of the return as it is computed: the middle of its bounds."""
    assert evaluation.exact_returns is not None
    low, high = evaluation.exact_returns.quantile(percent / 100)
    return 0.5 * (low + high)


def frontier_table(frontier: Iterable[Solution], unit: str = "") -> Table:
    """One row per solution; at caution 0 too the risk is that of the policy, where its problem is known.

    ``unit`` follows the names of what is in units of reward. Of barriers the table shows what they are about, and no
    objective, which would hold the logarithm of a slack.
    """
    solutions = list(frontier)
    figure = risk_figure(solutions)
    rows = []
    for one in solutions:
        objective = () if figure.is_barrier else (number(shown_objective(one), 6),)
        cells = (number(one.caution), number(shown_return(one), 6), figure.text(figure.value(one)), *objective)
        rows.append((*cells, number(one.gap, 2), one.status.name))
    objective = () if figure.is_barrier else (f"objective{unit}",)
    figures = (f"expected return{unit}", figure.name if figure.is_barrier else "risk", *objective, f"gap{unit}")
    return Table("", ("caution", *figures, "status"), tuple(rows))


def steps_table(steps: Iterable[Step], unit: str, figure: RiskFigure = PLAIN_RISK) -> Table:
    """What each step of caution gives up and brings; ``unit`` follows the names of what is in units of reward."""
    rows = tuple(
        (
            f"{number(one.before.caution)} to {number(one.after.caution)}",
            number(one.given_up, 3),
            figure.text(one.removed, 3),
            number(figure.price(one.price), 3),
        )
        for one in steps
    )
    headers = ("caution", f"return given up{unit}", figure.change, f"return per {figure.one_unit}{unit}")
    return Table("", headers, rows)


def figures_table(solution: Solution, comparison: NeutralComparison | None) -> Table:
    """Mean and risk of the policy, next to the risk-neutral one; estimates where it was learned without a model."""
    kind, unit = "estimate" if comparison is None else source(solution), unit_after(solution.mdp)
    neutral_return = None if comparison is None else comparison.neutral_return
    neutral_risk = None if comparison is None else comparison.neutral_risk
    figure, risk = risk_figure([solution]), shown_risk(solution)
    figures: list[tuple[str, float | None, float | None]] = [
        (f"expected return ({kind}){unit}", shown_return(solution), neutral_return)
    ]
    if is_neutral(solution):
        if solution.problem is not None and risk is not None and not figure.is_barrier:
            figures.append((f"risk, which played no part: {solution.problem.risk_label}", risk, None))
    elif figure.is_barrier:
        other = None
        if comparison is not None and solution.problem is not None:
            other = figure.of(requirements_of(solution.problem, comparison.neutral_occupancy))
        scale, percent_sign = (100.0, ", %") if figure.is_share else (1.0, "")
        own = figure.value(solution)
        shown = [None if one is None else scale * one for one in (own, other)]
        figures.append((f"{figure.name} ({kind}){percent_sign}", shown[0], shown[1]))
    elif solution.status is not Status.INFEASIBLE:
        worth = None
        if neutral_return is not None and neutral_risk is not None:
            worth = neutral_return - solution.caution * neutral_risk
        figures.append((f"risk: {solution.risk_label} ({kind})", risk, neutral_risk))
        figures.append((f"objective: return - caution * risk ({kind}){unit}", shown_objective(solution), worth))
    if comparison is not None and solution.problem is not None:
        for row, there in zip(shown_constraints(solution), _limited(solution.problem, comparison), strict=True):
            scale, percent_sign = (100.0, ", %") if is_share(row) else (1.0, "")
            other = None if there is None else scale * there
            figures.append((f"{measure_words(row)} ({kind}){percent_sign}", scale * row.value, other))
    if comparison is not None:
        both = comparison.chosen, comparison.neutral
        own, other = (None if one.exact_variance is None else one.exact_variance**0.5 for one in both)
        what = "mean reward of a run" if solution.horizon == AVERAGE else "return"
        if own is not None:
            figures.append((f"standard deviation of the {what} ({kind}){unit}", own, other))
        computed = all(is_drawable(one.exact_returns) for one in both)
        for level in (5, 50, 95):
            name = f"{level} % quantile of the {what} ({'computed' if computed else 'simulated'}){unit}"
            ours, theirs = (quantile_of(one, level) if computed else one.quantiles[level] for one in both)
            figures.append((name, ours, theirs))
    if comparison is None or not comparison.is_other:
        return Table("", ("figure", "this policy"), tuple((name, number(one)) for name, one, _ in figures))
    rows = tuple((name, number(one), number(other)) for name, one, other in figures)
    return Table("", ("figure", "this policy", comparison.name), rows)


def _limited(problem: Problem, comparison: NeutralComparison) -> list[float | None]:
    """What the risk-neutral policy has of each thing that is limited; None where that was not computed."""
    returns = comparison.neutral.exact_returns
    values: list[float | None] = [
        limit.sign * float(limit.measure.value(comparison.neutral_occupancy)) for limit in problem.limits
    ]
    for risk in (term.risk.of for term in problem.parts.return_limits):
        # exponentials are not known here
        values.append(None if returns is None or risk.needs_exponentials else risk.interval(returns)[1])
    return values


def busiest_states(shares: Array, count: int) -> list[int]:
    """The ``count`` states with the largest shares (S,), largest first, none without; ties in the order of states."""
    order: Indices = np.argsort(-shares, kind="stable")
    return [int(state) for state in order[: min(count, int(np.count_nonzero(shares > 0)))]]


def busiest_table(solution: Solution, count: int = 10) -> Table:
    """Which states carry most of the occupancy, and what the policy does there."""
    shares, solution = shares_of_time(solution), as_one_table(solution)
    rows, running = [], 0.0
    for state in busiest_states(shares, count):
        running += float(shares[state])
        name, share = state_name(solution.mdp, state), percent(float(shares[state]))
        rows.append((name, share, percent(running), likeliest_actions(solution.mdp, solution.policy, state, 1)))
    return Table("", ("state", "share of time", "together", "main action"), tuple(rows))


def is_idle(mdp: MDP, policy: Array, state: int) -> bool:
    """Whether the action makes no difference: one action is taken, none leaves the state, all earn the same reward."""
    actions = np.flatnonzero(mdp.allowed[state])
    if actions.size < 2 or not mdp.known_transitions or policy[state].max() < 1 - 1e-9:
        return False
    stays = mdp.transitions[state * mdp.n_actions + actions][:, [state]].toarray()
    return bool(stays.min() > 1 - 1e-12 and np.ptp(mdp.rewards[state, actions]) == 0)


def likeliest_actions(mdp: MDP, policy: Array, state: int, count: int = 2) -> str:
    """The ``count`` likeliest actions of a policy (S, A) in a state with their shares; rare ones do not count."""
    if is_idle(mdp, policy, state):
        return "any"
    usable = policy[state][mdp.allowed[state]]
    if usable.size > 1 and np.ptp(usable) < 1e-9:
        return "any, equally likely"
    first, *others = np.argsort(-policy[state], kind="stable").tolist()
    if policy[state, first] >= 1 - MIN_POLICY_CHANGE:
        return action_name(mdp, first)
    notable = [first, *(action for action in others if policy[state, action] > MIN_POLICY_CHANGE)]
    shown = [f"{action_name(mdp, action)} ({100 * policy[state, action]:.0f} %)" for action in notable[:count]]
    return ", ".join(shown + ["others"] * (len(notable) > count))


def changed_states(comparison: NeutralComparison) -> list[int]:
    """Visited states whose choice of an action is not that of the risk-neutral policy, most visited first."""
    solution = comparison.solution
    other = np.abs(solution.policy - comparison.neutral_policy).sum(axis=1) / 2 > MIN_POLICY_CHANGE
    shares = shares_of_time(solution)
    order = np.argsort(-shares, kind="stable")
    both = (solution.policy, comparison.neutral_policy)
    candidates = [int(state) for state in order if other[state] and shares[state] > 0]
    return [state for state in candidates if not all(is_idle(solution.mdp, policy, state) for policy in both)]


def beside_table(solution: Solution, mixed: Solution, count: int, name: str = "this policy") -> Table:
    """What a deterministic policy does where the best one that mixes does something else, most visited states first."""
    shares = shares_of_time(mixed)
    other = np.abs(solution.policy - mixed.policy).sum(axis=1) / 2 > MIN_POLICY_CHANGE
    rows = tuple(
        (
            state_name(solution.mdp, state),
            likeliest_actions(solution.mdp, solution.policy, state),
            likeliest_actions(solution.mdp, mixed.policy, state),
        )
        for state in busiest_states(np.where(other, shares, 0.0), count)
    )
    return Table("", ("state", name, "policy that mixes"), rows)


def without_mixing_table(mixed: Solution, one: Solution) -> Table:
    """Return and limits of a policy that mixes actions and of one that does not."""
    rows = [("expected return", *(amount(shown_return(each), each.mdp) for each in (mixed, one)))]
    for a, b in zip(shown_constraints(mixed), shown_constraints(one), strict=True):
        values = (value_text(a), value_text(b))
        rows.append((bound_words(a), *values))
    return Table("", ("figure", "policy that mixes", "one action"), tuple(rows))


def changes_table(comparison: NeutralComparison, states: Sequence[int]) -> Table:
    """What is done in these states, here and by the risk-neutral policy."""
    solution = comparison.solution
    mass = shares_of_time(solution)
    rows = tuple(
        (
            state_name(solution.mdp, state),
            percent(float(mass[state])),
            likeliest_actions(solution.mdp, solution.policy, state),
            likeliest_actions(solution.mdp, comparison.neutral_policy, state),
        )
        for state in states
    )
    return Table("", ("state", "share of time", "this policy", comparison.name), rows)
