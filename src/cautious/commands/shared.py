"""What the commands share: options, exit codes, numbers that were typed, and output.

Only the standard library and typer are imported at the top: ``cautious --help`` must answer at once.
"""

import json
import math
import shlex
import sys
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from cautious import Solution
    from cautious.report.text_tables import Table

SOLVED, WRONG_INPUT, INFEASIBLE, LIMIT, INTERRUPTED = 0, 2, 3, 4, 130
BYTES = {"": 1.0, "KB": 1e3, "MB": 1e6, "GB": 1e9}
RISK_FORMS = (
    "variance, entropy, cvar:LEVEL, safe:SLACK:STATES, peak:STATES/STATES, kl:FILE, tv:FILE, quadratic:FILE, "
    "return-variance, return-cvar:LEVEL, return-evar:LEVEL, return-entropic:RATE, return-below:THRESHOLD"
)

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="No progress bar.")]
RiskText = Annotated[
    str | None,
    typer.Option("--risk", help=f"{RISK_FORMS}; sums such as '2*variance+entropy'. Default: the problem's own."),
]
Caution = Annotated[float | None, typer.Option(help="Units of return one unit of risk is worth.")]
Seed = Annotated[int, typer.Option(help="Same seed, same numbers.")]
HorizonText = Annotated[
    str | None,
    typer.Option(
        "--horizon",
        metavar="STEPS|average|total",
        help="How far to look ahead: so many steps, the reward per step in the long run, or all until an absorbing "
        "state. Default: the problem's own, or discounted for ever.",
    ),
]
Tolerance = Annotated[float, typer.Option(help="Relative gap that counts as solved.")]
TimeLimit = Annotated[float | None, typer.Option(help="Seconds after which the best policy so far is returned.")]
Threads = Annotated[int | None, typer.Option(help="At most this many. Default: all cores where that pays.")]
MemoryLimit = Annotated[
    str | None, typer.Option(help="What may be added to the memory in use, such as 500MB or 2GB. Default: no limit.")
]
Deterministic = Annotated[
    bool | None,
    typer.Option(
        "--deterministic/--mixed",
        help="The best policy that takes one action in every state, or one that may mix actions. Default: the file's.",
    ),
]
WithMemory = Annotated[
    bool | None,
    typer.Option(
        "--memory/--no-memory",
        help="With a risk of the return: the best policy that remembers what was earned, or one that does not. "
        "Default: the file's, or with memory.",
    ),
]
LIMIT_FORMS = "'time:broken<=2%', 'ever:STATES<=0.1', 'return:FILE>=40', or a risk such as 'kl:FILE<=0.3'"
LimitTexts = Annotated[
    list[str] | None,
    typer.Option(
        "--limit",
        metavar="MEASURE<=BOUND",
        help=f"What must hold; may be given several times: {LIMIT_FORMS}. In quotes, for the shell.",
    ),
]
ReportFile = Annotated[Path | None, typer.Option(help="Write an HTML page about the solution.")]
SolutionFile = Annotated[Path | None, typer.Option(help="Save the solution (.npz).")]
WithWitness = Annotated[
    bool, typer.Option("--witness", help="Save what the proof rests on too, for cautious verify; needs --out.")
]
PolicyCsv = Annotated[
    Path | None,
    typer.Option(
        help="Write the policy (.csv): state, action, probability, share_of_time; with a step where it has some."
    ),
]


def as_bytes(text: str | None) -> float | None:
    """A --memory-limit in bytes."""
    from cautious import InputError

    if text is None:
        return None
    digits = text.upper().rstrip("KMGB ")
    unit = text.upper().removeprefix(digits).strip()
    try:
        return float(digits) * BYTES[unit]
    except (ValueError, KeyError):
        raise InputError(f"--memory-limit {text!r}: expected a number of bytes, KB, MB or GB, such as 2GB") from None


def whole_number(option: str, text: str) -> int:
    """A whole number of at least 1, written as ``1e6``, ``1_000_000`` or ``1000000``."""
    from cautious import InputError

    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number) or number < 1 or number != int(number):
        raise InputError(f"{option} {text!r}: expected a whole number of at least 1, such as 1000000 or 1e6")
    return int(number)


def horizon_of(text: str | None) -> Any:
    """A --horizon: a whole number of steps, or a word that the library checks."""
    if text is None or text in ("average", "total"):
        return text
    from cautious import InputError

    try:
        return whole_number("--horizon", text)
    except InputError:
        raise InputError(
            f"--horizon {text!r}: expected a number of steps, such as 24, or average (per step, in the long run) or "
            "total (until an absorbing state)"
        ) from None


