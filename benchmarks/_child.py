"""The work of one process of the benchmark; see ``cautious.peers.workers``.

A request has the fields of ``_rows.Case`` and three more: ``work`` is "solve" or "frontier"; ``solver`` is "cautious"
or a name of ``cautious.peers.roster``; ``limit_seconds`` is the time limit of ``ca.solve``.
"""

from typing import Any

from cautious.peers.workers import Say, serve


def measure(request: dict[str, Any], payload: bytes, say: Say) -> dict[str, Any]:
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
    import cautious as ca
    from _memory import Watch
    from cautious.peers import child

    name = request["risk"]
    mdp = _case.model(request["model"], request["n_states"], request["discount"])
    problem = ca.Problem(mdp, _case.risk_of(name, request["model"], mdp), _case.CAUTIONS.get(name, 1.0))
    attempt = child.attempt_of(problem, request["solver"])
    watch, beyond = Watch(), {}

    def tell(line: str) -> None:
        if line == "answered":
            # the judgement is ours, and so is its memory
            beyond["beyond_megabytes"] = watch.beyond()
        say(line)

    return child.row(attempt, tell, request["limit_seconds"]) | beyond


if __name__ == "__main__":
    serve(measure)
