"""The work of Storm, in a process of its own: requests on standard input, answers on standard output, JSON lines.

    {"work": "build", "model": "csma2-2", "folder": ...}    builds a PRISM model that stormpy ships; writes model.umb
                                                           (Storm's own export) and the explicit files
    {"work": "best", "discount": 0.9, "direction": "max"}   max or min over policies of the discounted reward
    {"work": "limited", "discount": 0.9, "direction": "max", "unsafe": [...], "limit": 0.1}    at most this exposure
    {"work": "label", "name": "goal"}                       the states with a label
    {"work": "total", "direction": "max"}                   max or min of the undiscounted reward; "inf" without bound
    {"work": "total", "direction": "min", "ends": [...]}    the same over policies that come to these states
    {"work": "reach", "direction": "max", "goal": [...]}    max or min of the probability to come to these states
    {"work": "multi", "direction": "max", "goal": [...], "bound": ">=0.95"}    reward and such a probability together
    {"work": "read", "path": ...}                           the model of a UMB file that we wrote

Storm does not discount: rows are multiplied by gamma, and the rest goes to an absorbing state "dead".
"""

import json
import os
import sys
from pathlib import Path

import stormpy
import stormpy.io
from stormpy import datastructures, environments, examples, models

MODELS = Path(examples.__file__).parent / "files" / "mdp"
PRECISION = 1e-9


def build(name):
    program = stormpy.parse_prism_program(str(MODELS / f"{name}.nm"))
    return stormpy.build_model(program)


def rewards_of(model):
    """The reward of each choice of the only, or the first, reward structure; zeros if there is none."""
    paid = [0.0] * model.nr_choices
    for structure in list(model.reward_models.values())[:1]:
        first = model.transition_matrix.get_row_group_start
        for state in range(model.nr_states):
            for row in range(first(state), model.transition_matrix.get_row_group_end(state)):
                if structure.has_state_rewards:
                    paid[row] += structure.get_state_reward(state)
                if structure.has_state_action_rewards:
                    paid[row] += structure.get_state_action_reward(row)
                assert not structure.has_transition_rewards
    return paid


def choices(model):
    """(state, number of the choice, row) of every choice."""
    matrix = model.transition_matrix
    for state in range(model.nr_states):
        first = matrix.get_row_group_start(state)
        for row in range(first, matrix.get_row_group_end(state)):
            yield state, row - first, row


def write_explicit(model, folder):
    """The model as PRISM writes it (prism.tra) and as Storm reads it (storm.tra), straight from Storm's matrix."""
    matrix, paid, initial = model.transition_matrix, rewards_of(model), model.initial_states[0]
    lines, rewards = [], []
    for state, choice, row in choices(model):
        for entry in matrix.get_row(row):
            lines.append(f"{state} {choice} {entry.column} {entry.value!r}")
            if paid[row]:
                rewards.append(f"{state} {choice} {entry.column} {paid[row]!r}")
    sizes = f"{model.nr_states} {model.nr_choices}"
    texts = {
        "prism.tra": ["# Transitions (MDP)", f"{sizes} {len(lines)}", *lines],
        "prism.lab": ["# Labels", '0="init" 1="deadlock"', f"{initial}: 0"],
        "prism.trew": ['# Reward structure "r"', "# Transition rewards", f"{sizes} {len(rewards)}", *rewards],
        "storm.tra": ["mdp", *lines],
        "storm.lab": ["#DECLARATION", "init", "#END", f"{initial} init"],
        "storm.trew": rewards,
    }
    for name, content in texts.items():
        (Path(folder) / name).write_text("\n".join(content) + "\n")


def discounted(model, discount, unsafe=()):
    """The model with discounting as an end, with rewards "r" and, per step in the unsafe states, "e"."""
    matrix, paid, dead = model.transition_matrix, rewards_of(model), model.nr_states
    builder = datastructures.SparseMatrixBuilder[float](model.nr_choices + 1, dead + 1, 0, True, True, dead + 1)
    exposure, inside = [], set(unsafe)
    for state, choice, row in choices(model):
        if choice == 0:
            builder.new_row_group(row)
        for entry in matrix.get_row(row):
            builder.add_next_value(row, entry.column, discount * entry.value)
        builder.add_next_value(row, dead, 1 - discount)
        exposure.append(1.0 if state in inside else 0.0)
    builder.new_row_group(model.nr_choices)
    builder.add_next_value(model.nr_choices, dead, 1.0)
    labels = models.StateLabeling(dead + 1)
    for label, state in (("init", model.initial_states[0]), ("dead", dead)):
        labels.add_label(label)
        labels.add_label_to_state(label, state)
    structures = {
        name: models.SparseRewardModel[float](optional_state_action_reward_vector=[*values, 0.0])
        for name, values in (("r", paid), ("e", exposure))
    }
    return models.SparseMdp[float](models.SparseModelComponents[float](builder.build(), labels, structures))


