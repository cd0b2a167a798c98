"""Code that leads to a solution, or to a frontier, again."""

import re
from collections.abc import Sequence

from cautious.report.words import RISKS, is_learned, is_neutral
from cautious.solution import Solution

NO_DATA = {"Variance", "Entropy"}
DATA_NOTE = "    # ...: the data you gave the risk"
LOG_NOTE = "    # ...: the log and what you said of it"
READ = 'mdp = ca.read_model("model.npz")    # the model of this page: solution.mdp.save("model.npz")'


def reproduction(solution: Solution, command: str | None = None) -> str:
    """Code that leads to this solution again."""
    learned, facts = is_learned(solution), solution.certificate.facts
    logged = learned and "rows as evidence" in facts
    arguments = "logged" if logged else "simulator" if learned else "mdp"
    note = ""
    if not is_neutral(solution):
        recipe = _recipe(solution.risk_label)
        arguments += f", {recipe}, caution={solution.caution!r}"
        note = DATA_NOTE if "..." in recipe else ""
    if logged:
        lines = [
            f"logged = ca.from_transitions(..., discount={solution.mdp.discount!r}){LOG_NOTE}",
            f"learned = ca.learn({arguments}, seed={facts['seed']}){note}",
            'learned.report("report.html")',
        ]
    elif learned:
        run = f"samples={facts.get('budget')}, method={_method(solution)}, seed={facts.get('seed')}"
        lines = [f"learned = ca.learn({arguments}, {run}){note}", 'learned.report("report.html")']
    else:
        lines = [
            READ,
            f"problem = ca.Problem({arguments}){note}",
            f"solution = ca.solve(problem, tolerance={solution.tolerance!r})",
            'solution.report("report.html")',
        ]
    return _script(lines, command)


def _method(solution: Solution) -> str:
    """The method by its name, or with its settings where some were chosen."""
    settings = str(solution.certificate.facts.get("settings", ""))
    if not settings:
        return f'"{solution.method}"'
    return re.sub(r"\b([A-Z]\w*)\(", r"ca.\1(", settings)


def frontier_reproduction(solutions: Sequence[Solution], command: str | None = None) -> str:
    """Code that leads to these solutions again."""
    last = solutions[-1]
    cautions = ", ".join(f"{one.caution!r}" for one in solutions)
    recipe = _recipe(last.risk_label if last.problem is None else last.problem.risk_label)
    note = DATA_NOTE if "..." in recipe else ""
    call = f"points = ca.frontier(mdp, {recipe}, [{cautions}], tolerance={last.tolerance!r}){note}"
    return _script([READ.replace("solution.", "points[0]."), call, 'points.report("report.html")'], command)


def _script(lines: Sequence[str], command: str | None) -> str:
    shell = [] if command is None else [f"# on the command line: {command}", ""]
    return "\n".join([*shell, "import cautious as ca", "", *lines])


def _recipe(label: str) -> str:
    return " + ".join(_risk_code(part) for part in label.split(" + "))


def _risk_code(part: str) -> str:
    weight, _, name = part.rpartition("*")
    kind = re.split(r"[ (]", name, maxsplit=1)[0]
    if kind in NO_DATA:
        text = f"ca.{kind}()"
    elif kind == "CVaR":
        text = f"ca.{name}"
    else:
        text = f"ca.{kind}(...)" if kind in RISKS else f"{kind}(...)"
    return f"{weight} * {text}" if weight else text
