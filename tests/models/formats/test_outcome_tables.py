"""Tables with one outcome per row: labels, other column names, many models in one file, and public files."""

import tracemalloc
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import cautious as ca

DATA = Path(__file__).parents[4] / "shared" / "data"
public = pytest.mark.skipif(not DATA.is_dir(), reason="the public model files are not here")
TABLE = """from,move,to,p,pays
home,walk,shop,0.5,-1
home,walk,home,0.5,-1
home,stay,home,1,0
shop,buy,home,1,10
"""
COLUMNS = {"state": "from", "action": "move", "next_state": "to", "probability": "p", "reward": "pays"}


def read(folder, text, name="table.csv", **options):
    (folder / name).write_text(text)
    return ca.read_model(folder / name, **options)


def test_labels_become_names(tmp_path):
    mdp = read(tmp_path, TABLE, discount=0.9, start="home", columns=COLUMNS)
    assert mdp.state_names == ("home", "shop")
    assert mdp.action_names == ("buy", "stay", "walk")
    assert np.array_equal(mdp.allowed, [[0, 1, 1], [1, 0, 0]])
    assert np.array_equal(mdp.rewards, [[0, 0, -1], [10, 0, 0]])
    assert mdp.outcome_rewards is None
    assert np.array_equal(mdp.start, [1, 0])


def test_a_number_that_is_the_name_of_another_state_is_no_start(tmp_path):
    text = "state,action,next_state,probability,reward\n1,go,2,1,1\n2,go,1,1,0\n"
    assert read(tmp_path, text, discount=0.9, start="1").start.tolist() == [1, 0]
    assert read(tmp_path, text, discount=0.9, start=0).start.tolist() == [1, 0]
    for start in (1, 2):
        with pytest.raises(ca.InputError, match=f"number {start - 1} is the state that is called '{start}'"):
            read(tmp_path, text, discount=0.9, start=start)


def test_numbers_from_zero_are_no_names(tmp_path):
    head = "state,action,next_state,probability,reward\n"
    mdp = read(tmp_path, head + "1,0,1,1,5\n0,0,1,1,3\n", discount=0.9)
    assert (mdp.state_names, mdp.action_names) == (None, None)
    assert np.array_equal(mdp.start, [0.5, 0.5])
    one_based = read(tmp_path, head + "1,1,2,1,5\n2,1,2,1,3\n", discount=0.9)
    assert (one_based.state_names, one_based.action_names) == (("1", "2"), ("1",))


BAD = {
    "no column": (("p,", "q,"), "no column 'p'; the columns are 'from', 'move', 'to', 'q', 'pays'"),
    "negative": (("0.5,-1", "-0.5,-1"), r"line 2: the probability is -0\.5; expected 0 to 1"),
    "words": (("home,1,0", "home,one,0"), "line 4"),
    "a state that ends": (("shop,buy,home", "home,buy,shop"), "state 'shop' has no transition; .* leads to itself"),
    "a sum": (("0.5,-1\nhome,walk,home", "0.4,-1\nhome,walk,home"), r"sums to 0\.9; .*normalise=True"),
}


@pytest.mark.parametrize("name", BAD)
def test_errors_name_the_line(tmp_path, name):
    (old, new), message = BAD[name]
    with pytest.raises(ca.FileError, match=message):
        read(tmp_path, TABLE.replace(old, new, 1), discount=0.9, columns=COLUMNS)


@pytest.mark.parametrize("label", [True, "x", -1, 3])
def test_a_companion_speaks_of_numbers(tmp_path, label):
    """Booleans are whole numbers to Python: they were taken for those of the companion, and then looked for in vain."""
    pyarrow = pytest.importorskip("pyarrow", reason="extra data")
    from pyarrow import feather

    path = tmp_path / "model.arrow"
    ca.worlds.river_swim().save(path)
    table = feather.read_table(path)
    place = table.column_names.index("idaction")
    labels = pyarrow.array([label] * table.num_rows)
    feather.write_feather(table.set_column(place, "idaction", labels), path)
    with pytest.raises(ca.FileError, match=f"found the label {label!r}; its companion speaks of 0 to 1"):
        ca.read_model(path)


def test_columns_that_do_not_exist(tmp_path):
    with pytest.raises(
        ca.InputError, match=r"columns\['sate'\]: there is no such column; the columns are state, action"
    ):
        read(tmp_path, TABLE, discount=0.9, columns={"sate": "from"})


def test_a_table_without_rewards_is_refused_unless_nothing_is_paid(tmp_path):
    text = "state,action,next_state,probability,gain\n0,0,0,1,5\n"
    with pytest.raises(ca.FileError, match=r"no column 'reward'.*columns=\{'reward': 'gain'\}.*reward=0"):
        read(tmp_path, text, discount=0.9)
    assert read(tmp_path, text, discount=0.9, columns={"reward": "gain"}).rewards.tolist() == [[5]]
    assert read(tmp_path, text, discount=0.9, reward=0).rewards.tolist() == [[0]]
    with pytest.raises(ca.InputError, match="the table has a column of rewards"):
        read(tmp_path, text.replace("gain", "reward"), discount=0.9, reward=0)
    for reward in (1, "gain", False):
        with pytest.raises(ca.InputError, match="only reward=0"):
            read(tmp_path, text, discount=0.9, reward=reward)


