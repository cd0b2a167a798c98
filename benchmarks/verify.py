"""Seconds that ``ca.verify`` takes for every risk of the benchmark of ``ca.solve``: ``cautious bench verify``.

The proof is checked as a reader of a file would: from the arrays of the model, the problem, the policy and the witness.
Processor seconds, one run each; the solve before it is not counted. A claim that is not proved is marked.
"""

import argparse
import time
from typing import Any

import cautious as ca
from _case import CAUTIONS, MAKERS, model, risk_of

# a matrix of distances has the square of the states as entries
LARGEST_MATRIX = 2500


def run(name: str, kind: str, n_states: int, discount: float, limit: float) -> dict[str, Any]:
    mdp = model(kind, n_states, discount)
    problem = ca.Problem(mdp, risk_of(name, kind, mdp), CAUTIONS.get(name, 1.0))
    solution = ca.solve(problem, time_limit_seconds=limit)
    started = time.process_time()
    found = ca.verify(solution)
    seconds = time.process_time() - started
    return {
        "risk": name,
        "model": kind,
        "states": n_states,
        "status": solution.status.name,
        "boxes": solution.certificate.facts.get("boxes", 0),
        "seconds": seconds,
        "proved": found.proved,
        "gap": solution.gap,
        "margin": float(found.margin),
    }


def main(quick: bool = False, arguments: list[str] | None = None) -> list[dict[str, Any]]:
    parser = argparse.ArgumentParser(prog="cautious bench verify", description=__doc__)
    parser.add_argument("--states", default="100" if quick else "100,1000,10000")
    parser.add_argument("--models", default="grid,garnet")
    parser.add_argument("--risks", default=",".join(MAKERS))
    parser.add_argument("--discount", type=float, default=0.95)
    parser.add_argument("--limit", type=float, default=100.0, help="seconds for a solve")
    given = parser.parse_args(arguments or [])
    sizes = [int(size) for size in given.states.split(",")]
    print(f"| risk | model | {' | '.join(f'{size:,}' for size in sizes)} | boxes |\n{'|---' * (len(sizes) + 3)}|")
    rows = []
    for name in given.risks.split(","):
        for kind in given.models.split(","):
            line = [
                run(name, kind, size, given.discount, given.limit)
                for size in sizes
                if name != "Wasserstein (matrix)" or size <= LARGEST_MATRIX
            ]
            cells = [f"{row['seconds']:.2f}{'' if row['proved'] else ' (not proved)'}" for row in line]
            cells += [""] * (len(sizes) - len(cells))
            print(f"| {name} | {kind} | {' | '.join(cells)} | {line[-1]['boxes'] or ''} |" if line else "")
            rows += line
    return rows


if __name__ == "__main__":
    import sys

    main(arguments=sys.argv[1:])
