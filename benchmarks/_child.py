"""The work of one process of the benchmark: requests on standard input, rows on standard output (see ``_workers``).

A request is one line, the fields of ``_rows.Case`` and three more: ``work`` is "solve" or "frontier"; ``solver`` is
"cautious", one that CVXPY calls (``_cvxpy_peers``) or a risk-neutral package (``_planning_peers``); ``limit_seconds``
is the time limit of ``ca.solve``.
"""

import json
import os
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

Say = Callable[[str], object]


def measure(request: dict[str, Any], say: Say) -> dict[str, Any]:
    """The row of one request."""
    import _ours

    if request["solver"] != "cautious":
        return _peer(request, say)
    measured = {"solve": _ours.solve_row, "frontier": _ours.frontier_row}[request["work"]]
    row = measured(request, lambda: say("ready"))
    say("answered")
    return dict(row)


def _peer(request: dict[str, Any], say: Say) -> dict[str, Any]:
    import _case
    import _ours
    import cautious as ca
    from _memory import Watch

    solver, name = request["solver"], request["risk"]
    mdp = _case.model(request["model"], request["n_states"], request["discount"])
    problem = ca.Problem(mdp, _case.risk_of(name, request["model"], mdp), _case.CAUTIONS.get(name, 1.0))
    if solver.split()[0] in ("QuantEcon", "MDPSolver", "Storm"):
        import _planning_peers

        attempt: Callable[[], Any] = partial(_planning_peers.attempt, problem, _planning_peers.prepare(mdp, solver))
    else:
        import _cvxpy_peers

        _cvxpy_peers.warm_up(solver)
        attempt = partial(_cvxpy_peers.attempt, problem, solver)
    watch = Watch()
    say("ready")

    def run() -> dict[str, Any]:
        stats, judgement = attempt()
        return {**stats, "judgement": judgement}

    row: dict[str, Any] = _ours.repeated(run)
    beyond = watch.beyond()
    say("answered")
    judged = row.pop("judgement")()
    return {**row, **judged, "beyond_megabytes": beyond}


def answer(line: str, say: Say) -> dict[str, Any]:
    """The row of a request; an error of a solver is a row that says so (some packages call ``sys.exit``)."""
    request = json.loads(line)
    empty = {"solver": request["solver"], "seconds": None, "gap": None, "objective": None}
    try:
        return empty | measure(request, say)
    except (Exception, SystemExit) as error:
        said = str(error).strip().splitlines()[:1] or [""]
        return empty | {"status": f"failed: {type(error).__name__}: {said[0][:200]}"}


def main() -> None:
    """Answer on the first standard output; whatever solvers print goes to standard error."""
    with os.fdopen(os.dup(1), "w") as answers:
        os.dup2(2, 1)

        def say(line: str) -> None:
            answers.write(line + "\n")
            answers.flush()

        for line in sys.stdin:
            say(json.dumps(answer(line, say)))


if __name__ == "__main__":
    main()
