"""The sections of a solution's page; one that has nothing to say is an empty text."""

import numpy as np

from cautious.models.scene import END
from cautious.models.tabular import MDP
from cautious.report import pieces, trade
from cautious.report.accuracy import shares_of_time, shown_risk
from cautious.report.carriers import barrier_requirements, carriers
from cautious.report.demands import outside_words, requirements_table
from cautious.report.neutral_comparison import Comparison
from cautious.report.plots import plot_behaviour, plot_graph, plot_history, plot_returns, plot_risk_map
from cautious.report.text_tables import (
    busiest_table,
    carriers_table,
    changed_states,
    changes_table,
    comparison_table,
    estimates_table,
    settled_parts,
    steps_table,
)
from cautious.report.words import (
    amount,
    fits_grid,
    is_counted,
    is_neutral,
    number,
    only_barriers,
    percent,
    scene_of,
    source,
    time_steps,
    unit_after,
)
from cautious.solution import Solution
from cautious.status import Status

MOST_CHANGES = 10
WORST = 5
STEPS_NOT_EPISODES = (
    "The worst episodes are worse than those of the risk-neutral policy: the risk looks at where time is spent and at "
    "single steps, and promises nothing about whole episodes."
)
NO_MODEL = (
    "No model was counted: what needs one (episodes, the risk-neutral policy, which states carry the risk) is not on "
    "this page. Learn with method plug-in to have it."
)


def conflict(solution: Solution) -> str:
    """What an infeasible problem asks for in vain."""
    if solution.status is not Status.INFEASIBLE:
        return ""
    demands = barrier_requirements(solution)
    table = pieces.table(requirements_table(demands, solution.mdp)) if demands else ""
    return pieces.section("What cannot be met", pieces.paragraphs([solution.certificate.statement]), table)


def figures_of(solution: Solution, comparison: Comparison | None) -> str:
    """Mean and risk, next to the risk-neutral policy."""
    if comparison is None:
        return pieces.section(
            "This policy", pieces.table(estimates_table(solution)), pieces.paragraphs([NO_MODEL], "soft")
        )
    title = "This policy" if is_neutral(solution) else "Next to the risk-neutral policy"
    notes = [_episodes(comparison)]
    if not is_neutral(solution) and solution.problem is None:
        notes.append(
            "The risk of the risk-neutral policy is not known: this solution comes from a file, which does not keep "
            "the data of its risk. Write the page with problem=... to have it."
        )
    if comparison.chosen.quantiles[WORST] < comparison.neutral.quantiles[WORST]:
        notes.insert(0, STEPS_NOT_EPISODES)
    return pieces.section(title, pieces.table(comparison_table(comparison)), pieces.paragraphs(notes, "soft"))


def _episodes(comparison: Comparison) -> str:
    one = comparison.chosen
    length = time_steps(f"{one.horizon:,}", comparison.solution.mdp)
    computed = "are computed from the model"
    if is_counted(comparison.solution):
        computed = "are those of the model that was counted, as if it were the true one"
    return (
        f"{source(comparison.solution).capitalize()} figures {computed}. Simulated ones come from "
        f"{one.episodes:,} episodes of {length} (seed {one.seed}); what lies beyond changes a return by "
        f"at most {amount(one.truncation_error, comparison.solution.mdp, 2)}."
    )


def changes(comparison: Comparison | None) -> str:
    """Where the policy does something else than the risk-neutral one."""
    if comparison is None or is_neutral(comparison.solution):
        return ""
    states = changed_states(comparison)
    shares = shares_of_time(comparison.solution)
    visited, share = int(np.count_nonzero(shares)), float(shares[states].sum())
    words = (
        f"The policy differs in {len(states):,} of {visited:,} visited states, where {percent(share)} of the time is "
        "spent."
        if states
        else "Nothing: in every visited state it does what the risk-neutral policy does."
    )
    if len(states) > MOST_CHANGES:
        words += f" The {MOST_CHANGES} most visited of them:"
    shown = [pieces.table(changes_table(comparison, states[:MOST_CHANGES]))] if states else []
    return pieces.section("What it does differently", pieces.paragraphs([words]), *shown)


def behaviour(solution: Solution, comparison: Comparison | None) -> str:
    """Where the policy goes, what it does there, and what it earns."""
    drawn = [_visits(solution), *([] if comparison is None else [_returns(comparison)])]
    graph = "" if fits_grid(solution.mdp) or not solution.mdp.known_transitions else _graph(solution)
    table = pieces.table(busiest_table(solution))
    return pieces.section("What the policy does", pieces.figures(*drawn), pieces.beside(graph, table))


