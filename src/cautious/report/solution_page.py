"""``write_report``: one self-contained HTML page about a Solution, for readers who did not run it.

Each section is a function that returns HTML, or an empty text when it has nothing to say.
"""

import dataclasses
import os

import numpy as np

from cautious.errors import CautiousError, InputError
from cautious.models.horizons import AVERAGE, TOTAL
from cautious.models.scene import END
from cautious.models.tabular import MDP
from cautious.problem import Problem
from cautious.regular_files import check_writable
from cautious.report import pieces, trade_off
from cautious.report.accuracy import shares_of_time, shown_return, shown_risk
from cautious.report.barriers import barrier_requirements, risk_figure
from cautious.report.canvas import require_matplotlib
from cautious.report.contributions import contributions, contributions_table
from cautious.report.groups import grouped
from cautious.report.over_steps import as_one_table
from cautious.report.plots import (
    plot_behaviour,
    plot_computed_returns,
    plot_graph,
    plot_history,
    plot_over_steps,
    plot_returns,
    plot_risk_map,
)
from cautious.report.reproduction_code import reproduction
from cautious.report.requirements import (
    constraints_table,
    outside_words,
    requirement_words,
    requirements_table,
)
from cautious.report.return_drawing import is_drawable, return_words_of, tail_level, threshold_words
from cautious.report.schedule import schedule_table, step_word
from cautious.report.sentences import answer_sentence, certificate_words, cost_of_one_action, problem_words, verdict
from cautious.report.text_tables import (
    beside_table,
    busiest_table,
    changed_states,
    changes_table,
    figures_table,
    steps_table,
    without_mixing_table,
)
from cautious.report.trade_off import NeutralComparison, compare_with_neutral
from cautious.report.words import (
    amount,
    fits_grid,
    has_only_barriers,
    is_counted,
    is_deterministic,
    is_mixed,
    is_neutral,
    is_of_return,
    number,
    percent,
    return_words,
    scene_of,
    source,
    time_steps,
    time_words,
    unit_after,
)
from cautious.report.writing import write_bytes
from cautious.runtime.interruption import leaving_at_once
from cautious.solution import Solution
from cautious.solvers.solve import Request, answer
from cautious.status import Status

MAX_RELATIVE_ROUNDING = 1e-12
MAX_CHANGES = 10
WITHOUT_MIXING = "With one action in every state"
LOW_QUANTILE = 5
STEPS_NOT_EPISODES = (
    "The worst episodes are worse than those of the {}: risks and limits look at where time is spent and at single "
    "steps, and promise nothing about whole episodes."
)
NO_MODEL = (
    "No model was counted: what needs one (episodes, the risk-neutral policy, which states carry the risk) is not on "
    "this page. Learn with method plug-in to have it."
)
NO_RISK_DATA = (
    "The risk of the risk-neutral policy is not known: this solution comes from a file, which does not keep the data "
    "of its risk. Write the page with problem=... to have it."
)


def write_report(
    solution: Solution,
    path: str | os.PathLike[str],
    *,
    problem: Problem | None = None,
    command: str | None = None,
) -> None:
    """Write a page about a solution: the problem, the answer, the proof, drawings, how to reproduce it.

    Parameters
    ----------
    solution
        What ``ca.solve`` or ``ca.learn`` returned.
    path
        Where to write; one file, nothing is loaded from elsewhere when it is opened.
    problem
        The problem of a solution that was loaded from a file. Without it the page says nothing about the risk of
        other policies.
    command
        A shell command that reproduces the run, shown beside the code.

    Raises
    ------
    InputError
        When ``problem`` is not the one this solution solves.
    """
    require_matplotlib()
    check_writable(path)
    known = solution if problem is None else _with_problem(solution, problem)
    with leaving_at_once():
        comparison = compare_with_neutral(known) if known.mdp.known_transitions else None
        every_step, known = known, as_one_table(known)
        sections = [
            _header(known, comparison),
            pieces.section("The problem", pieces.paragraphs([*problem_words(known), *requirement_words(known)])),
            _requirements(known),
            _constraints(known),
            _figures(known, comparison),
            _over_steps(every_step),
            _behaviour(known, comparison),
            _changes(comparison),
            _beside_mixing(every_step),
            _without_mixing(every_step),
            _contributions(known),
            _price_of_caution(known, comparison),
            _history(known),
            pieces.section("How sure is this", pieces.definitions(certificate_words(known))),
            pieces.section("How to reproduce it", pieces.code(reproduction(known, command))),
        ]
        content = pieces.document(scene_of(known.mdp).title, "\n".join(part for part in sections if part))
    write_bytes(path, content)