def numbers_in(option: str, text: str, expected: str, count: int | None = None) -> list[float]:
    """Numbers or percentages separated by commas; an error says what was ``expected``."""
    from cautious import InputError

    def value(part: str) -> float:
        return float(part[:-1]) / 100 if part.endswith("%") else float(part)

    try:
        numbers = [value(part.strip()) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or (count is not None and len(numbers) != count):
        raise InputError(f"{option} {text!r}: expected {expected}")
    return numbers


def check_outputs(files: Iterable[Path | None], drawings: Iterable[Path | None] = ()) -> None:
    """Refuse now, before any work, outputs that could not be written: no such folder, or a missing extra."""
    from cautious.regular_files import check_writable
    from cautious.report.canvas import require_matplotlib

    drawn = [path for path in drawings if path is not None]
    for path in [*(path for path in files if path is not None), *drawn]:
        check_writable(path)
    if drawn:
        require_matplotlib()


def write_solution(
    solution: "Solution", out: Path | None, policy_csv: Path | None, report: Path | None, witness: bool = False
) -> None:
    """Write the files about a solution that were asked for."""
    from cautious.report.solution_page import write_report
    from cautious.report.writing import write_policy

    if out is not None:
        solution.save(out, witness=witness)
    if policy_csv is not None:
        write_policy(solution, policy_csv)
        if solution.memory_policy is not None:
            typer.echo(
                f"{policy_csv} has how often each action is taken in a state: this policy remembers what was earned, "
                "and a table without memory is another policy. --out keeps the policy itself.",
                err=True,
            )
    if report is not None:
        write_report(solution, report, command=this_command())


def exit_code(solution: "Solution") -> int:
    """0 solved or learned, 3 infeasible, 130 interrupted, 4 anything else without a proof."""
    codes = {"SOLVED": SOLVED, "ESTIMATED": SOLVED, "INFEASIBLE": INFEASIBLE, "STOPPED": INTERRUPTED}
    return codes.get(solution.status.name, LIMIT)


def summary(solution: "Solution") -> dict[str, Any]:
    """The figures of a solution for --json; what is not finite becomes null."""
    names = ("objective", "expected_return", "risk", "upper_bound", "gap", "caution", "tolerance", "seconds")
    return {
        "status": solution.status.name,
        **{name: plain(getattr(solution, name)) for name in names},
        "risk_label": solution.risk_label,
        "method": solution.method,
        "steps": solution.steps,
        "memory_bytes": solution.memory_bytes,
        "constraints": [
            {key: plain(value) if isinstance(value, float) else value for key, value in asdict(row).items()}
            for row in solution.constraints
        ],
        "certificate": {"kind": solution.certificate.kind, "statement": solution.certificate.statement},
        "horizon": solution.horizon,
        "n_states": solution.mdp.n_states,
        "n_actions": solution.mdp.n_actions,
    }


def this_command() -> str:
    """The command that was typed, for a page that says how to reproduce it."""
    return shlex.join(["cautious", *sys.argv[1:]])


def plain(value: float | None) -> float | None:
    """The value for JSON: None where it is missing or not finite."""
    return None if value is None or not math.isfinite(value) else float(value)


def print_json(content: Any) -> None:
    """One JSON document on standard output."""
    typer.echo(json.dumps(content, indent=2, ensure_ascii=False))


def print_table(table: "Table") -> None:
    """A report table on the terminal."""
    from rich.console import Console

    Console().print(table.rich())


def print_solution(solution: "Solution") -> None:
    """Its figures, and what the policy does in the states it visits most."""
    from cautious.report.limit_words import impossible_words, limit_words, shown_constraints
    from cautious.report.sentences import cost_of_one_action, earned_words
    from cautious.report.text_tables import busiest_table, solution_table
    from cautious.report.words import unit_after

    print_table(solution_table(solution))
    if math.isfinite(solution.objective) and unit_after(solution.mdp):
        typer.echo(f"{earned_words(solution)}.")
    if words := cost_of_one_action(solution):
        typer.echo(words)
    for row in shown_constraints(solution):
        typer.echo(limit_words(row, solution.mdp, solution.gap, math.isfinite(solution.objective)))
    if words := impossible_words(solution):
        typer.echo(words)
    print_table(busiest_table(solution))


def print_files(written: Mapping[str, Path | None]) -> None:
    """A line for every file that was written."""
    for label, path in written.items():
        if path is not None:
            typer.echo(f"{label}: {path}")
