"""``check`` and ``convert``: what a model is, and the same model in another file."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cautious.commands import completion, problems
from cautious.commands.progress import Bar
from cautious.commands.shared import AsJson, Quiet, check_outputs, print_json, print_table

if TYPE_CHECKING:
    from cautious import MDP

# what PRISM keeps beside the transitions
BESIDE_TRA = (".lab", ".srew", ".trew", ".sta")


@problems.with_model_options
def check(
    problem: problems.ProblemName,
    options: problems.ModelOptions = problems.NO_OPTIONS,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Say what a model is, and what looks suspicious about it.

    Example: cautious check machine_replacement
    """
    import cautious as ca
    from cautious.report.text_tables import Table

    with Bar(f"reading {problem}", quiet or as_json) as bar:
        mdp, asked = problems.read_any(problem, options)
        bar.show("inspecting")
        found = ca.inspect_model(mdp)
    if as_json:
        told = ("none", 1.0) if asked is None else (asked.risk_label, asked.caution)
        print_json({"problem": problem, "risk": told[0], "caution": told[1]} | asdict(found))
        return
    note = problems.start_note(problem, options, mdp)
    fitting = [] if asked is not None or mdp.discount < 1 else _fitting_horizons(mdp)
    rows = [(fact, note if fact == "start" and note is not None else value) for fact, value in found.table()]
    if asked is not None and asked.mdp.horizon is not None:
        rows.append(("horizon", f"{asked.mdp.horizon}"))
    if asked is not None and asked.unbound_risk is not None:
        rows += [("risk", asked.risk_label), ("caution", f"{asked.caution:g}")]
    rows += fitting
    print_table(Table(f"{found.title} ({problem})" if found.title else problem, ("fact", "value"), tuple(rows)))
    if not found.suspicions:
        typer.echo("Nothing looks suspicious.")
    for sentence in found.suspicions:
        typer.echo(f"Suspicious: {sentence}.")


def _fitting_horizons(mdp: "MDP") -> list[tuple[str, str]]:
    """For a model without discount: each horizon, and whether it fits or why not."""
    from cautious import InputError, Problem

    rows = [("horizon: some steps", "fits, such as --horizon 24")]
    words: tuple[Literal["average", "total"], ...] = ("average", "total")
    for word in words:
        try:
            Problem(mdp, horizon=word)
            answer = f"fits: --horizon {word}"
        except InputError as error:
            answer = "does not fit: " + str(error).removeprefix(f'horizon="{word}": ')
        rows.append((f"horizon: {word}", answer))
    return rows


@problems.with_model_options
def convert(
    problem: problems.ProblemName,
    out: Annotated[
        Path,
        typer.Argument(
            metavar="OUT",
            help="The file to write; its suffix says the format: .npz, .umb, .tra, .csv, .parquet, .arrow, .mat.",
            autocompletion=completion.files,
        ),
    ],
    force: Annotated[bool, typer.Option("--force", help="Overwrite files that are there.")] = False,
    options: problems.ModelOptions = problems.NO_OPTIONS,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Write the model of a problem to a file of another format.

    Example: cautious convert machine_replacement machine.tra

    Example: cautious convert gym:Taxi-v4 taxi.npz --discount 0.99 --at-end absorb
    """
    from cautious import FileError
    from cautious.models.files import format_of
    from cautious.regular_files import exists

    chosen = format_of(out, "cannot write ")
    check_outputs([out])
    in_the_way = [path for path in _files_of(out) if exists(path)]
    if in_the_way and not force:
        raise FileError(f"{in_the_way[0]} exists; --force overwrites it")
    with Bar(f"reading {problem}", quiet or as_json) as bar:
        mdp, _ = problems.read_any(problem, options)
        bar.show(f"writing {out}")
        mdp.save(out)
    sizes = {str(path): path.stat().st_size for path in _files_of(out) if exists(path)}
    if as_json:
        print_json({"format": chosen.name, "n_states": mdp.n_states, "n_actions": mdp.n_actions, "files": sizes})
        return
    typer.echo(f"{mdp.n_states:,} states, {mdp.n_actions:,} actions, as {chosen.name}")
    for path, size in sizes.items():
        typer.echo(f"written: {path} ({size:,} bytes)")
    if chosen.companion:
        typer.echo(f"{out.name}.json holds what the format has no place for: {chosen.companion}")


def _files_of(out: Path) -> list[Path]:
    """The files a model may be written to."""
    beside = [out.with_suffix(suffix) for suffix in BESIDE_TRA] if out.suffix.lower() == ".tra" else []
    return [out, *beside, out.with_name(out.name + ".json")]