def _with_problem(solution: Solution, problem: Problem) -> Solution:
    """The solution with its problem, which must be the one it solves."""
    if not isinstance(problem, Problem):
        raise InputError(f"problem must be a ca.Problem, found {type(problem).__name__}")
    for name, asked, own in (
        ("caution", problem.caution, solution.caution),
        ("shape (S, A)", problem.mdp.shape, solution.mdp.shape),
        ("horizon", problem.mdp.horizon, solution.horizon),
    ):
        if asked != own:
            raise InputError(f"problem has the {name} {asked}; this solution is of a problem with {own}")
    if not _same_model(problem.mdp, solution.mdp):
        raise InputError("problem has another model than this solution: its transitions, rewards or start differ")
    if problem.is_of_return and problem.caution > 0:
        if problem.risk_label != solution.risk_label:
            raise InputError(f"problem has the risk {problem.risk_label}, but the solution has {solution.risk_label}")
        return dataclasses.replace(solution, problem=problem)
    there = problem.risk_value(solution.occupancy)
    if np.isfinite(solution.risk) and not np.isclose(there, solution.risk, rtol=1e-6, atol=1e-9):
        raise InputError(
            f"problem gives this policy the risk {there:.9g}, but the solution has {solution.risk:.9g} "
            f"({solution.risk_label}); give the problem it solves"
        )
    return dataclasses.replace(solution, problem=problem)


def _same_model(one: MDP, other: MDP) -> bool:
    """Whether two models of one shape are the same up to rounding; files keep every digit."""
    moves = abs(one.transitions - other.transitions).max()
    pairs = ((one.rewards, other.rewards), (one.start, other.start))
    return (
        one.discount == other.discount
        and moves <= MAX_RELATIVE_ROUNDING
        and all(np.allclose(a, b, rtol=MAX_RELATIVE_ROUNDING, atol=MAX_RELATIVE_ROUNDING) for a, b in pairs)
    )


def _header(solution: Solution, comparison: NeutralComparison | None) -> str:
    kind = "" if solution.horizon is None else f", {return_words(solution.mdp)}"
    facts = [(f"expected return{kind}", amount(shown_return(solution), solution.mdp))]
    if isinstance(solution.horizon, int) and solution.mdp.discount == 1:
        each = shown_return(solution) / solution.horizon
        facts.append((f"per {scene_of(solution.mdp).step or 'step'}", amount(each, solution.mdp)))
    if not is_neutral(solution):
        figure = risk_figure([solution])
        name = figure.name if figure.is_barrier else f"risk: {solution.risk_label}"
        facts += [(name, figure.text(figure.value(solution), 5)), ("caution", number(solution.caution))]
    if solution.status is not Status.INFEASIBLE:
        what = "first-order gap" if solution.certificate.kind == "stationary" else "gap to the best possible"
        facts.append((what, amount(solution.gap, solution.mdp, 2) if np.isfinite(solution.gap) else "not known"))
    text, good = answer_sentence(solution, comparison), solution.status is Status.SOLVED
    if words := cost_of_one_action(solution):
        text = f"{text} {words}"
    return pieces.header(scene_of(solution.mdp).title, verdict(solution), text, pieces.cards(facts), good=good)


def _constraints(solution: Solution) -> str:
    if not solution.constraints:
        return ""
    note = "What more room is worth is a bound: it adds no more than that to the objective."
    return pieces.section("The limits", pieces.table(constraints_table(solution)), pieces.paragraphs([note], "soft"))


def _requirements(solution: Solution) -> str:
    """What barrier risks require: the slack that is left, or why it cannot be met."""
    required = barrier_requirements(solution)
    table = pieces.table(requirements_table(required, solution.mdp)) if required else ""
    if solution.status is Status.INFEASIBLE:
        return pieces.section("What cannot be met", pieces.paragraphs([solution.certificate.statement]), table)
    outside = pieces.paragraphs(outside_words(solution), "soft")
    return pieces.section("How close the requirements are", table, outside) if required else ""


