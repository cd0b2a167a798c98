"""Seconds that problems with three exposure limits take, and those of CVXPY's solvers: ``cautious bench constraints``.

The limits are halfway between a random policy's behaviour and the best policy without limits, so that a mixture of the
two keeps them. Every method has a process and one thread of its own, and its policy is judged by our code: see
``ca.compare``. The ratio is the time of the fastest other method that calls its answer optimal, over ours; the policies
of most of them miss a limit by rounding, and none is excluded for that.
"""

import argparse
from typing import Any

import cautious as ca
from _case import CAUTIONS, _Data, model, risk_of

SOLVERS = {"none": ("HIGHS", "HIGHS IPM"), "KL": ("CLARABEL",), "Quadratic": ("CLARABEL", "PIQP")}
LARGEST_COMPARED = 10_000


def problem_of(name: str, kind: str, n_states: int, discount: float) -> ca.Problem:
    mdp = model(kind, n_states, discount)
    data, neutral = _Data(kind, mdp), ca.solve(ca.Problem(mdp)).occupancy
    middle = (data.random_occupancy + neutral) / 2
    limits = [ca.Exposure(zone) <= float(middle[zone].sum()) for zone in data.zones]
    return ca.Problem(mdp, risk_of(name, kind, mdp), CAUTIONS.get(name, 1.0), limits)


def run(name: str, kind: str, n_states: int, discount: float, limit: float) -> dict[str, Any]:
    problem = problem_of(name, kind, n_states, discount)
    methods = ["linear limits", *(SOLVERS[name] if n_states <= LARGEST_COMPARED else ())]
    ours, *others = ca.compare(problem, methods, time_limit_seconds=limit).rows
    best = min((row.seconds for row in others if row.status == "optimal" and row.seconds), default=None)
    return {
        "risk": name,
        "model": kind,
        "states": n_states,
        "status": ours.status,
        "seconds": ours.seconds,
        "gap": ours.gap,
        "others": {row.method: (row.status, row.seconds) for row in others},
        "ratio": None if best is None else best / ours.seconds,
    }


def main(quick: bool = False, arguments: list[str] | None = None) -> list[dict[str, Any]]:
    parser = argparse.ArgumentParser(prog="cautious bench constraints", description=__doc__)
    parser.add_argument("--states", default="100" if quick else "1000,10000,100000")
    parser.add_argument("--models", default="grid,garnet")
    parser.add_argument("--risks", default=",".join(SOLVERS))
    parser.add_argument("--discount", type=float, default=0.95)
    parser.add_argument("--limit", type=float, default=100.0, help="seconds for a solve")
    given = parser.parse_args(arguments or [])
    rows = []
    print("| risk | model | states | seconds | gap | others | ratio |\n|---|---|---|---|---|---|---|")
    for size in map(int, given.states.split(",")):
        for name in given.risks.split(","):
            for kind in given.models.split(","):
                row = run(name, kind, size, given.discount, given.limit)
                told = [
                    f"{method} {'' if s is None else f'{s:.2f}'} {how}" for method, (how, s) in row["others"].items()
                ]
                ratio = "" if row["ratio"] is None else f"{row['ratio']:.1f}"
                status = "" if row["status"] == "SOLVED" else f" ({row['status']})"
                figures = f"{row['seconds']:.3f}{status} | {row['gap']:.1e} | {'; '.join(told)} | {ratio}"
                print(f"| {name} | {kind} | {size:,} | {figures} |", flush=True)
                rows.append(row)
    return rows


if __name__ == "__main__":
    import sys

    main(arguments=sys.argv[1:])
