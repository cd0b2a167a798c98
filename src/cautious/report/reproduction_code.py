"""Code that leads to a solution, or to a frontier, again."""

import dataclasses
import json
import re
from collections.abc import Sequence

import numpy as np

from cautious.report.words import LabelledRisk, is_learned, is_neutral, risks_in
from cautious.risks.base import Risk, terms_of
from cautious.risks.public import PUBLIC_RISKS
from cautious.solution import Solution

RISKS_WITHOUT_DATA = {"Variance", "Entropy"}
# longer data are written as "..."
MAX_DATA_CHARACTERS = 100
DATA_NOTE = "    # ...: the data you gave the risk or the constraints"
LOG_NOTE = "    # ...: the log and what you said of it"
READ = 'mdp = ca.read_model("model.npz")    # the model of this page: solution.mdp.save("model.npz")'


def reproduction(solution: Solution, command: str | None = None) -> str:
    """Code that leads to this solution again."""
    learned, facts = is_learned(solution), solution.certificate.facts
    logged = learned and "pairs tried" in facts
    arguments = "logged" if logged else "simulator" if learned else "mdp"
    note = ""
    if not is_neutral(solution):
        code = _risk_expression(solution)
        arguments += f", {code}, caution={solution.caution!r}"
        note = DATA_NOTE if "..." in code else ""
    if solution.constraints:
        arguments, note = f"{arguments}, constraints=[...]", DATA_NOTE
    arguments += _horizon_argument(solution)
    if logged:
        lines = [
            f"logged = ca.from_transitions(..., discount={solution.mdp.discount!r}){LOG_NOTE}",
            f"learned = ca.learn({arguments}, seed={facts['seed']}{'' if facts['robust'] else ', robust=False'}){note}",
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


def _horizon_argument(solution: Solution) -> str:
    """In double quotes, as all code on these pages."""
    return "" if solution.horizon is None else f", horizon={json.dumps(solution.horizon)}"


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
    code = _risk_expression(last)
    note = DATA_NOTE if "..." in code else ""
    call = (
        f"points = ca.frontier(mdp, {code}, [{cautions}], tolerance={last.tolerance!r}{_horizon_argument(last)}){note}"
    )
    return _script([READ.replace("solution.", "points[0]."), call, 'points.report("report.html")'], command)


def _script(lines: Sequence[str], command: str | None) -> str:
    shell = [] if command is None else [f"# on the command line: {command}", ""]
    return "\n".join([*shell, "import cautious as ca", "", *lines])


def _risk_expression(solution: Solution) -> str:
    """The risk as code: with its data where the solution knows them and they are short, else "..." for them."""
    problem = solution.problem
    label = solution.risk_label if problem is None else problem.risk_label
    parts = risks_in(label)
    terms = () if problem is None or problem.unbound_risk is None else terms_of(problem.unbound_risk)
    whole = [_whole(risk) for _, risk in terms]
    if len(whole) != len(parts):
        # a solution from a file does not know its data
        whole = [None] * len(parts)
    return " + ".join(_risk_code(part, known) for part, known in zip(parts, whole, strict=True))


def _whole(risk: Risk) -> str | None:
    """One of our risks with all that it was given, or None."""
    if not dataclasses.is_dataclass(risk) or not type(risk).__module__.startswith("cautious."):
        return None
    given = [(field.name, field.default, getattr(risk, field.name)) for field in dataclasses.fields(risk)]
    written = [(name, _literal(value)) for name, default, value in given if value is not default]
    if any(text is None for _, text in written):
        return None
    arguments = [text if name == given[0][0] else f"{name}={text}" for name, text in written]
    return f"ca.{type(risk).__name__}({', '.join(arguments)})"


def _literal(value: object) -> str | None:
    """A number, a text or a list of such, as code; None for the rest, for masks, and for what is long."""
    if isinstance(value, np.ndarray):
        value = None if value.dtype == np.bool_ else value.tolist()
    if isinstance(value, set | frozenset):
        value = sorted(value)
    plain = value.item() if isinstance(value, np.generic) else value
    text = json.dumps(plain, ensure_ascii=False) if _is_plain(plain) else ""
    return text if 0 < len(text) <= MAX_DATA_CHARACTERS else None


def _is_plain(value: object) -> bool:
    """Whether it is written in Python as in JSON."""
    if isinstance(value, list | tuple):
        return all(_is_plain(one) for one in value)
    return isinstance(value, str | int | float) and not isinstance(value, bool) and value not in (np.inf, -np.inf)


def _risk_code(risk: LabelledRisk, known: str | None) -> str:
    if known is not None:
        text = known
    elif risk.kind in RISKS_WITHOUT_DATA:
        text = f"ca.{risk.kind}()"
    elif risk.kind == "CVaR":
        text = f"ca.{risk.name}"
    else:
        text = f"ca.{risk.kind}(...)" if risk.kind in PUBLIC_RISKS else f"{risk.kind}(...)"
    return f"{risk.weight} * {text}" if risk.weight else text