def _figures(solution: Solution, comparison: NeutralComparison | None) -> str:
    """Mean and risk, next to the risk-neutral policy."""
    table = pieces.table(figures_table(solution, comparison))
    if comparison is None:
        return pieces.section("This policy", table, pieces.paragraphs([NO_MODEL], "soft"))
    title = f"Next to the {comparison.name}" if comparison.is_other else "This policy"
    chosen, mdp = comparison.chosen, solution.mdp
    computed = "are computed from the model"
    if is_counted(solution):
        computed = "are those of the model that was counted, as if it were the true one"
    length = time_steps(f"{chosen.horizon:,}", mdp)
    if solution.horizon == TOTAL:
        length = f"at most {length}"
    simulated = f"Simulated ones come from {chosen.episodes:,} episodes of {length} (seed {chosen.seed})"
    if solution.horizon is None:
        simulated += f"; what lies beyond changes a return by at most {amount(chosen.truncation_error, mdp, 2)}"
    notes = [f"{source(solution).capitalize()} figures {computed}. {simulated}."]
    if not is_neutral(solution) and solution.problem is None:
        notes.append(NO_RISK_DATA)
    if (
        comparison.is_other
        and not is_of_return(solution)
        and solution.horizon != AVERAGE
        and chosen.quantiles[LOW_QUANTILE] < comparison.neutral.quantiles[LOW_QUANTILE]
    ):
        notes.insert(0, STEPS_NOT_EPISODES.format(comparison.name))
    return pieces.section(title, table, pieces.paragraphs(notes, "soft"))


def _over_steps(solution: Solution) -> str:
    """With a finite horizon: which action in which state at which step."""
    if not isinstance(solution.horizon, int):
        return ""
    word = step_word(solution.mdp)
    drawn = pieces.picture(
        lambda theme: plot_over_steps(solution, theme=theme),
        f"The main action of each state at each {word}, and the time spent in each state",
        f"Above, the main action of each state at each {word}; blank where the policy never is at that time. Below, "
        "the states it is in.",
    )
    note = "The sections below show all steps together: how often an action is taken, whenever that is."
    table = pieces.table(schedule_table(solution))
    return pieces.section("What is done when", drawn, table, pieces.paragraphs([note], "soft"))


def _behaviour(solution: Solution, comparison: NeutralComparison | None) -> str:
    """Which states the policy visits, what it does there, and what it earns."""
    on_map, groups, note = fits_grid(solution.mdp), grouped(solution), ""
    alt, caption = "Bars of the most visited states", "The states that are visited most."
    if groups is not None:
        visited, solution = int(np.count_nonzero(shares_of_time(solution))), groups.solution
        alt, caption = "Bars of the groups of states", "Where the time is spent, by groups of states."
        note = pieces.paragraphs([f"The policy visits {visited:,} states, shown here in groups. {groups.how}"])
    if on_map:
        alt = "Map of the visited cells with the policy's actions as arrows"
        caption = (
            f"Share of {time_words(solution.mdp)} per cell; walls are grey, cells with next to no visits are blank. "
            "Arrows show the actions of at least 10 %, longer where they are more likely."
        ) + _map_letters(solution.mdp)
    drawn = [pieces.picture(lambda theme: plot_behaviour(solution, theme=theme), alt, caption)]
    said = ""
    if comparison is not None and is_drawable(comparison.chosen.exact_returns):
        level, returns = tail_level(solution), comparison.chosen.exact_returns
        assert returns is not None
        drawn.append(
            pieces.picture(
                lambda theme: plot_computed_returns(comparison, level, theme=theme),
                "How the return of an episode is distributed, with mean, quantiles and the mean of the worst returns",
                "What single episodes earn, computed from the model.",
            )
        )
        words = [return_words_of(returns, level, unit_after(solution.mdp, " ")), threshold_words(solution, returns)]
        said = pieces.paragraphs([one for one in words if one])
    elif comparison is not None:
        drawn.append(
            pieces.picture(
                lambda theme: plot_returns(comparison, theme=theme),
                "Histogram of the returns of episodes",
                "What single episodes earn, simulated.",
            )
        )
    graph = ""
    if not on_map and solution.mdp.known_transitions:
        graph = pieces.picture(
            lambda theme: plot_graph(solution, theme=theme),
            "Graph of the most visited states and the transitions between them",
            "Where the policy leads. A box is a state, with its share of time (the filled part) and its main action; "
            "arrows are the likeliest transitions (up to three from each box, of at least 5 %), thicker where more of "
            "the time flows, down on the right and up on the left.",
        )
    table = pieces.table(busiest_table(solution))
    return pieces.section("What the policy does", note, pieces.figures(*drawn), said, pieces.beside(graph, table))


