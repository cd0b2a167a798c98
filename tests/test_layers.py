"""Who may import whom: a file imports only earlier layers; imports inside functions are for optional parts only."""

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "cautious"
LAYERS = [
    {"errors", "arrays", "status"},
    {"checks", "sparse_input", "regular_files"},
    {"storage"},
    {"verification"},
    {"tables"},
    {"_core"},
    {"runtime"},
    {"models"},
    {"horizons"},
    {"occupancy"},
    {"episodes"},
    {"planning"},
    {"returns"},
    {"solution_agent"},
    {"prediction"},
    {"risks"},
    {"support"},
    {"problem"},
    {"certificate", "history"},
    {"solution"},
    {"solvers"},
    {"frontiers", "evaluation"},
    {"learning"},
    {"sweeps"},
    {"worlds"},
    {"peers"},
    {"comparison"},
    {"problem_files"},
    {"report"},
    {"testing", "paper", "studio"},
    {"cli", "commands"},
    {"__main__"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
# drawing is optional, and a solution, frontier or history only hands itself over
LATE = {
    ("solution", "report"),
    ("solution", "studio"),
    ("frontiers", "report"),
    ("history", "report"),
    ("sweeps", "report"),
}
FILES = sorted(PACKAGE.rglob("*.py"))


def part(path):
    """The layer's name of a file."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def optional_packages():
    content = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = content["project"]["optional-dependencies"].values()
    # packages of others that `compare` calls where they happen to be installed
    groups = content["dependency-groups"]
    wanted = [item for extra in (*extras, groups["peers"], groups["bench"]) for item in extra]
    names = {item.split(">")[0].split("[")[0].strip() for item in wanted} - {"cautious"}
    # python-flint is imported as flint
    return {name.removeprefix("python-") for name in names}


def imports(tree, inside_functions):
    """Imported module names at module level, or inside functions."""
    inside = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        for node in ast.walk(function)
    }
    for node in ast.walk(tree):
        if (id(node) in inside) is not inside_functions:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            if node.module == "cautious":
                yield from (f"cautious.{alias.name}" for alias in node.names)
            else:
                yield node.module


def layer_of(module):
    """The layer of one of our modules; the package itself counts as everything."""
    names = module.split(".")
    return names[1] if len(names) > 1 else None


def test_every_file_has_a_layer():
    assert {part(path) for path in FILES} - set(LEVEL) == {"__init__"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_to_earlier_layers(path):
    if path == PACKAGE / "__init__.py":
        return
    for module in imports(ast.parse(path.read_text()), inside_functions=False):
        if module.split(".")[0] != "cautious":
            continue
        layer = layer_of(module)
        if layer not in LEVEL:
            # ``import cautious as ca`` and public names: only for the outermost shell
            assert part(path) in {"cli", "commands", "testing", "problem_files"}, module
            continue
        assert LEVEL[layer] <= LEVEL[part(path)], f"{part(path)} imports {module}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_the_outermost_parts_use_nothing_private(path):
    if part(path) in {"cli", "commands", "paper", "studio"}:
        tree = ast.parse(path.read_text())
        for module in [*imports(tree, inside_functions=False), *imports(tree, inside_functions=True)]:
            assert not any(name.startswith("_") for name in module.split(".")[1:]), module


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_inside_functions_are_optional_parts(path):
    optional = {name.replace("-", "_") for name in optional_packages()}
    for module in imports(ast.parse(path.read_text()), inside_functions=True):
        first = module.split(".")[0]
        if part(path) in {"cli", "commands"}:
            # the command line answers --help at once because each command loads only what it needs
            continue
        if first == "cautious":
            assert (part(path), layer_of(module)) in LATE, module
        else:
            assert first in optional, f"{module} is not optional: import it at the top"


def test_importing_does_not_load_optional_packages():
    packages = optional_packages() | {"typer"}
    code = f"import sys, cautious; print(*{packages}.intersection(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
