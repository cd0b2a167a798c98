"""The words of a problem file: those that reports use, and those that people use for ours."""

import pytest

import cautious as ca
from cautious.problem_files.keys import PLACES, SYNONYMS, TOP
from cautious.problem_files.model_entries import SOURCES, WORDS, holds_transitions
from cautious.problem_files.reading import read_problem
from cautious.risks.public import PUBLIC_RISKS

MODEL = '[model]\nworld = "river_swim"\n'


def write(folder, text):
    path = folder / "problem.toml"
    path.write_text(text, "utf-8")
    return path


def test_words_for_reports_stand_in_the_model(tmp_path):
    words = 'title = "Feed pumps"\nstory = "Two of them."\nstep = "week"\nreward_unit = "euros"\n'
    scene = read_problem(write(tmp_path, f"{MODEL}{words}")).mdp.scene
    assert (scene.title, scene.story, scene.step, scene.reward_unit) == ("Feed pumps", "Two of them.", "week", "euros")
    # what is not said stays as the world has it
    own = ca.worlds.river_swim().scene
    only = read_problem(write(tmp_path, f'{MODEL}step = "hour"\n')).mdp.scene
    assert (only.title, only.step, only.reward_unit) == (own.title, "hour", own.reward_unit)
    maze = read_problem(write(tmp_path, '[model]\nworld = "maze"\ntitle = "Ours"\n')).mdp.scene
    assert (maze.title, maze.grid) == ("Ours", ca.worlds.maze().scene.grid)


def test_a_model_without_a_title_is_called_as_its_file(tmp_path):
    (tmp_path / "care-path.csv").write_text("state,action,next_state,probability,reward\nx,go,x,1,2\n")
    found = read_problem(write(tmp_path, '[model]\nfile = "care-path.csv"\ndiscount = 0.5\nreward_unit = "days"\n'))
    assert (found.mdp.scene.title, found.mdp.scene.reward_unit) == ("care-path", "days")
    (tmp_path / "visits.csv").write_text("state,action,reward,next_state\n0,go,2,1\n1,go,0,0\n")
    assert (
        read_problem(write(tmp_path, '[model]\ntransitions = "visits.csv"\ndiscount = 0.5\n')).mdp.scene.title
        == "visits"
    )
    # a file that has a title of its own keeps it
    swim = ca.worlds.river_swim()
    swim.save(tmp_path / "other.npz")
    assert read_problem(write(tmp_path, '[model]\nfile = "other.npz"\n')).mdp.scene == swim.scene


def test_every_place_and_every_synonym_leads_to_a_key():
    places = {"in [model]": {*SOURCES, *(key for keys in SOURCES.values() for key in keys), *WORDS}}
    places["in [risk]"] = {
        "kind",
        "weight",
        *(field for kind in PUBLIC_RISKS.values() for field in kind.fields_in_files),
    }
    places[TOP] = {"caution", "deterministic", "horizon", "memory", "model", "risk"}
    for key, place in PLACES.items():
        assert key in places[place]
    every = set().union(*places.values(), PUBLIC_RISKS)
    for word, meant in SYNONYMS.items():
        assert set(meant) <= every
        assert word == word.lower()