def _map_letters(mdp: MDP) -> str:
    """What the letters of a map are, as far as its model says."""
    scene = scene_of(mdp)
    marks = {scene.grid[row][column] for row, column in scene.cells}
    row, column = scene.cells[-1]
    text = " Letters are those of the map." if any(mark.isalnum() for mark in marks) else ""
    # a map that came from elsewhere has the state that was added below it, behind a wall
    if mdp.state_names is not None and mdp.state_names[-1] == END and set(scene.grid[row - 1]) == {"#"}:
        text += f" {scene.grid[row][column]}, below the map, is where the model stays once an episode has ended."
    return text


def _changes(comparison: NeutralComparison | None) -> str:
    """Where the policy does something else than the risk-neutral one."""
    if comparison is None or not comparison.is_other:
        return ""
    states = changed_states(comparison)
    if not states:
        words = f"Nothing: in every visited state it does what the {comparison.name} does."
        return pieces.section("What it does differently", pieces.paragraphs([words]))
    shares = shares_of_time(comparison.solution)
    words = (
        f"The policy differs in {len(states):,} of {np.count_nonzero(shares):,} visited states, where "
        f"{percent(float(shares[states].sum()))} of the time is spent."
    )
    if len(states) > MAX_CHANGES:
        words += f" The {MAX_CHANGES} most visited of them:"
    table = pieces.table(changes_table(comparison, states[:MAX_CHANGES]))
    return pieces.section("What it does differently", pieces.paragraphs([words]), table)


def _beside_mixing(solution: Solution) -> str:
    """Of a deterministic policy: where the best policy that may mix actions does something else."""
    if not is_deterministic(solution) or solution.problem is None or not np.isfinite(solution.objective):
        return ""
    mixed = answer(solution.problem, Request(time_limit_seconds=trade_off.NEIGHBOUR_SECONDS))
    if not np.isfinite(mixed.objective):
        return ""
    table = pieces.table(beside_table(as_one_table(solution), as_one_table(mixed), MAX_CHANGES))
    words = cost_of_one_action(solution)
    return pieces.section("Beside the policy that mixes actions", pieces.paragraphs([words]), table)


def _without_mixing(solution: Solution) -> str:
    """Of a policy that mixes actions to keep limits: the best one that takes one action in every state."""
    problem = solution.problem
    if problem is None or not solution.constraints or solution.status is not Status.SOLVED or not is_mixed(solution):
        return ""
    try:
        one = answer(problem, Request(time_limit_seconds=trade_off.NEIGHBOUR_SECONDS, deterministic=True))
    except CautiousError:
        # not every risk and memory has an answer of this kind
        return ""
    if one.status is Status.INFEASIBLE:
        words = "No policy that takes one action in every state keeps the limits."
        return pieces.section(WITHOUT_MIXING, pieces.paragraphs([words]))
    if not np.isfinite(one.objective):
        return ""
    words = "The best policy that keeps the limits and does not choose between actions at random."
    if one.status is not Status.SOLVED:
        words += f" It is the best one that was found in {trade_off.NEIGHBOUR_SECONDS:g} s."
    both = as_one_table(solution), as_one_table(one)
    tables = [
        pieces.table(without_mixing_table(*both)),
        pieces.table(beside_table(both[1], both[0], MAX_CHANGES, "one action")),
    ]
    return pieces.section(WITHOUT_MIXING, pieces.paragraphs([words]), *tables)


