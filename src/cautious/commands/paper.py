"""``paper``: the paper's experiments and theorems, reproduced into a folder."""

from pathlib import Path
from typing import Annotated

import typer

from cautious.commands.progress import Bar
from cautious.commands.shared import AsJson, Quiet, print_json, print_table, this_command


def paper(
    figure: Annotated[
        list[str] | None, typer.Option(help="1, 2, 3, 4 or theorems; may be given again. Default: all.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer seeds and samples: under a minute.")] = False,
    out: Annotated[Path, typer.Option(help="Folder for the page, figures and numbers; made when missing.")] = Path(
        "paper"
    ),
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Reproduce the paper: each claim, and whether it holds.

    Its section 6 and its theorems, with the evidence, as a page, figures and numbers.

    Example: cautious paper --figure 3 --quick --out paper
    """
    from cautious.paper.evidence import FULL, QUICK, claims_held
    from cautious.paper.reproduce import PARTS, claims_for_machines, reproduce
    from cautious.report.text_tables import Table

    wanted = tuple(dict.fromkeys(figure or PARTS))
    with Bar("reproducing", quiet or as_json) as bar:

        def tell(name: str) -> None:
            what = name if name == "theorems" else f"figure {name}"
            bar.show(what, wanted.index(name), len(wanted))

        parts = reproduce(out, wanted, QUICK if quick else FULL, this_command(), tell)
    if as_json:
        print_json({"page": str(out / "index.html"), "claims": claims_for_machines(parts)})
        return
    rows = tuple(
        (claim.place, claim.said, "holds" if claim.holds else "does not hold")
        for part in parts
        for claim in part.claims
    )
    print_table(Table("", ("where", "what is claimed", "here"), rows))
    typer.echo("{} of {} claims of the paper hold.".format(*claims_held(parts)))
    typer.echo(f"The page to open: {(out / 'index.html').resolve()}")
