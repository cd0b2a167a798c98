"""``studio``: the browser studio."""

from typing import Annotated

import typer

from cautious.commands.problems import (
    NO_OPTIONS,
    ModelOptions,
    ProblemName,
    read_problem,
    warn_of_deterministic,
    with_model_options,
)
from cautious.commands.shared import SOLVED, AsJson, HorizonText, horizon_of, print_json

# what stands before a problem in a link
SHARED = "#problem="


@with_model_options
def studio(
    problem: ProblemName = "maze",
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on this computer; 0 takes a free one.")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page.")] = True,
    time_limit: Annotated[float, typer.Option(help="Seconds for one answer.")] = 5.0,
    horizon: HorizonText = None,
    options: ModelOptions = NO_OPTIONS,
    as_json: AsJson = False,
) -> None:
    """Paint a grid or open a problem in the browser.

    Example: cautious studio maze

    PROBLEM may also be a link that was copied in a studio.

    Example: cautious studio gym:FrozenLake-v1 --discount 0.99 --at-end absorb --no-browser
    """
    import os
    import sys
    import threading
    import webbrowser

    from cautious import InputError
    from cautious.studio.opening import check_opened
    from cautious.studio.scenario import EXAMPLES
    from cautious.studio.server import Studio, address, close, listen, require_server, serve

    require_server()
    if not 0 < time_limit <= 3600:
        raise InputError(f"--time-limit is {time_limit:g}; it must be a number of seconds above 0 and at most 3600")
    ahead = horizon_of(horizon)
    shared = problem if SHARED in problem else ""
    if shared:
        if options or ahead is not None:
            raise InputError("a link holds a whole problem; open it without other options and change it on the page")
        problem = "maze"
    painted = problem in EXAMPLES and not options and ahead is None
    opened = None if painted else read_problem(problem, options, horizon=ahead)
    if opened is not None:
        check_opened(opened, problem)
        warn_of_deterministic(opened, problem)
    here = Studio(opened, problem, time_limit, shared=shared)
    place = listen(port)
    where = address(here, place)
    if as_json:
        print_json({"address": where, "port": place.getsockname()[1]})
    else:
        typer.echo(f"The studio is at {where}")
        typer.echo("The address lets in whoever has it, from this computer. Ctrl-C ends the studio.")
    if browser:
        # some browsers return only when they are closed
        threading.Thread(target=webbrowser.open, args=(where,), daemon=True).start()
    serve(here, place)
    if not as_json:
        typer.echo("The studio is closed.")
    if not close(here):
        # Python would wait for the threads, and there is nothing to save
        sys.stdout.flush()
        os._exit(SOLVED)