def _contributions(solution: Solution) -> str:
    """What each state adds to the risk."""
    # near its limit a barrier grows without bound: the slack says more
    found = None if has_only_barriers(solution) else contributions(solution)
    if found is None:
        return ""
    title, risk = "Which states carry the risk", number(shown_risk(solution))
    if not found.shown(solution).any():
        return pieces.section(title, pieces.paragraphs([f"No state adds to the risk, which is {risk}."]))
    words = [f"The contributions of all states add up to the risk, {risk}."]
    if solution.problem is not None:
        words[0] += (
            " The price is what one percentage point more time in a state, taken evenly from everywhere, would cost "
            f"through the risk, in units of return ({scene_of(solution.mdp).reward_unit}); a negative price is a gain."
        )
    words[0] += (
        " What a step pays is counted where the step begins. Listed first are the states that add most beyond their "
        "share of time."
    )
    if is_counted(solution):
        words.append("These figures are estimates, from the model that was counted.")
    drawn = ""
    if fits_grid(solution.mdp):
        drawn = pieces.picture(
            lambda theme: plot_risk_map(solution, found, theme=theme),
            "Map of the cells coloured by what they add to the risk",
            "Purple cells add to the risk, orange ones take away from it; walls are grey, cells with next to "
            "no visits are blank.",
        )
    table = pieces.table(contributions_table(solution, found))
    return pieces.section(title, pieces.paragraphs(words), pieces.beside(drawn, table))


def _price_of_caution(solution: Solution, comparison: NeutralComparison | None) -> str:
    """What one unit of caution buys."""
    # a unit of a barrier, which is a logarithm, says nothing: what it requires stands above
    here = None if is_neutral(solution) or has_only_barriers(solution) else trade_off.point(solution)
    if here is None or comparison is None:
        return ""
    unit = scene_of(solution.mdp).reward_unit
    words = [_price_words(solution, unit)]
    start = comparison.neutral_point
    if start is not None:
        words.append(_neutral_step_words(trade_off.Step(start, here), unit))
    why_not = trade_off.refusal(solution)
    near = trade_off.neighbours(solution) if why_not is None else []
    if why_not is None and len(near) < len(trade_off.NEIGHBOUR_FACTORS):
        why_not = f"A neighbouring caution was not solved within {trade_off.NEIGHBOUR_SECONDS:g} s."
    words += [] if why_not is None else [why_not]
    parts = [pieces.paragraphs(words)]
    if near:
        points = sorted([here, *near], key=lambda one: one.caution)
        note = (
            "Each row is the step between the best policies of two cautions, solved for this page. What it costs per "
            "unit of risk lies between the two cautions."
        )
        parts.append(pieces.table(steps_table(trade_off.steps([start, *points]), unit_after(solution.mdp))))
        parts.append(pieces.paragraphs([note], "soft"))
    return pieces.section("What one unit of caution buys", *parts)


def _price_words(solution: Solution, unit: str) -> str:
    price = number(solution.caution)
    if solution.status is not Status.SOLVED:
        return f"At this caution one unit of risk is worth {price} units of return ({unit})."
    risk = shown_risk(solution) or 0.0
    change = "not lower the best objective"
    if risk > 0:
        change = f"lower the best objective by at most the risk itself, {number(risk)}"
    elif risk < 0:
        change = f"raise the best objective by at least {number(-risk)}, because the risk is negative"
    return (
        f"Every policy with less risk gives up at least {price} units of return ({unit}) per unit of risk, and every "
        f"policy with more gains at most that. One unit of caution more would {change}."
    )


def _neutral_step_words(step: trade_off.Step, unit: str) -> str:
    if step.given_up == step.removed == 0:
        return "The risk-neutral policy has the same return and the same risk: this caution changes nothing."
    text = (
        f"Compared with the risk-neutral policy, this one gives up {number(step.given_up, 3)} of return ({unit}) for "
        f"{number(step.removed, 3)} less risk"
    )
    return f"{text}." if step.price is None else f"{text}: {number(step.price, 3)} per unit of risk."


def _history(solution: Solution) -> str:
    """How learning went, where more than its end is known: nothing is drawn from a log."""
    history = solution.history
    if history is None or np.count_nonzero(history.samples > 0) < 2:
        return ""
    drawn = pieces.picture(
        # one below the other, so that a phone can show them
        lambda theme: plot_history(history, columns=1, theme=theme),
        "The estimates against the number of samples drawn",
        "What was believed of the policy at each moment; all figures are estimates.",
    )
    return pieces.section("How it was learned", drawn)