def undiscounted(model, **states):
    """The model with rewards "r", and a label for each set of states."""
    labels = models.StateLabeling(model.nr_states)
    labels.add_label("init")
    labels.add_label_to_state("init", model.initial_states[0])
    for label, own in states.items():
        labels.add_label(label)
        for state in own:
            labels.add_label_to_state(label, state)
    paid = models.SparseRewardModel[float](optional_state_action_reward_vector=rewards_of(model))
    return models.SparseMdp[float](models.SparseModelComponents[float](model.transition_matrix, labels, {"r": paid}))


def sound(model, precision=PRECISION):
    environment = environments.default(model)
    settings = environment.solver().min_max()
    settings.precision = stormpy.Rational(precision)
    settings.relative_termination_criterion = True
    settings.maximal_number_of_iterations = 10**6
    return environment


def asked(model, query, environment):
    (one,) = stormpy.parse_properties(query)
    found = stormpy.model_checking(model, one, environment=environment)
    value = float(found.get_value(model.initial_states[0]))
    return value if abs(value) < float("inf") else "inf"


def total(model, direction, ends=None):
    made = undiscounted(model, end=ends or [])
    path = "C" if ends is None else 'F "end"'
    return asked(made, f'R{{"r"}}{direction}=? [{path}]', sound(made))


def reach(model, direction, goal):
    made = undiscounted(model, goal=goal)
    return asked(made, f'P{direction}=? [F "goal"]', sound(made))


def multi(model, direction, goal, bound):
    made = undiscounted(model, goal=goal)
    environment = stormpy.Environment()
    environment.modelchecker().multi().precision = stormpy.Rational(1e-9)
    environment.solver().min_max().precision = stormpy.Rational(1e-11)
    return asked(made, f'multi(R{{"r"}}{direction}=? [C], P{bound} [F "goal"])', environment)


def best(model, discount, direction):
    made = discounted(model, discount)
    # value iteration with sound bounds: policy iteration goes round in circles on the minimum of two_dice
    environment = environments.default(made)
    settings = environment.solver().min_max()
    settings.precision = stormpy.Rational(PRECISION)
    settings.relative_termination_criterion = True
    settings.maximal_number_of_iterations = 10**6
    (query,) = stormpy.parse_properties(f'R{{"r"}}{direction}=? [F "dead"]')
    return float(stormpy.model_checking(made, query, environment=environment).get_value(made.initial_states[0]))


def limited(model, discount, direction, unsafe, limit):
    made = discounted(model, discount, unsafe)
    environment = stormpy.Environment()
    environment.modelchecker().multi().precision = stormpy.Rational(1e-9)
    environment.solver().min_max().precision = stormpy.Rational(1e-11)
    (query,) = stormpy.parse_properties(f'multi(R{{"r"}}{direction}=? [F "dead"], R{{"e"}}<={limit!r} [F "dead"])')
    found = stormpy.model_checking(made, query, environment=environment)
    return float(found.get_value(made.initial_states[0]))


def main():
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)
        model = None
        for line in sys.stdin:
            request = json.loads(line)
            work = request["work"]
            if work == "build":
                model = build(request["model"])
                stormpy.io.export_to_umb(model, str(Path(request["folder"]) / "model.umb"))
                write_explicit(model, request["folder"])
                answer = [model.nr_states, model.nr_choices, model.nr_transitions]
            elif work == "best":
                answer = best(model, request["discount"], request["direction"])
            elif work == "label":
                answer = [int(state) for state in model.labeling.get_states(request["name"])]
            elif work == "total":
                answer = total(model, request["direction"], request.get("ends"))
            elif work == "reach":
                answer = reach(model, request["direction"], request["goal"])
            elif work == "multi":
                answer = multi(model, request["direction"], request["goal"], request["bound"])
            elif work == "limited":
                answer = limited(model, request["discount"], request["direction"], request["unsafe"], request["limit"])
            else:
                model = stormpy.build_model_from_umb(request["path"])
                answer = [model.nr_states, model.nr_choices, model.nr_transitions]
            answers.write(json.dumps(answer) + "\n")
            answers.flush()


if __name__ == "__main__":
    main()
