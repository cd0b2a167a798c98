"""The command line: ``cautious solve maze --caution 10 --report maze.html``.

Exit codes: 0 solved or learned, 1 a fault of ours, 2 wrong input, 3 infeasible, 4 limit reached, no proof, or a
simulator that failed, 130 interrupted.
The library is imported inside the commands, so that ``--help`` answers at once.
"""

import sys
import traceback
from typing import Annotated

import typer

from cautious.commands import catalogue, demo, learning, paper, shared, solving
from cautious.errors import CautiousError, SimulatorError, SolveError

app = typer.Typer(
    name="cautious",
    help="Risk-aware policies for Markov decision processes, each with a proof of how good it is.",
    epilog="Exit codes: 0 solved, 2 wrong input, 3 infeasible, 4 limit reached or simulator failed, 130 interrupted.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (
    solving.solve,
    learning.learn,
    solving.frontier,
    solving.evaluate,
    paper.paper,
    catalogue.worlds,
    demo.demo,
    catalogue.warmup,
):
    app.command()(command)
app.command(context_settings=catalogue.PASS_ON)(catalogue.bench)


@app.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error; allowed anywhere.")] = False,
) -> None:
    """Take the options before the command; ``main`` has read --debug already, wherever it stood."""


def main() -> None:
    """Run the command line; errors are one line on standard error, and an exit code."""
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    debug = len(arguments) < len(sys.argv) - 1
    try:
        app(arguments, prog_name="cautious")
    except KeyboardInterrupt:
        sys.exit(_fail("interrupted", debug, shared.INTERRUPTED))
    except (SolveError, SimulatorError) as error:
        sys.exit(_fail(str(error), debug, shared.LIMIT))
    except (CautiousError, OSError) as error:
        sys.exit(_fail(str(error), debug, shared.WRONG_INPUT))
    except Exception as error:
        text = f"unexpected {type(error).__name__}: {error} (--debug shows where)"
        sys.exit(_fail(text, debug, 1))


def _fail(text: str, debug: bool, code: int) -> int:
    if debug:
        traceback.print_exc()
    sys.stderr.write("cautious: " + " ".join(text.split()) + "\n")
    return code
