"""Explicit files as PRISM and Storm write them, and as nobody should."""

import numpy as np
import pytest

import cautious as ca

PRISM = {
    ".tra": """# Transitions (MDP)
3 4 6
0 0 1 0.25 east
0 0 2 0.75 east
0 1 0 1 stay
1 0 0 0.5 east
1 0 1 0.5 east
2 0 2 1 stay
""",
    ".lab": '# Labels\n0="init" 1="deadlock" 2="goal"\n0: 0\n2: 1 2\n',
    ".srew": '# Reward structure "time"\n# State rewards\n3 2\n0 2.5\n1 1\n',
    ".trew": '# Reward structure "time"\n# Transition rewards\n3 4 2\n0 0 2 10\n1 0 0 3\n',
}
STORM = {
    ".tra": "mdp\n" + "\n".join(PRISM[".tra"].splitlines()[2:]) + "\n",
    ".lab": "#DECLARATION\ninit deadlock goal\n#END\n0 init\n2 deadlock goal\n",
    ".srew": "0 2.5\n1 1\n",
    ".trew": "0 0 2 10\n1 0 0 3\n",
}
DENSE = np.array(
    [[[0, 0.25, 0.75], [1, 0, 0]], [[0.5, 0.5, 0], [0, 0, 0]], [[0, 0, 0], [0, 0, 1]]],
)
PAID = np.array([[[0, 2.5, 12.5], [2.5, 0, 0]], [[4, 1, 0], [0, 0, 0]], [[0, 0, 0], [0, 0, 0]]])


def write(folder, parts, stem="model"):
    for suffix, text in parts.items():
        (folder / f"{stem}{suffix}").write_text(text)
    return folder / f"{stem}.tra"


@pytest.mark.parametrize("parts", [PRISM, STORM], ids=["PRISM", "Storm"])
@pytest.mark.parametrize("ends", ["\n", "\r\n"], ids=["lf", "crlf"])
def test_both_tools(tmp_path, parts, ends):
    path = write(tmp_path, {suffix: text.replace("\n", ends) for suffix, text in parts.items()})
    mdp = ca.read_model(path, discount=0.9)
    assert mdp.action_names == ("east", "stay")
    assert np.array_equal(mdp.transitions.toarray().reshape(3, 2, 3), DENSE)
    assert np.array_equal(mdp.allowed, [[1, 1], [1, 0], [0, 1]])
    assert np.array_equal(mdp.start, [1, 0, 0])
    assert np.allclose(mdp.rewards, (DENSE * PAID).sum(axis=2), rtol=0, atol=1e-15)
    assert np.array_equal(mdp.outcome_rewards, [2.5, 12.5, 2.5, 4, 1, 0])
    labels = ca.read_labels(path)
    assert {name: mask.nonzero()[0].tolist() for name, mask in labels.items()} == {
        "init": [0],
        "deadlock": [2],
        "goal": [2],
    }


def test_words_that_are_not_actions_everywhere(tmp_path):
    """A word missing, or twice in a state: actions are the numbers of the choices."""
    for changed in (PRISM[".tra"].replace(" stay", ""), PRISM[".tra"].replace("stay", "east")):
        mdp = ca.read_model(write(tmp_path, PRISM | {".tra": changed}), discount=0.9)
        assert mdp.action_names is None
        assert np.array_equal(mdp.allowed, [[1, 1], [1, 0], [1, 0]])


def test_lines_in_any_order(tmp_path):
    lines = PRISM[".tra"].splitlines()
    mixed = "\n".join([*lines[:2], *reversed(lines[2:])])
    one = ca.read_model(write(tmp_path, PRISM), discount=0.9)
    two = ca.read_model(write(tmp_path, PRISM | {".tra": mixed}, "mixed"), discount=0.9)
    assert np.array_equal(
        two.transitions.toarray().reshape(3, 2, 3)[:, ::-1], one.transitions.toarray().reshape(3, 2, 3)
    )
    assert np.array_equal(two.rewards[:, ::-1], one.rewards)


def test_a_chain_is_a_model_with_one_action(tmp_path):
    for text in ("2 3\n0 0 0.5\n0 1 0.5\n1 1 1\n", "dtmc\n0 0 1/2\n0 1 1/2\n1 1 1\n"):
        mdp = ca.read_model(write(tmp_path, {".tra": text, ".trew": "0 1 4\n"}), discount=0.5, start=0)
        assert mdp.shape == (2, 1)
        assert np.array_equal(mdp.outcome_rewards, [0, 4, 0])


def test_names_from_variables(tmp_path):
    path = write(tmp_path, PRISM | {".sta": "(x,ready)\n0:(0,false)\n1:(1,false)\n2:(1,true)\n"})
    mdp = ca.read_model(path, discount=0.9, start="x=0,ready=false")
    assert mdp.state_names == ("x=0,ready=false", "x=1,ready=false", "x=1,ready=true")


def test_several_reward_structures(tmp_path):
    parts = {suffix: PRISM[suffix] for suffix in (".tra", ".lab")}
    path = write(tmp_path, parts)
    (tmp_path / "model1.srew").write_text(PRISM[".srew"])
    (tmp_path / "model2.srew").write_text(PRISM[".srew"].replace("time", "energy").replace("2.5", "7"))
    with pytest.raises(ca.InputError, match=r"give reward= one of \['time', 'energy'\]"):
        ca.read_model(path, discount=0.9)
    assert ca.read_model(path, discount=0.9, reward="energy").rewards[0, 0] == 7
    with pytest.raises(ca.InputError, match=r"reward='fuel' is none of .*\['time', 'energy'\]"):
        ca.read_model(path, discount=0.9, reward="fuel")


