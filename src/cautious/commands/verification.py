"""``verify``: is what a saved solution claims true?"""

from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer

from cautious.commands import completion, shared


def verify(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A solution saved with its witness (.npz): cautious solve PROBLEM --out FILE --witness.",
            autocompletion=completion.files,
        ),
    ],
    as_json: shared.AsJson = False,
) -> None:
    """Check the proof of a saved solution in exact arithmetic, from the file alone.

    Exit codes: 0 proved, 2 wrong input, 4 not proved.

    Example: cautious verify solution.npz
    """
    import cautious as ca

    found = ca.verify(file)
    if as_json:
        numbers = {name: getattr(found, name) for name in ("objective", "upper_bound", "gap", "margin")}
        shared.print_json(
            {
                "file": str(file),
                "proved": found.proved,
                "statement": found.statement,
                **{name: shared.plain(_float(number)) for name, number in numbers.items()},
                "exact": {name: _text(number) for name, number in numbers.items()},
            }
        )
    else:
        typer.echo(found.statement)
    raise typer.Exit(shared.SOLVED if found.proved else shared.LIMIT)


def _float(number: Fraction | float) -> float | None:
    """The nearest double; None beyond their range."""
    try:
        return float(number)
    except OverflowError:
        return None


def _text(number: Fraction | float) -> str | None:
    """Numerator and denominator in hexadecimal digits, which have no limit; None for an infinity."""
    if isinstance(number, Fraction):
        return f"{number.numerator:#x}/{number.denominator:#x}"
    return None