def exact_values(mdp, discount):
    """The best values in exact arithmetic: every deterministic policy is evaluated by elimination."""
    rows = mdp.transitions.toarray().reshape(*mdp.shape, mdp.n_states)
    chance = [[[Fraction(x).limit_denominator(10**6) for x in row] for row in state] for state in rows.tolist()]
    pays = [[Fraction(x).limit_denominator(10**6) for x in state] for state in mdp.rewards.tolist()]
    choices = [np.flatnonzero(mdp.allowed[s]).tolist() for s in range(mdp.n_states)]
    best = None
    for policy in product(*choices):
        values = eliminated(
            [
                [Fraction(s == t) - discount * chance[s][a][t] for t in range(mdp.n_states)]
                for s, a in enumerate(policy)
            ],
            [pays[s][a] for s, a in enumerate(policy)],
        )
        best = values if best is None else [max(pair) for pair in zip(best, values, strict=True)]
    return [float(value) for value in best]


def eliminated(matrix, right):
    """The solution of a linear system of fractions."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    for i in range(len(rows)):
        pivot = next(k for k in range(i, len(rows)) if rows[k][i])
        rows[i], rows[pivot] = rows[pivot], rows[i]
        rows[i] = [x / rows[i][i] for x in rows[i]]
        for k in range(len(rows)):
            if k != i and rows[k][i]:
                rows[k] = [x - rows[k][i] * y for x, y in zip(rows[k], rows[i], strict=True)]
    return [row[-1] for row in rows]


@public
@pytest.mark.parametrize("name", ["riverswim_mdp", "machine_replacement_mdp"])
def test_public_csv_against_exact_values(name):
    mdp = ca.read_model(DATA / f"{name}.csv", discount=0.9, start=0)
    solution = ca.solve(ca.Problem(mdp), tolerance=1e-9).require()
    assert np.allclose(
        solution.multipliers[solution.reached],
        np.array(exact_values(mdp, Fraction(9, 10)))[solution.reached],
        rtol=1e-6,
    )
    assert solution.expected_return == pytest.approx(exact_values(mdp, Fraction(9, 10))[0], rel=1e-9)


@public
def test_many_models_in_one_file(tmp_path):
    path = DATA / "riverswim_outcomes.csv"
    with pytest.raises(ca.InputError, match=r"holds \d+ models, 0 to \d+; choose one, as in outcome=0"):
        ca.read_model(path, discount=0.9)
    with pytest.raises(ca.InputError, match="outcome=-5 is none of its"):
        ca.read_model(path, discount=0.9, outcome=-5)
    mdp = ca.read_model(path, discount=0.9, outcome=7)
    lines = [line.split(",") for line in path.read_text().splitlines()[1:]]
    kept = [line for line in lines if line[3] == "7" and float(line[4]) > 0]
    assert mdp.transitions.nnz == len({tuple(line[:3]) for line in kept})
    for s, a, t, _, p, _ in kept:
        assert mdp.transitions.toarray()[int(s) * mdp.n_actions + int(a), int(t)] == pytest.approx(float(p))


@public
@pytest.mark.parametrize(("name", "shape"), [("inventory", (21, 11)), ("population", (51, 5))])
def test_public_arrow_against_value_iteration(name, shape):
    pa = pytest.importorskip("pyarrow")
    mdp = ca.read_model(DATA / f"{name}.arr", discount=0.9, start=0)
    assert mdp.shape == shape
    with pa.memory_map(str(DATA / f"{name}.arr")) as file:
        table = {key: np.array(column) for key, column in pa.ipc.open_file(file).read_all().to_pydict().items()}
    values = np.zeros(shape[0])
    for _ in range(600):
        outcome = table["probability"] * (table["reward"] + 0.9 * values[table["idstateto"]])
        pair = np.full(shape, -np.inf)
        total = np.bincount(table["idstatefrom"] * shape[1] + table["idaction"], outcome, shape[0] * shape[1])
        used = np.zeros(shape, bool)
        used[table["idstatefrom"], table["idaction"]] = True
        pair[used] = total.reshape(shape)[used]
        values = pair.max(axis=1)
    assert np.array_equal(mdp.allowed, used)
    assert ca.solve(ca.Problem(mdp), tolerance=1e-9).require().expected_return == pytest.approx(values[0], rel=1e-8)


@pytest.mark.parametrize("in_order", [True, False])
def test_memory_stays_near_that_of_the_model(tmp_path, in_order):
    mdp = ca.worlds.garnet(500, 4, 10)
    mdp.save(tmp_path / "model.csv")
    if not in_order:
        header, *lines = (tmp_path / "model.csv").read_text().splitlines(keepends=True)
        (tmp_path / "model.csv").write_text("".join([header, *reversed(lines)]))
    ca.read_model(tmp_path / "model.csv")
    arrays = (mdp.transitions.data, mdp.transitions.indices, mdp.transitions.indptr, mdp.rewards)
    tracemalloc.start()
    ca.read_model(tmp_path / "model.csv")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 * sum(array.nbytes for array in arrays)