def test_what_is_missing_is_asked_for(tmp_path):
    path = write(tmp_path, {".tra": PRISM[".tra"]})
    with pytest.raises(ca.InputError, match=r"does not hold a discount; give one, as in discount=0\.95"):
        ca.read_model(path)
    with pytest.raises(ca.InputError, match=r"model\.lab with the label init is not beside it; give .* start=0"):
        ca.read_model(path, discount=0.9)
    assert ca.read_model(path, discount=0.9, start=1).start[1] == 1
    write(tmp_path, {".lab": '0="init"\n0: 0\n1: 0\n'})
    with pytest.raises(ca.InputError, match=r"model\.lab marks 2 states as initial, not one"):
        ca.read_model(path, discount=0.9)
    assert ca.read_model(path, discount=0.9, start=[0.5, 0.5, 0]).start[1] == 0.5


def test_rows_rounded_by_the_writer_need_a_word(tmp_path):
    path = write(tmp_path, PRISM | {".tra": PRISM[".tra"].replace("0.25", "0.249999")})
    with pytest.raises(ca.FileError, match=r"sums to 0\.999999.*normalise=True"):
        ca.read_model(path, discount=0.9)
    assert ca.read_model(path, discount=0.9, normalise=True).normalised


BAD = {
    "empty": (".tra", None, "", "model.tra: empty"),
    "no lines": (".tra", None, "3 4 6\n", "no transitions"),
    "a strange header": (".tra", "3 4 6", "STATES 3", r"line 2: expected the numbers of states"),
    "another kind": (".tra", "(MDP)", "(CTMC)", r"line 1: holds a model of kind 'CTMC'"),
    "few numbers": (".tra", "0 1 0 1 stay", "0 1 0", r"line 5: expected state, choice, .* found '0 1 0'"),
    "many words": (".tra", "0 1 0 1 stay", "0 1 0 1 stay now", r"line 5: .* found '0 1 0 1 stay now'"),
    "a letter": (".tra", "0 1 0 1 stay", "0 x 0 1 stay", r"line 5: .* found '0 x 0 1 stay'"),
    "a negative state": (".tra", "0 1 0 1 stay", "-1 1 0 1 stay", r"line 5: .* found '-1 1 0 1 stay'"),
    "a probability of words": (".tra", "0.25", "0.2.5", r"line 3: .* found the number '0\.2\.5'"),
    "an interval": (".tra", "0.25", "[0.2,0.3]", r"line 3: .* found '0 0 1 \[0\.2,0\.3\] east'"),
    "not a number": (".tra", "0.25", "nan", r"line 3"),
    "too likely": (".tra", "0.25", "1.25", r"line 3: the probability is 1\.25; expected 0 to 1"),
    "negative": (".tra", "0.25", "-0.25", r"line 3: the probability is -0\.25; expected 0 to 1"),
    "row form": (".tra", "0 0 1 0.25 east", "0 0.25:1 0.75:2 east", r"line 3: expected state, choice"),
    "a state too many": (".tra", "2 0 2 1 stay", "3 0 2 1 stay", r"line 8: the state is 3; expected 0 to 2"),
    "a next state too many": (".tra", "2 0 2 1 stay", "2 0 7 1 stay", r"line 8: the next state is 7; expected 0 to 2"),
    "a lie about states": (".tra", "3 4 6", "1000000000 4 6", "1000000000 states but only 6 transitions"),
    "a huge choice": (".tra", "0 1 0 1 stay", "0 2000000000 0 1", "too many pairs"),
    "a state without lines": (".tra", "2 0 2 1 stay", "0 1 2 0 stay", "state 2 has no transition"),
    "a sum": (".tra", "0.75", "0.5", r"state 0, action .east.\) sums to 0\.75"),
    "NUL": (".tra", "0.25", "0.\x005", r"line 3: expected state"),
    "labels of words": (".lab", "0: 0", "zero: 0", r"line 3: expected a state from 0 to 2, found 'zero'"),
    "a label too many": (".lab", "2: 1 2", "2: 1 5", r"line 4: the label '5' is not declared"),
    "a label for nobody": (".lab", "2: 1 2", "9: 1", r"line 4: expected a state from 0 to 2, found '9'"),
    "no labels": (".lab", None, "# nothing\n", "no labels are declared"),
    "a bad declaration": (".lab", '0="init"', "0=init", "expected labels such as"),
    "a reward for nobody": (".srew", "1 1", "8 1", r"line 5: the state is 8; expected 0 to 2"),
    "two rewards": (".srew", "1 1", "0 1", r"line 5: a second reward for the same"),
    "a reward without a transition": (".trew", "0 0 2 10", "0 0 0 10", r"line 4: a reward for a transition that"),
    "a reward for another choice": (".trew", "0 0 2 10", "0 5 2 10", r"line 4: the choice is 5; expected 0 to 1"),
    "other sizes": (".trew", "3 4 2", "5 4 2", r"line 3: claims 5 states, the model has 3"),
}


@pytest.mark.parametrize("name", BAD)
def test_errors_name_file_and_line(tmp_path, name):
    suffix, old, new, message = BAD[name]
    text = new if old is None else PRISM[suffix].replace(old, new)
    assert text != PRISM[suffix]
    path = write(tmp_path, PRISM | {suffix: text})
    with pytest.raises(ca.FileError, match=message) as caught:
        ca.read_model(path, discount=0.9)
    assert f"model{suffix}" in str(caught.value) or "model.tra" in str(caught.value)


def test_wrong_utf8(tmp_path):
    path = write(tmp_path, PRISM)
    for part in (b"east", b"Transitions"):
        path.write_bytes(PRISM[".tra"].encode().replace(part, b"\xff\xfe"))
        with pytest.raises(ca.FileError, match="UTF-8"):
            ca.read_model(path, discount=0.9)
