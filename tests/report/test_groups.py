"""States of large models in groups: by their names, else by where the policy leads."""

import numpy as np
import pytest

import cautious as ca
from cautious.report.groups import N_CENTRES, grouped
from cautious.report.over_steps import as_one_table


def blocks(n_blocks=8, size=12, leave=1e-3, names=None, discount=0.95):
    """Blocks of states that are seldom left; within a block everything follows everything."""
    rng, n = np.random.default_rng(3), n_blocks * size
    block = np.repeat(np.arange(n_blocks), size)
    transitions = np.full((n, 2, n), leave / n)
    for state in range(n):
        inside = np.flatnonzero(block == block[state])
        transitions[state][:, inside] += (1 - leave) * rng.dirichlet(np.ones(size), size=2)
    return ca.MDP(transitions, rng.random((n, 2)), discount=discount, state_names=names), block


@pytest.mark.parametrize("horizon", [None, 7, "average"])
def test_names_make_groups_and_their_flows_are_those_of_the_states(horizon):
    names = [f"stock {block}, day {day}" for block in range(8) for day in range(12)]
    mdp, block = blocks(names=names, discount=0.95 if horizon is None else 1.0)
    solution = as_one_table(ca.solve(ca.Problem(mdp, horizon=horizon)))
    found = grouped(solution)
    small = found.solution
    assert small.mdp.state_names == tuple(f"stock {number} (12 states)" for number in range(8))
    assert "names" in found.how
    spent = np.array([solution.certificate.visits.pairs[block == number].sum(axis=0) for number in range(8)])
    assert small.certificate.visits.pairs == pytest.approx(spent)
    # the time between two groups is the time between their states
    chain = solution.mdp.under(solution.policy)
    flow = solution.certificate.visits.pairs.sum(axis=1)[:, None] * chain.toarray()
    wanted = np.add.reduceat(np.add.reduceat(flow, np.arange(0, 96, 12), axis=0), np.arange(0, 96, 12), axis=1)
    got = small.certificate.visits.pairs.sum(axis=1)[:, None] * small.mdp.under(small.policy).toarray()
    assert got == pytest.approx(wanted, abs=1e-12)


def test_without_telling_names_states_are_with_the_centre_that_is_reached_first():
    mdp, block = blocks()
    found = grouped(ca.solve(ca.Problem(mdp)))
    assert len(found.solution.mdp.state_names) == N_CENTRES
    # the most visited states may share a block; every block with one of them is a union of groups
    small = found.solution.certificate.visits.pairs.sum(axis=1)
    assert small.sum() == pytest.approx(1.0)
    shares = ca.solve(ca.Problem(mdp)).occupancy.sum(axis=1)
    busiest = np.argsort(-shares, kind="stable")[:N_CENTRES]
    names = [name.split(" (")[0] for name in found.solution.mdp.state_names]
    assert names == [f"around state {state}" for state in busiest]
    for number in set(block[busiest]):
        inside = [place for place, state in enumerate(busiest) if block[state] == number]
        assert small[inside].sum() >= shares[block == number].sum() - 1e-9


def test_small_models_are_shown_as_they_are():
    assert grouped(ca.solve(ca.worlds.problem("queue"))) is None
    assert grouped(ca.solve(ca.worlds.problem("maze"))) is None


def test_the_page_of_a_large_model_has_groups(tmp_path):
    mdp, _ = blocks()
    solution = ca.solve(ca.Problem(mdp, ca.PeakExposure([range(12)]), caution=5.0))
    solution.report(tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text()
    assert "96 states, shown here in groups" in text
    assert "around state" in text
