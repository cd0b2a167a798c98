"""Problem files: every risk of the table, and refusals that name what they refuse."""

import dataclasses
import shutil
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pytest

import cautious as ca
from cautious.problem_files.reading import read_problem
from cautious.risks.public import PUBLIC_RISKS

MODEL = '[model]\nworld = "river_swim"\n'


def write(folder, text):
    path = folder / "problem.toml"
    path.write_text(text, "utf-8")
    return path


@pytest.fixture
def swim():
    return ca.worlds.river_swim()


def risks(swim):
    """TOML text and the same risk in Python, for every kind."""
    states = np.full(6, 1 / 6)
    pairs = np.full((6, 2), 1 / 12)
    tasks = np.stack([np.ones((6, 2)), swim.rewards])
    line = np.abs(np.subtract.outer(np.arange(6.0), np.arange(6.0)))
    edges = [[i, i + 1, 1.0] for i in range(5)]
    return {
        "SafeSet": ("states = [0, 1, 2]\nslack = 0.9", ca.SafeSet([0, 1, 2], 0.9)),
        "TaskFloors": (f"task_rewards = {tasks.tolist()}\nfloors = [1.0, -1.0]", ca.TaskFloors(tasks, [1.0, -1.0])),
        "PeakExposure": ("sets = [[0], [4, 5]]", ca.PeakExposure([[0], [4, 5]])),
        "WorstTask": (f"task_rewards = {tasks.tolist()}", ca.WorstTask(tasks)),
        "Variance": ("", ca.Variance()),
        "KL": (f"prior = {states.tolist()}", ca.KL(states)),
        "TotalVariation": (f"prior = {pairs.tolist()}", ca.TotalVariation(pairs)),
        "Quadratic": (f"prior = {pairs.tolist()}", ca.Quadratic(pairs)),
        "Wasserstein": (
            f"prior = {states.tolist()}\nmetric = {{ edges = {edges}, n_states = 6 }}",
            ca.Wasserstein(states, line),
        ),
        "CVaR": ("level = 0.8", ca.CVaR(0.8)),
        "Entropy": ("", ca.Entropy()),
        "ReturnVariance": ("", ca.ReturnVariance()),
        "ReturnCVaR": ("level = 0.8", ca.ReturnCVaR(0.8)),
        "ReturnEntropic": ("rate = 2.0", ca.ReturnEntropic(2.0)),
        "ReturnEVaR": ("level = 0.8", ca.ReturnEVaR(0.8)),
        "ReturnBelow": ("threshold = 0.5", ca.ReturnBelow(0.5)),
        "Exposure": ("states = [0, 1]", ca.Exposure([0, 1])),
        "Return": (f"rewards = {tasks[1].tolist()}", ca.Return(tasks[1])),
    }


# it needs a horizon, see below
@pytest.mark.parametrize("kind", sorted(set(PUBLIC_RISKS) - {"Reach"}))
def test_every_risk_of_the_table_can_be_written(kind, swim, tmp_path):
    text, risk = risks(swim)[kind]
    found = read_problem(write(tmp_path, f'caution = 2.5\n{MODEL}[risk]\nkind = "{kind}"\n{text}\n'))
    wanted = ca.Problem(swim, risk, 2.5)
    d = np.full(swim.shape, 1 / 12)
    d[0, 0], d[5, 1] = 2 / 12, 0.0
    assert found.caution == 2.5
    if found.is_of_return:
        assert found.unbound_risk == risk
        return
    assert found.risk_value(d) == pytest.approx(wanted.risk_value(d), abs=1e-9)


def test_reach_is_read_with_a_horizon(swim, tmp_path):
    once = ca.MDP(swim.transitions, swim.rewards, 1.0, swim.start)
    once.save(tmp_path / "swim.npz")
    text = '[model]\nfile = "swim.npz"\n[[constraints]]\nkind = "Reach"\nstates = [5]\nat_least = 0.3\n'
    found = read_problem(write(tmp_path, "horizon = 20\n" + text))
    wanted = ca.Problem(once, constraints=[ca.Reach([5]) >= 0.3], horizon=20)
    assert ca.solve(found).objective == pytest.approx(ca.solve(wanted).objective, abs=1e-5)
    with pytest.raises(ca.FileError, match="horizon"):
        read_problem(write(tmp_path, text))