def _visits(solution: Solution) -> str:
    alt, caption = "Bars of the most visited states", "The states that are visited most."
    if fits_grid(solution.mdp):
        alt = "Map of the visited cells with the policy's actions as arrows"
        caption = (
            "Share of discounted time per cell; walls are grey, cells with next to no visits are blank. Arrows show "
            "the actions of at least 10 %, longer where they are more likely."
        )
        caption += _marks(solution.mdp)
    return pieces.picture(lambda theme: plot_behaviour(solution, theme=theme), alt, caption)


def _marks(mdp: MDP) -> str:
    """What the letters of a map are, as far as its model says."""
    scene = scene_of(mdp)
    marks = {scene.grid[row][column] for row, column in scene.cells}
    row, column = scene.cells[-1]
    text = " Letters are those of the map." if any(mark.isalnum() for mark in marks) else ""
    # a map that came from elsewhere has the state that was added below it, behind a wall
    if mdp.state_names is not None and mdp.state_names[-1] == END and set(scene.grid[row - 1]) == {"#"}:
        text += f" {scene.grid[row][column]}, below the map, is where the model stays once an episode has ended."
    return text


def _graph(solution: Solution) -> str:
    caption = (
        "Where the policy leads. A box is a state, with its share of time (the filled part) and its main action; "
        "arrows are the likeliest transitions (up to three from each box, of at least 5 %), thicker where more of the "
        "time flows, down on the right and up on the left."
    )
    alt = "Graph of the most visited states and the transitions between them"
    return pieces.picture(lambda theme: plot_graph(solution, theme=theme), alt, caption)


def _returns(comparison: Comparison) -> str:
    return pieces.picture(
        lambda theme: plot_returns(comparison, theme=theme),
        "Histogram of the returns of episodes",
        "What single episodes earn, simulated.",
    )


def carried(solution: Solution) -> str:
    """Which states carry the risk."""
    # near its limit a barrier grows without bound: what is left of the limit says more
    found = None if only_barriers(solution.risk_label) else carriers(solution)
    if found is None:
        return ""
    if not settled_parts(solution, found).any():
        nobody = f"No state adds to the risk, which is {number(shown_risk(solution))}."
        return pieces.section("Which states carry the risk", pieces.paragraphs([nobody]))
    unit = scene_of(solution.mdp).reward_unit
    words = [f"The contributions of all states add up to the risk, {number(shown_risk(solution))}."]
    if solution.problem is not None:
        words[0] += (
            " The price is what one percentage point more time in a state, taken evenly from everywhere, would cost "
            f"through the risk, in units of return ({unit}); a negative price is a gain."
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
    table = pieces.table(carriers_table(solution, found))
    return pieces.section("Which states carry the risk", pieces.paragraphs(words), pieces.beside(drawn, table))


def requirements(solution: Solution) -> str:
    """What barrier risks demand, and the slack that is left."""
    demands = barrier_requirements(solution)
    if not demands or solution.status is Status.INFEASIBLE:
        return ""
    table = pieces.table(requirements_table(demands, solution.mdp))
    return pieces.section("How close the requirements are", table, pieces.paragraphs(outside_words(solution), "soft"))


def price_of_caution(solution: Solution, comparison: Comparison | None) -> str:
    """What one unit of caution buys."""
    here = None if is_neutral(solution) else trade.point(solution)
    if here is None or comparison is None:
        return ""
    unit = scene_of(solution.mdp).reward_unit
    words = [_worth(solution, unit)]
    start = comparison.neutral_point
    if start is not None:
        words.append(_bought(trade.Step(start, here), unit))
    why_not = trade.refusal(solution)
    near = trade.neighbours(solution) if why_not is None else []
    if why_not is None and len(near) < len(trade.FACTORS):
        why_not = f"A neighbouring caution was not solved within {trade.NEIGHBOUR_SECONDS:g} s."
    words += [] if why_not is None else [why_not]
    if not near:
        return pieces.section("What one unit of caution buys", pieces.paragraphs(words))
    points = sorted([here, *near], key=lambda one: one.caution)
    table = pieces.table(steps_table(trade.steps([start, *points]), unit_after(solution.mdp)))
    note = (
        "Each row is the step between the best policies of two cautions, solved for this page. What it costs per unit "
        "of risk lies between the two cautions."
    )
    return pieces.section(
        "What one unit of caution buys", pieces.paragraphs(words), table, pieces.paragraphs([note], "soft")
    )


def _worth(solution: Solution, unit: str) -> str:
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


def _bought(step: trade.Step, unit: str) -> str:
    if step.given_up == step.removed == 0:
        return "The risk-neutral policy has the same return and the same risk: this caution changes nothing."
    text = (
        f"Compared with the risk-neutral policy, this one gives up {number(step.given_up, 3)} of return ({unit}) for "
        f"{number(step.removed, 3)} less risk"
    )
    return f"{text}." if step.price is None else f"{text}: {number(step.price, 3)} per unit of risk."


def course(solution: Solution) -> str:
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
