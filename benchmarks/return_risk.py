"""Risks of the return over all policies that remember: ``cautious bench return-risk [--quick]``.

Processor seconds of one solve each, the gap relative to the range of the return, what the policy remembers, and the
peak of memory; the same for growing random models and for smaller gaps, and for 30 cautions in one call. The exact
mean, variance and CVaR stand beside those of simulated episodes. Model files may be measured as well: ``--files``.
"""

import argparse
import math
import time
from pathlib import Path
from typing import Any

import numpy as np

import cautious as ca
from _memory import Watch
from cautious.arrays import Array
from cautious.returns.earnings import earnings_of
from cautious.returns.forward import follow

DISCOUNT = 0.9


def ruin(discount: float) -> ca.MDP:
    """A gambler with 0 to 10 units bets some of them, no more than are missing to 10; a bet is won with chance .7.

    What is won or lost is the reward; with 0 or 10 units nothing can be bet any more.
    """
    most, chance = 10, 0.7
    shape = (most + 1, most // 2 + 1, most + 1)
    transitions, rewards = np.zeros(shape), np.zeros(shape)
    allowed = np.zeros(shape[:2], np.bool_)
    for units in range(most + 1):
        for bet in range(min(units, most - units) + 1):
            allowed[units, bet] = True
            transitions[units, bet, units + bet] += chance
            transitions[units, bet, units - bet] += 1 - chance
            rewards[units, bet, units + bet], rewards[units, bet, units - bet] = bet, -bet
    return ca.MDP(transitions, rewards, discount, allowed=allowed)


WORLDS = {
    "river swim": ca.worlds.river_swim,
    "machine replacement": ca.worlds.machine_replacement,
    "inventory": ca.worlds.inventory,
    "forest": ca.worlds.forest,
    "ruin": ruin,
}
TAILS = (0.05, 0.25, 0.5)
# relative to the objective for the variance, and to the range of the return for CVaR
VARIANCE_TOLERANCE, CVAR_TOLERANCE = 1e-6, 1e-3
# a caution at which variance matters: this over the range of the return
VARIANCE_CAUTION = 10.0
CAUTIONS = VARIANCE_CAUTION * np.geomspace(0.1, 10.0, 30)
EPISODES = 100_000


def return_range(mdp: ca.MDP) -> float:
    """From the least return that rewards allow to the largest."""
    least, largest = mdp.reward_range
    return (largest - least) / (1 - mdp.discount)


def tolerance_of(mdp: ca.MDP, risk: ca.Risk, caution: float, share: float) -> float:
    """What ``ca.solve`` takes, relative to the objective, for a gap of this share of the range of the return."""
    coarse = ca.solve(ca.Problem(mdp, risk, caution), tolerance=0.1)
    return share * return_range(mdp) / max(1.0, abs(coarse.objective) + coarse.gap)


def cases(mdp: ca.MDP) -> list[tuple[ca.Risk, float, float]]:
    """(risk, caution, tolerance): the variance, and each tail."""
    found: list[tuple[ca.Risk, float, float]] = [
        (ca.ReturnVariance(), VARIANCE_CAUTION / return_range(mdp), VARIANCE_TOLERANCE)
    ]
    for tail in TAILS:
        risk = ca.ReturnCVaR(1 - tail)
        found.append((risk, 1.0, tolerance_of(mdp, risk, 1.0, CVAR_TOLERANCE)))
    return found


def solved(
    name: str, mdp: ca.MDP, risk: ca.Risk, caution: float, tolerance: float, limit: float
) -> tuple[dict[str, Any], ca.Solution]:
    """The figures of one solve, and its solution."""
    watch, started = Watch(), time.process_time()
    solution = ca.solve(ca.Problem(mdp, risk, caution), tolerance=tolerance, time_limit_seconds=limit)
    seconds, memory = time.process_time() - started, solution.memory_policy
    row = {
        "model": name,
        "states": mdp.n_states,
        "risk": solution.risk_label,
        "tolerance": tolerance,
        "status": solution.status.name,
        "seconds": seconds,
        "gap_of_range": solution.gap / return_range(mdp),
        "relative_gap": solution.gap / max(1.0, abs(solution.objective)),
        "memories": 1 if memory is None else memory.n_memories,
        "megabytes": watch.beyond(),
    }
    return row, solution


def line(row: dict[str, Any]) -> str:
    megabytes = "" if row["megabytes"] is None else f"{row['megabytes']:,.0f}"
    what = f"| {row['model']} | {row['states']:,} | {row['risk']} | {row['tolerance']:.0e} | {row['status']} "
    gaps = f"| {row['gap_of_range']:.1e} | {row['relative_gap']:.1e} "
    return f"{what}{gaps}| {row['seconds']:.2f} | {row['memories']:,} | {megabytes} |"


def simulated(returns: Array, level: float | None) -> dict[str, tuple[float, float]]:
    """Mean, variance and CVaR of some returns, each with its standard error."""
    n, mean, variance = returns.size, float(returns.mean()), float(returns.var(ddof=1))
    found = {
        "mean": (mean, math.sqrt(variance / n)),
        "variance": (variance, float(np.std((returns - mean) ** 2)) / math.sqrt(n)),
    }
    if level is not None:
        at = float(np.quantile(returns, 1 - level))
        # the mean of these is the CVaR, and moves of the quantile change it in second order only
        losses = np.maximum(at - returns, 0.0) / (1 - level) - at
        found["CVaR"] = float(losses.mean()), float(losses.std()) / math.sqrt(n)
    return found


def agreement(row: dict[str, Any], mdp: ca.MDP, risk: ca.Risk, solution: ca.Solution, episodes: int) -> dict[str, Any]:
    """What is known of the policy's return without simulation, as intervals, and simulated."""
    memory = solution.memory_policy
    assert memory is not None
    returns = follow(earnings_of(mdp, memory.middle).with_steps(memory.n_steps), memory).returns
    level = risk.level if isinstance(risk, ca.ReturnCVaR) else None
    exact = {
        "mean": (returns.expectation, returns.expectation),
        "variance": (returns.variance, returns.variance),
        # returns that end in the same cell are not told apart
        "CVaR": (0.0, 0.0) if level is None else returns.cvar(level),
    }
    evaluation = ca.evaluate(mdp, solution, episodes=episodes)
    told = {
        what: {"exact": exact[what], "simulated": value, "standard_error": error}
        for what, (value, error) in simulated(evaluation.returns, level).items()
    }
    return row | {"simulated": told, "truncation_error": evaluation.truncation_error}


def agreement_line(row: dict[str, Any]) -> str:
    cells = []
    for told in row["simulated"].values():
        exact = " to ".join(dict.fromkeys(f"{end:.6g}" for end in told["exact"]))
        cells.append(f"{exact} | {told['simulated']:.6g} ± {told['standard_error']:.2g}")
    cells += [" | "] * (3 - len(cells))
    return f"| {row['model']}, {row['states']:,} states | {row['risk']} | {' | '.join(cells)} |"


def plain_row(name: str, mdp: ca.MDP, limit: float) -> dict[str, Any]:
    """The best policy without memory that is found, beside the best with memory, at the tail of 5 %."""
    risk, started = ca.ReturnCVaR(1 - TAILS[0]), time.process_time()
    problem, tolerance = ca.Problem(mdp, risk), tolerance_of(mdp, risk, 1.0, CVAR_TOLERANCE)
    plain = ca.solve(problem, tolerance=tolerance, time_limit_seconds=limit, memory=False)
    seconds = time.process_time() - started
    best = ca.solve(problem, tolerance=tolerance, time_limit_seconds=limit)
    return {
        "model": name,
        "plain": plain.objective,
        "unsure": plain.certificate.objective_error,
        "best": best.objective,
        "upper_bound": min(plain.upper_bound, best.upper_bound),
        "seconds": seconds,
    }


def plain_line(row: dict[str, Any]) -> str:
    figures = f"{row['plain']:.6g} (known to {row['unsure']:.1g}) | {row['best']:.6g} | {row['upper_bound']:.6g}"
    return f"| {row['model']} | {figures} | {row['seconds']:.2f} |"


def frontier_row(name: str, mdp: ca.MDP, limit: float) -> dict[str, Any]:
    """Thirty cautions about that of the table in one call."""
    started = time.process_time()
    cautions = CAUTIONS / return_range(mdp)
    points = ca.frontier(
        mdp, ca.ReturnVariance(), cautions, tolerance=VARIANCE_TOLERANCE, time_limit_seconds=limit / len(cautions)
    )
    return {
        "model": name,
        "points": len(points),
        "solved": sum(point.status is ca.Status.SOLVED for point in points),
        "seconds": time.process_time() - started,
        "relative_gap": max(point.gap / max(1.0, abs(point.objective)) for point in points),
    }


def main(quick: bool = False, arguments: list[str] | None = None) -> list[dict[str, Any]]:
    parser = argparse.ArgumentParser(prog="cautious bench return-risk", description=__doc__)
    parser.add_argument("--worlds", default="river swim" if quick else ",".join(WORLDS))
    parser.add_argument("--files", default="", help="model files, read with discount .9")
    parser.add_argument("--states", default="30" if quick else "10,100,1000", help="of random models; '' for none")
    parser.add_argument(
        "--tolerances", default="1e-2" if quick else "1e-2,1e-4,1e-5", help="of CVaR on the first world"
    )
    parser.add_argument("--episodes", type=int, default=10_000 if quick else EPISODES)
    parser.add_argument("--frontier", default="" if quick else "river swim,ruin", help="worlds with 30 cautions")
    parser.add_argument("--plain", default="" if quick else "river swim,ruin", help="worlds without memory as well")
    parser.add_argument("--limit", type=float, default=30.0, help="seconds for a solve")
    given = parser.parse_args(arguments or [])
    models = {name: WORLDS[name](discount=DISCOUNT) for name in filter(None, given.worlds.split(","))}
    models |= {Path(f).stem: ca.read_model(f, discount=DISCOUNT) for f in filter(None, given.files.split(","))}
    sizes = [int(size) for size in filter(None, given.states.split(","))]
    garnets = [("garnet", ca.worlds.garnet(size, 4, 5, discount=DISCOUNT, seed=1)) for size in sizes]
    # what the first solve loads is not part of any
    ca.solve(ca.Problem(ca.worlds.river_swim(3, discount=0.5), ca.ReturnCVaR(0.5)), tolerance=0.1)
    print("| model | states | risk | tolerance | status | gap of the range | relative gap | CPU s | memories | MB |")
    print("|---" * 10 + "|")
    rows: list[dict[str, Any]] = []
    for name, mdp in [*models.items(), *garnets]:
        for risk, caution, tolerance in cases(mdp):
            row, solution = solved(name, mdp, risk, caution, tolerance, given.limit)
            print(line(row), flush=True)
            rows.append(agreement(row, mdp, risk, solution, given.episodes))
    if models:
        name, mdp = next(iter(models.items()))
        risk = ca.ReturnCVaR(1 - TAILS[0])
        for share in map(float, filter(None, given.tolerances.split(","))):
            row, _ = solved(name, mdp, risk, 1.0, tolerance_of(mdp, risk, 1.0, share), given.limit)
            print(line(row), flush=True)
            rows.append(row)
    print(f"\n{given.episodes:,} episodes:\n")
    print("| model | risk | mean | simulated | variance | simulated | CVaR | simulated |")
    print("|---" * 8 + "|")
    for row in rows:
        if "simulated" in row:
            print(agreement_line(row))
    plain = [plain_row(name, models[name], given.limit) for name in filter(None, given.plain.split(","))]
    if plain:
        print("\n| model | objective without memory | with memory | bound of both | CPU s |")
        print("|---" * 5 + "|")
    for row in plain:
        print(plain_line(row), flush=True)
    rows += plain
    for name in filter(None, given.frontier.split(",")):
        row = frontier_row(name, models[name], given.limit)
        told = f"{row['solved']} of {row['points']} cautions solved in {row['seconds']:.1f} CPU s"
        print(f"\n{name}, variance: {told}, largest relative gap {row['relative_gap']:.1e}", flush=True)
        rows.append(row)
    return rows


if __name__ == "__main__":
    import sys

    main(arguments=sys.argv[1:])
