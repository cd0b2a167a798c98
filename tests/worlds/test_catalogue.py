import importlib
import inspect
import pkgutil
from pathlib import Path

import numpy as np
import pytest

import cautious as ca
from cautious import worlds
from cautious.errors import InputError
from cautious.occupancy import policy_occupancy
from cautious.planning import plan
from cautious.risks.base import ScalarRisk

PAGE = Path(__file__).parents[2] / "docs" / "worlds.md"


def generators():
    """Every public function of the package that returns a model and can be called without arguments."""
    found = set()
    for module in pkgutil.iter_modules(worlds.__path__):
        for name, function in inspect.getmembers(importlib.import_module(f"cautious.worlds.{module.name}")):
            if not inspect.isfunction(function) or name.startswith("_"):
                continue
            signature = inspect.signature(function)
            needs = [p for p in signature.parameters.values() if p.default is inspect.Parameter.empty]
            if signature.return_annotation is ca.MDP and not needs:
                found.add(name)
    return found


def neutral(mdp):
    return policy_occupancy(mdp, plan(mdp, mdp.rewards).policy(mdp.n_actions)).occupancy


def cautious(problem):
    """Occupancy of the best policy: a scan over the scalar where there is one, else the library's solver."""
    mdp, risk = problem.mdp, problem.risk
    if not isinstance(risk, ScalarRisk):
        return ca.solve(problem).require().occupancy
    best = neutral(mdp)
    for t in np.linspace(*risk.interval(), 101):
        tilted = plan(mdp, mdp.rewards - problem.caution * (1 - mdp.discount) * risk.table(t))
        best = max(best, policy_occupancy(mdp, tilted.policy(mdp.n_actions)).occupancy, key=problem.objective)
    return best


# a number that caution changes, before and after, as the docs page has it
PROMISES = {
    "maze": (lambda mdp, d: d[worlds.dark_cells(mdp)].sum(), 0.0184, 0.0178),
    "drift": (lambda mdp, d: d[worlds.dark_cells(mdp)].sum(), 0.0700, 0.0273),
    "drift_prior_world": (lambda mdp, d: d.sum(axis=1).max(), 0.067, 0.040),
    "garnet": (lambda mdp, d: -np.sum(d * np.log(np.maximum(d, 1e-300))), 3.60, 4.32),
    "river_swim": (lambda mdp, d: d[0].sum(), 0.091, 1.0),
    "machine_replacement": (lambda mdp, d: d[-1].sum(), 0.0090, 0.00225),
    "inventory": (lambda mdp, d: 1 - mdp.flow_into(d)[0], 0.869, 0.971),
    "queue": (lambda mdp, d: d[8:].sum(), 0.396, 0.116),
    "forest": (lambda mdp, d: d[6:].sum(), 0.090, 0.236),
    "liquidation": (lambda mdp, d: d[:9].sum(), 0.678, 0.770),
    "clinic": (lambda mdp, d: d[:, 1].sum(), 0.341, 0.478),
}


def test_every_generator_is_in_the_catalogue_and_exported():
    assert generators() == set(worlds.names())
    assert generators() <= set(worlds.__all__)


@pytest.mark.parametrize("name", worlds.names())
def test_every_world_is_complete(name):
    mdp = worlds.problem(name).mdp
    assert mdp.state_names is not None
    assert mdp.action_names is not None
    scene = mdp.scene
    assert all((scene.title, scene.story, scene.step, scene.reward_unit))
    sums = np.asarray(mdp.transitions.sum(axis=1)).reshape(mdp.shape)
    np.testing.assert_allclose(sums, mdp.allowed, atol=1e-15)
    if scene.grid:
        assert len(scene.cells) == mdp.n_states


@pytest.mark.parametrize("name", worlds.names())
def test_the_description_matches_the_problem_and_the_page(name):
    world, problem = worlds.describe(name), worlds.problem(name)
    assert (world.n_states, world.n_actions) == problem.mdp.shape
    assert (world.risk, world.caution) == (problem.risk_label, problem.caution)
    assert len(world.why) > 80
    row = next(line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith(f"| `{name}`"))
    cells = [cell.strip() for cell in row.split("|")[1:-1]]
    assert cells[1:4] == [f"{world.n_states} x {world.n_actions}", f"{world.risk}", f"{world.caution:g}"]


@pytest.mark.parametrize("name", worlds.names())
def test_the_natural_caution_shows(name):
    problem = worlds.problem(name)
    number, before, after = PROMISES[name]
    d_neutral, d_cautious = neutral(problem.mdp), cautious(problem)
    assert number(problem.mdp, d_neutral) == pytest.approx(before, rel=0.01)
    assert number(problem.mdp, d_cautious) == pytest.approx(after, rel=0.01)
    assert np.isfinite(problem.objective(d_cautious))
    assert problem.objective(d_cautious) > problem.objective(d_neutral)
    assert problem.expected_return(d_cautious) < problem.expected_return(d_neutral)


def test_caution_can_be_chosen():
    assert worlds.problem("maze", caution=3).caution == 3
    assert worlds.problem("maze", caution=0).neutral


@pytest.mark.parametrize("name", ["mase", "", None, 3])
def test_an_unknown_world_is_refused_with_the_known_names(name):
    with pytest.raises(InputError, match=r"the worlds are maze, drift, .*clinic"):
        worlds.problem(name)
    with pytest.raises(InputError, match="there is no world named"):
        worlds.describe(name)


def test_the_prior_of_the_drift_takes_the_first_of_equally_good_actions():
    before, mix = ca.worlds.drift_prior_world(), 0.05
    v = np.zeros(before.n_states)
    for _ in range(400):
        worth = before.rewards + before.discount * before.expect_next(v)
        v = worth.max(axis=1)
    tied = worth >= v[:, None] - 1e-9
    assert np.any(tied.sum(axis=1) > 1)
    done = ca.worlds.drift_prior(mix) > mix / worth.size * (1 + 1e-9)
    assert np.array_equal(np.argmax(done, axis=1), np.argmax(tied, axis=1))
    assert np.array_equal(done.sum(axis=1), np.ones(before.n_states))