def test_constraints_are_read(swim, tmp_path):
    text = '[[constraints]]\nkind = "Exposure"\nstates = [0]\nat_most = 0.3\n'
    text += '[[constraints]]\nkind = "Entropy"\nweight = 2.0\nat_most = 9.0\n'
    text += f'[[constraints]]\nkind = "Return"\nrewards = {swim.rewards.tolist()}\nat_least = 0.01\n'
    found = read_problem(write(tmp_path, MODEL + text))
    assert [repr(one) for one in found.constraints] == ["Exposure <= 0.3", "2*Entropy <= 9", "Return >= 0.01"]
    wanted = ca.Problem(swim, constraints=[ca.Exposure([0]) <= 0.3, ca.Return(swim.rewards) >= 0.01])
    assert ca.solve(found).objective == pytest.approx(ca.solve(wanted).objective, abs=1e-5)


def test_the_table_of_kinds_is_complete():
    public = {
        name for name in ca.__all__ if isinstance(getattr(ca, name), type) and issubclass(getattr(ca, name), ca.Risk)
    }
    assert public - {"Risk"} == set(PUBLIC_RISKS)
    for kind in PUBLIC_RISKS.values():
        assert kind.summary
        assert list(kind.fields_in_files) == [field.name for field in dataclasses.fields(kind)]


def test_sums_weights_and_defaults(swim, tmp_path):
    two = '[[risk]]\nkind = "Variance"\nweight = 2.0\n[[risk]]\nkind = "Entropy"\n'
    found = read_problem(write(tmp_path, MODEL + two))
    d = np.full(swim.shape, 1 / 12)
    assert found.risk_value(d) == pytest.approx(ca.Problem(swim, 2.0 * ca.Variance() + ca.Entropy()).risk_value(d))
    assert found.caution == 1.0
    assert read_problem(write(tmp_path, MODEL)).neutral


def test_world_parameters_and_model_files(swim, tmp_path):
    found = read_problem(write(tmp_path, '[model]\nworld = "river_swim"\nparameters = { n_states = 9 }\n'))
    assert found.mdp.n_states == 9
    swim.save(tmp_path / "swim.npz")
    assert read_problem(write(tmp_path, '[model]\nfile = "swim.npz"\n')).mdp.shape == (6, 2)


def test_tables_of_outcomes_and_of_transitions_under_other_names(tmp_path):
    (tmp_path / "m.csv").write_text("s,a,t,probability,reward\nx,go,y,1,2\ny,go,x,1,0\n")
    called = 'columns = { state = "s", action = "a", next_state = "t" }\ndiscount = 0.5\nstart = "x"\n'
    found = read_problem(write(tmp_path, f'[model]\nfile = "m.csv"\n{called}')).mdp
    assert (found.state_names, found.start.tolist()) == (("x", "y"), [1.0, 0.0])
    assert ca.solve(ca.Problem(found)).objective == pytest.approx(2 / (1 - 0.25))
    (tmp_path / "log.csv").write_text("s,a,reward,t\n0,go,2,1\n1,go,0,0\n")
    rest = f'transitions = "log.csv"\n{called}'.replace('"x"', "0")
    found = read_problem(write(tmp_path, f"[model]\n{rest}")).mdp
    assert found.counts.tolist() == [[1], [1]]
    assert ca.solve(ca.Problem(found)).objective == pytest.approx(2 / (1 - 0.25))


def test_an_environment_takes_parameters(tmp_path):
    pytest.importorskip("gymnasium", reason="extra gym")
    text = '[model]\ngym = "FrozenLake-v1"\ndiscount = 0.99\nat_end = "absorb"\nparameters = { is_slippery = false }\n'
    found = ca.solve(read_problem(write(tmp_path, text)))
    # six steps to the goal, all of them sure
    assert found.objective == pytest.approx(0.99**5)


def test_states_by_name(tmp_path):
    text = '[model]\nworld = "machine_replacement"\n[risk]\nkind = "PeakExposure"\nsets = [["{}"], ["{}"]]\n'
    names = ca.worlds.machine_replacement().state_names
    found = read_problem(write(tmp_path, text.format(names[1], names[3])))
    d = np.zeros(found.mdp.shape)
    d[1, 0], d[3, 0] = 0.25, 0.5
    assert found.risk_value(d) == 0.5


def test_arrays_come_from_files_beside_the_problem(swim, tmp_path):
    prior = np.random.default_rng(0).dirichlet(np.ones(12)).reshape(6, 2)
    np.save(tmp_path / "prior.npy", prior)
    np.savez(tmp_path / "data.npz", prior=prior)
    solution = ca.solve(ca.Problem(swim))
    solution.save(tmp_path / "solution.npz")
    d = np.full(swim.shape, 1 / 12)
    for name, wanted in (("prior.npy", prior), ("data.npz:prior", prior), ("solution.npz", solution)):
        found = read_problem(write(tmp_path, f'{MODEL}[risk]\nkind = "TotalVariation"\nprior = "{name}"\n'))
        assert found.risk_value(d) == pytest.approx(ca.Problem(swim, ca.TotalVariation(wanted)).risk_value(d))