REFUSED = {
    "names": (
        '[model]\ntransitions = "x.csv"\ndiscount = 0.9\nnames = { state = "s" }\n',
        r"unknown key 'names'; did you mean 'columns'\? allowed: world",
    ),
    "gamma": ('[model]\nfile = "x.csv"\ngamma = 0.9\n', r"unknown key 'gamma'; did you mean 'discount'\?"),
    "lambda": ("lambda = 1\n" + MODEL, r"unknown key 'lambda'; did you mean 'caution'\?"),
    "model in the model": ('[model]\nmodel = "maze"\n', r"unknown key 'model'; did you mean 'world'\?"),
    "log": ('[model]\nlog = "maze"\n', r"unknown key 'log'; did you mean 'transitions'\?"),
    "unit": (MODEL + 'unit = "euros"\n', r"unknown key 'unit'; did you mean 'reward_unit'\?"),
    "type of a risk": (MODEL + '[risk]\ntype = "CVaR"\n', r"unknown key 'type'; did you mean 'kind'\?"),
    "alpha": (MODEL + '[risk]\nkind = "CVaR"\nalpha = 0.9\n', r"unknown key 'alpha'; did you mean 'level'\?"),
    "beginning of a kind": (MODEL + '[risk]\nkind = "peak"\n', r"kind is 'peak'; did you mean 'PeakExposure'\?"),
    "short name of a kind": (MODEL + '[risk]\nkind = "tv"\n', r"kind is 'tv'; did you mean 'TotalVariation'\?"),
    "caution too late": (
        MODEL + "caution = 2.0\n",
        r"\[model\] has an unknown key 'caution'; it belongs at the top of the file, above \[model\]; allowed: world",
    ),
    "caution later still": (
        MODEL + '[risk]\nkind = "Entropy"\ncaution = 2.0\n',
        r"unknown key 'caution'; it belongs at the top of the file",
    ),
    "discount too early": ("discount = 0.9\n" + MODEL, r"unknown key 'discount'; it belongs in \[model\]"),
    "risk too early": (MODEL + "slack = 0.1\n", r"unknown key 'slack'; it belongs in \[risk\]"),
    "title is a number": (MODEL + "title = 3\n", r"\[model\] title must be text, found 3"),
    "empty unit": (MODEL + 'reward_unit = ""\n', r"\[model\] reward_unit must be text, found ''"),
    "risk in the model": (
        MODEL + 'risk = "Variance"\n',
        r"unknown key 'risk'; it belongs in a table of its own, \[risk\]",
    ),
    "two risks": (
        MODEL + '[risk]\nkind = "Variance"\n[risk]\nkind = "Entropy"\n',
        r"not valid TOML: .*twice.*; for a sum of risks write \[\[risk\]\] above each",
    ),
    "two models": (MODEL + MODEL, r"not valid TOML: [^;]*twice[^;]*$"),
    "decimal comma": ("caution = -1,05 # high\n" + MODEL, r"not valid TOML: .*; decimals have a point: -1\.05"),
    "slack in percent": (
        MODEL + '[risk]\nkind = "SafeSet"\nstates = [0]\nslack = 2\n',
        r"SafeSet\.slack is 2; it lies between 0 and 1: 2 % is written 0\.02",
    ),
    "level in percent": (MODEL + '[risk]\nkind = "CVaR"\nlevel = 97.5\n', r"97\.5 % is written 0\.975"),
    "level that is no percentage": (MODEL + '[risk]\nkind = "CVaR"\nlevel = 1.5\n', r"level is 1\.5; it must be a fin"),
    "discount in percent": (
        '[model]\nfile = "problem.toml"\ndiscount = 95\n',
        r"discount is 95; it lies between 0 and 1: 95 % is written 0\.95",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_say_what_was_meant(case, tmp_path):
    text, message = REFUSED[case]
    with pytest.raises(ca.FileError, match=message):
        read_problem(write(tmp_path, text))


CSV = "condition,what_to_do,becomes,chance,euros\nok,go,ok,1,5\n"
ALL = 'state = "condition", action = "what_to_do", next_state = "becomes", probability = "chance", reward = "euros"'
COLUMNS = {
    "one is missing": (ALL.replace(', probability = "chance"', ""), "columns={'probability': 'chance'}, or in a pro"),
    "and the line is ready": (ALL.replace('action = "what_to_do", ', ""), f"columns = {{ {ALL} }}"),
    "misspelt": (ALL.replace("euros", "eur"), "'euros'; did you mean 'euros'?"),
    "no such column": (ALL.replace("reward ", "rewards "), "columns['rewards']: there is no such column"),
    "but a similar one": (ALL.replace("reward ", "rewards "), "; did you mean 'reward'?"),
}


@pytest.mark.parametrize("case", COLUMNS)
def test_refusals_of_columns_name_the_problem_file_and_the_column_that_was_meant(case, tmp_path):
    columns, message = COLUMNS[case]
    (tmp_path / "pump.csv").write_text(CSV)
    # no discount: what is wrong with the columns comes first
    path = write(tmp_path, f'[model]\nfile = "pump.csv"\ncolumns = {{ {columns} }}\n')
    with pytest.raises(ca.FileError) as caught:
        read_problem(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)
    assert read_problem(write(tmp_path, f'[model]\nfile = "pump.csv"\ndiscount = 0.5\ncolumns = {{ {ALL} }}\n'))


def test_a_table_that_is_neither_a_model_nor_a_log_is_told_from_both(tmp_path):
    path = tmp_path / "pump.csv"
    path.write_text(CSV)
    with pytest.raises(ca.FileError, match=r"neither a model \(needs state, .*\) nor a log \(state, action") as caught:
        holds_transitions(path)
    assert f'file = "pump.csv", columns = {{ {ALL} }}' in str(caught.value)
    path.write_text("who,day,move,cost\n")
    with pytest.raises(ca.FileError) as caught:
        holds_transitions(path)
    line = 'transitions = "pump.csv", columns = { state = "?", action = "move", reward = "cost", next_state = "?" }'
    assert line in str(caught.value)
    assert "'cost' must then be negative" in str(caught.value)
    path.write_text("state,action,reward,next_state\n")
    assert holds_transitions(path)
    path.write_text("idstatefrom,idaction,idstateto,probability,reward\n")
    assert not holds_transitions(path)


def test_the_columns_of_a_log_come_before_its_discount(tmp_path):
    (tmp_path / "log.csv").write_text("place,act,reward,next_state\n0,go,2,1\n")
    path = write(tmp_path, '[model]\ntransitions = "log.csv"\n')
    with pytest.raises(ca.FileError, match=r'columns = \{ state = "place", action = "act" \}') as caught:
        read_problem(path)
    assert str(caught.value).startswith(f"{path}: ")
    write(tmp_path, '[model]\ntransitions = "log.csv"\ncolumns = { state = "place", action = "act" }\n')
    with pytest.raises(ca.FileError, match="need a discount"):
        read_problem(path)


def test_a_missing_file_is_looked_for_in_its_folder(tmp_path):
    (tmp_path / "pump2.csv").write_text(CSV)
    path = write(tmp_path, '[model]\nfile = "pumps.csv"\n')
    with pytest.raises(ca.FileError, match=r"pumps\.csv: no such file; did you mean 'pump2\.csv'\?") as caught:
        read_problem(path)
    assert str(caught.value).startswith(f"{path}: ")
    write(tmp_path, '[model]\nfile = "gone/pumps.csv"\n')
    with pytest.raises(ca.FileError, match=r"no such file$"):
        read_problem(path)
