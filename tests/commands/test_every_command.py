"""A walk over every command: help with an example that runs, and JSON; and every line of the pages that shows one."""

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import typer

import cautious as ca
from cautious import cli

ROOT = Path(__file__).parents[2]
COMMANDS = {(info.name or info.callback.__name__): info.callback.__doc__ for info in cli.app.registered_commands}
EXAMPLE = re.compile(r"^\s*Example: (cautious .*)$", re.MULTILINE)
SH_BLOCK = re.compile(r"^```(?:sh|console)$\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# a file that a page shows under its name
NAMED_FILE = re.compile(r"`([\w-]+\.toml)`:\n\n```toml\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INDENTED = re.compile(r"^    (cautious .*)$", re.MULTILINE)
# tested elsewhere, or minutes of work; and what cannot be undone
LEFT_OUT = (
    "cautious paper",
    "cautious bench",
    "cautious demo",
    "cautious studio",
    "cautious --install-completion",
)


def test_all_commands_of_the_contract_are_there():
    wanted = "solve learn frontier evaluate verify paper check convert compare sweep worlds bench demo studio"
    assert set(COMMANDS) == set(wanted.split())


@pytest.mark.parametrize("command", COMMANDS)
def test_help_has_an_example_and_json(run, command):
    code, out, err = run(command, "--help")
    assert (code, err) == (0, "")
    assert f"Example: cautious {command}" in out
    assert "--json" in out
    assert EXAMPLE.findall(COMMANDS[command])


def examples():
    return [line for text in COMMANDS.values() for line in EXAMPLE.findall(text)]


def quickly(line):
    """The same with fewer samples and our own methods only, as JSON."""
    for slow, quick in (("--samples 1e6", "--samples 2e4"), ("cautious,CLARABEL", "cautious")):
        line = line.replace(slow, quick)
    return [*shlex.split(line.removeprefix("cautious ")), "--json"]


@pytest.mark.parametrize("line", [line for line in examples() if not line.startswith(LEFT_OUT)])
def test_the_example_of_every_command_runs(run, folder, quick_pictures, line):
    pytest.importorskip("gymnasium", reason="extra gym")
    if "solution.npz" in line:
        ca.solve(ca.worlds.problem("maze")).save("solution.npz", witness=True)
    code, out, err = run(*quickly(line))
    assert (code, err) == (0, "")
    assert "error" not in json.loads(out)


def maintenance_log(path):
    """A log of 40 pumps over 36 months, as the page for practitioners describes it."""
    rng = np.random.default_rng(0)
    after = {
        ("good", "run"): (("good", 0.8), ("worn", 0.2)),
        ("good", "service"): (("good", 1.0),),
        ("worn", "run"): (("worn", 0.8), ("failed hard", 0.2)),
        ("worn", "service"): (("good", 0.9), ("worn", 0.1)),
        ("failed hard", "run"): (("failed hard", 1.0),),
        ("failed hard", "service"): (("good", 1.0),),
    }
    income = {"good": 2000, "worn": 1500, "failed hard": 0}
    lines = ["pump,month,condition,action,income,next_condition,orders,served"]
    for pump in range(40):
        condition = "good"
        for month in range(36):
            action = str(rng.choice(["run", "service"]))
            names, chances = zip(*after[condition, action], strict=True)
            reached = str(rng.choice(names, p=chances))
            earned = income[condition] - (900 if action == "service" else 0)
            served = 10 if condition != "failed hard" else 6
            lines.append(f"P{pump},{month},{condition},{action},{earned},{reached},10,{served}")
            condition = reached
    path.write_text("\n".join(lines) + "\n")


def shown(page):
    """The commands that a page shows in its blocks, in their order."""
    text = (ROOT / page).read_text()
    blocks = "\n".join(re.sub(r"^", "    ", block, flags=re.MULTILINE) for block in SH_BLOCK.findall(text))
    plain = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    lines = INDENTED.findall(blocks) + INDENTED.findall(plain)
    return [line.split("  #")[0].strip() for line in lines if not line.startswith(LEFT_OUT)]


@pytest.mark.parametrize(
    "page",
    ["README.md", *(f"docs/{name}.md" for name in ("command-line", "problem-files", "compare", "how-to/practitioner"))],
)
def test_the_commands_of_a_page_run(run, folder, quick_pictures, page):
    pytest.importorskip("gymnasium", reason="extra gym")
    for name, content in NAMED_FILE.findall((ROOT / page).read_text()):
        (folder / name).write_text(content)
    maintenance_log(folder / "pumps.csv")
    lines = shown(page)
    assert lines
    for line in lines:
        code, _, err = run(*quickly(line)[:-1])
        assert (code, err) == (0, ""), line


def test_other_pages_show_commands_and_options_that_exist():
    """Theirs are of benchmarks and of the paper, which have tests of their own."""
    known = {
        name: {option for parameter in command.params for option in parameter.opts}
        for name, command in typer.main.get_command(cli.app).commands.items()
    }
    for page in sorted((ROOT / "docs").rglob("*.md")):
        for line in [] if "_build" in page.parts else shown(str(page.relative_to(ROOT))):
            _, command, *words = shlex.split(line)
            assert command in known, f"{page}: {line}"
            assert {word for word in words if word.startswith("--")} <= known[command], f"{page}: {line}"