REFUSED = {
    "unknown top key": (
        "cautoin = 1\n" + MODEL,
        r"unknown key 'cautoin'; did you mean 'caution'\? allowed: model",
    ),
    "no model": ("caution = 1.0\n", r"\[model\] is missing"),
    "model is a number": ("model = 3\n", r"\[model\] must be a table"),
    "unknown model key": (
        '[model]\nwrld = "maze"\n',
        r"unknown key 'wrld'; did you mean 'world'\?",
    ),
    "world and file": (
        '[model]\nworld = "maze"\nfile = "x.npz"\n',
        "transitions, found world and file",
    ),
    "unknown world": ('[model]\nworld = "from_grid"\n', "world is 'from_grid'; .*it can be maze, drift"),
    "unknown parameter": (
        '[model]\nworld = "river_swim"\nparameters = { q = 1 }\n',
        "unknown key 'q'; allowed: n_states",
    ),
    "parameter of wrong type": ('[model]\nworld = "maze"\nparameters = { p = "x" }\n', "p must be a number"),
    "missing file": ('[model]\nfile = "gone.npz"\n', "no such file"),
    "negative caution": ("caution = -1.0\n" + MODEL, "caution is -1"),
    "unknown kind": (MODEL + '[risk]\nkind = "Fear"\n', "kind is 'Fear'; it can be SafeSet, TaskFloors"),
    "no kind": (MODEL + "[risk]\nslack = 1\n", "needs kind"),
    "unknown field": (
        MODEL + '[risk]\nkind = "CVaR"\nlevle = 0.9\n',
        r"unknown key 'levle'; did you mean 'level'\? allowed: kind, weight, level",
    ),
    "missing field": (MODEL + '[risk]\nkind = "CVaR"\n', "of kind CVaR needs level"),
    "a constraint without a side": (MODEL + '[[constraints]]\nkind = "Entropy"\n', "either at_most = a number or"),
    "a constraint that is no table": ("constraints = 3\n" + MODEL, r"write \[\[constraints\]\] above each"),
    "a limit on a variance": (MODEL + '[[constraints]]\nkind = "Variance"\nat_most = 1.0\n', "is not convex"),
    "second of two": (MODEL + '[[risk]]\nkind = "Entropy"\n[[risk]]\nkind = "Fear"\n', r"\[\[risk\]\] number 2 kind"),
    "negative weight": (MODEL + '[risk]\nkind = "Entropy"\nweight = -1\n', "weight is -1"),
    "array is a number": (MODEL + '[risk]\nkind = "KL"\nprior = 3\n', "KL.prior must be a list"),
    "no such array": (MODEL + '[risk]\nkind = "KL"\nprior = "gone.npy"\n', "KL.prior: cannot read gone.npy"),
    "other suffix": (MODEL + '[risk]\nkind = "KL"\nprior = "x.pkl"\n', "expected the name of a .npy"),
    "states out of range": (
        MODEL + '[risk]\nkind = "SafeSet"\nstates = [9]\nslack = 0.1\n',
        "is 9; states are numbered",
    ),
    "ragged": (MODEL + '[risk]\nkind = "KL"\nprior = [[1], [1, 2]]\n', "KL.prior is not a rectangular array"),
    "bad edge": (
        MODEL + '[risk]\nkind = "Wasserstein"\nprior = [1]\nmetric = { edges = [[0, 7, 1]], n_states = 6 }\n',
        r"edges\[0\] is \[0, 7, 1\]",
    ),
    "not toml": ("model = [", "not valid TOML"),
    "parameters of a file": (
        '[model]\nfile = "x.npz"\nparameters = { p = 1 }\n',
        "unknown key 'parameters'; allowed: file",
    ),
    "untried of a world": ('[model]\nworld = "maze"\nuntried = "forbid"\n', r"\[model\] with world has an unknown key"),
    "study": (
        'problems = ["maze"]\nseeds = [0]\n',
        "unknown key 'problems'; it belongs in a study, for cautious sweep",
    ),
    "code": ('[model]\ngym = "os:Nothing-v0"\ndiscount = 0.9\nat_end = "absorb"\n', "imports no code"),
    "no such environment": ('[model]\ngym = "Gone-v0"\ndiscount = 0.9\nat_end = "absorb"\n', "cannot be made"),
    "environment without discount": ('[model]\ngym = "FrozenLake-v1"\n', "gym:FrozenLake-v1 needs discount"),
    "environment without end": ('[model]\ngym = "FrozenLake-v1"\ndiscount = 0.9\n', "needs at_end"),
    "parameters of an environment": (
        '[model]\ngym = "FrozenLake-v1"\ndiscount = 0.9\nat_end = "absorb"\nparameters = { sides = 3 }\n',
        "gym:FrozenLake-v1 cannot be made",
    ),
    "no file": ('[model]\nfile = ".."\n', "a folder; expected a regular file"),
    "missing log": ('[model]\ntransitions = "gone.csv"\ndiscount = 0.9\n', r"gone\.csv: no such file"),
    "columns": ('[model]\nfile = "problem.toml"\ncolumns = ["s"]\n', "columns must be a table"),
    "column": (
        '[model]\ntransitions = "problem.toml"\ndiscount = 0.9\ncolumns = { stat = "s" }\n',
        r"\[model\] columns has an unknown key 'stat'; did you mean 'state'\?",
    ),
    "sets": (
        '[model]\nworld = "river_swim"\n[risk]\nkind = "PeakExposure"\nsets = ["bank"]\n',
        r"PeakExposure.sets must be a list of sets, such as \[\[\"a\", \"b\"\], \[\"c\"\]\], found \['bank'\]",
    ),
    "state's name": (
        '[model]\nworld = "queue"\n[risk]\nkind = "PeakExposure"\nsets = [["3 Present"]]\n',
        "names the state '3 Present', which this model does not have; did you mean '3 present'",
    ),
    "mixed states": (MODEL + '[risk]\nkind = "SafeSet"\nstates = [1, "a"]\nslack = 0.1\n', "mixes numbers and names"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_name_the_key_and_the_file(case, tmp_path):
    text, message = REFUSED[case]
    with pytest.raises(ca.InputError, match=message) as caught:
        read_problem(write(tmp_path, text))
    assert str(tmp_path) in str(caught.value) or "cannot read" in str(caught.value)


def test_hostile_arrays_are_refused_before_they_are_read(tmp_path):
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }"
    header += b" " * (64 - (10 + len(header) + 1) % 64) + b"\n"
    (tmp_path / "huge.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + b"\0" * 64)
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    np.savez_compressed(tmp_path / "bomb.npz", zeros=np.zeros(2_000_000))
    with zipfile.ZipFile(tmp_path / "lie.npz", "w") as archive:
        archive.write(tmp_path / "huge.npy", "prior.npy")
    for name in ("huge.npy", "objects.npy", "bomb.npz:zeros", "bomb.npz:ones", "lie.npz:prior", "gone.npz:prior"):
        with pytest.raises(ca.FileError, match=r"KL\.prior: cannot read"):
            read_problem(write(tmp_path, f'{MODEL}[risk]\nkind = "KL"\nprior = "{name}"\n'))


def test_a_file_that_is_not_there_or_not_text_is_refused(tmp_path):
    with pytest.raises(ca.FileError, match="no such file"):
        read_problem(tmp_path / "gone.toml")
    (tmp_path / "binary.toml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ca.FileError, match="not valid TOML"):
        read_problem(tmp_path / "binary.toml")


def test_damaged_files_are_refused_by_typed_errors(tmp_path):
    """Lines of the examples are dropped, doubled, cut and changed, four hundred times."""
    folder = Path(__file__).parents[2] / "examples"
    for path in folder.glob("*.csv"):
        shutil.copy(path, tmp_path)
    rng = np.random.default_rng(0)
    refused = 0
    texts = [(folder / f"{name}.toml").read_text() for name in ("maintenance", "ward", "maze")]
    for _ in range(400):
        text = bytearray(texts[rng.integers(3)].encode())
        for _ in range(rng.integers(1, 4)):
            at, length = int(rng.integers(len(text))), int(rng.integers(1, 12))
            change = rng.integers(4)
            piece = bytes(text[at : at + length])
            text[at : at + length] = [b"", piece * 2, bytes([rng.integers(256)]), rng.choice(WORDS).encode()][change]
        path = tmp_path / "problem.toml"
        path.write_bytes(bytes(text))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ca.CautiousWarning)
                read_problem(path)
        except ca.CautiousError:
            refused += 1
    assert 150 < refused < 400


WORDS = [
    '"',
    "[",
    "{",
    "nan",
    "inf",
    "-1",
    "1e400",
    "true",
    '""',
    "[[",
    "\n[model]\n",
    "9" * 30,
    "world =",
    '"good"',
    "0",
]


def test_a_measure_can_have_a_name(swim, tmp_path):
    text = '[[constraints]]\nkind = "Exposure"\nstates = [0, 1, 2, 3]\nat_most = 0.9\nname = "the near bank"\n'
    found = read_problem(write(tmp_path, '[model]\nworld = "river_swim"\n' + text))
    assert [repr(one) for one in found.constraints] == ["Exposure(the near bank) <= 0.9"]


def test_a_file_can_ask_for_one_action_in_every_state(swim, tmp_path):
    limit = '[[constraints]]\nkind = "Exposure"\nstates = [0]\nat_most = 0.3\n'
    found = read_problem(write(tmp_path, 'deterministic = true\n[model]\nworld = "river_swim"\n' + limit))
    assert found.deterministic
    assert found.with_caution(2.0).deterministic
    solution = ca.solve(found)
    assert "mixed_bound" in solution.certificate.facts
    assert "mixed_bound" not in ca.solve(found, deterministic=False).certificate.facts
    assert not ca.Problem(swim).deterministic
    with pytest.raises(ca.FileError, match="deterministic must be True or False, found 'yes'"):
        read_problem(write(tmp_path, 'deterministic = "yes"\n[model]\nworld = "river_swim"\n'))


LOG = "state,action,reward,next_state,orders,served\n"
ROWS = ["good,run,5,good,4,4", "good,run,7,failed: seal,6,3", "failed: seal,mend,-3,good,5,0", "good,wait,0,good,4,2"]


def log_file(tmp_path, constraint, model=""):
    (tmp_path / "log.csv").write_text(LOG + "\n".join(ROWS) + "\n")
    text = (
        f'[model]\ntransitions = "log.csv"\ndiscount = 0.9\nuntried = "forbid"\n{model}[[constraints]]\n{constraint}\n'
    )
    return write(tmp_path, text)


def test_states_can_be_a_pattern(tmp_path):
    found = read_problem(log_file(tmp_path, 'kind = "Exposure"\nstates = ["failed*"]\nname = "failed"\nat_most = 0.5'))
    (limit,) = found.limits
    row = limit.measure.features.toarray().reshape(found.mdp.shape)
    assert np.array_equal(row.max(axis=1) > 0, [name.startswith("failed") for name in found.mdp.state_names])
    with pytest.raises(ca.FileError, match=r"no state matches 'broke\*'"):
        read_problem(log_file(tmp_path, 'kind = "Exposure"\nstates = ["broke*"]\nat_most = 0.5'))


def test_columns_of_the_log_are_rewards(tmp_path):
    asked = 'kind = "Return"\nrewards = { served = 1, orders = -0.5 }\nname = "served"\nat_least = -1'
    found = read_problem(log_file(tmp_path, asked))
    table = found.constraints[0].measure.rewards
    good, failed = (found.mdp.state_names.index(name) for name in ("good", "failed: seal"))
    run, wait, mend = (found.mdp.action_names.index(name) for name in ("run", "wait", "mend"))
    assert table[good, run] == pytest.approx((4 + 3) / 2 - 0.5 * (4 + 6) / 2)
    assert table[good, wait] == pytest.approx(2 - 0.5 * 4)
    assert table[failed, mend] == pytest.approx(-2.5)
    for wrong, words in (
        ("{ srved = 1 }", "srved"),
        ("{ }", "needs at least one column"),
        ('{ served = "a" }', "Return.rewards.served must be a number"),
    ):
        with pytest.raises(ca.FileError, match=words):
            read_problem(log_file(tmp_path, f'kind = "Return"\nrewards = {wrong}\nat_least = 0'))
    world = '[model]\nworld = "river_swim"\n[[constraints]]\nkind = "Return"\nrewards = { a = 1 }\nat_least = 0\n'
    with pytest.raises(ca.FileError, match="the model is not a table"):
        read_problem(write(tmp_path, world))


def test_steps_can_be_months_or_days(tmp_path):
    rows = "run,2026-01,b,go,2,a\nrun,2025-12,a,go,1,b\n"
    (tmp_path / "log.csv").write_text("episode,step,state,action,reward,next_state\n" + rows)
    log = ca.from_transitions(tmp_path / "log.csv", discount=0.9).log
    assert (log.first.tolist(), log.rewards.tolist()) == ([0], [1.0, 2.0])
    for wrong, words in (("2026-02", "step 24313 follows"), ("2026-13", "a month as 2026-03")):
        text = rows.replace("2026-01", wrong)
        (tmp_path / "log.csv").write_text("episode,step,state,action,reward,next_state\n" + text)
        with pytest.raises(ca.FileError, match=words):
            ca.from_transitions(tmp_path / "log.csv", discount=0.9)
