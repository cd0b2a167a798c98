"""Builds the compiled core and its stubs: ``python build_core.py``; the core also as hatchling's hook.

The compiler is the system's (``$CXX``, else ``c++``), and where there is none the one of the ``ziglang`` wheel. One
extension is built per CPU level, and a small one that asks the processor which of them it can run.
"""

import argparse
import importlib
import importlib.util
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).resolve().parent
CORE = ROOT / "src" / "cautious" / "_core"
# loops are vectorised by hand (vec.hpp): compilers' own gathers are slower; sums must round as they are written
FLAGS = [
    "-std=c++20",
    "-O3",
    "-fPIC",
    "-fvisibility=hidden",
    "-fno-exceptions",
    "-fno-rtti",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-Wall",
    "-Wextra",
]
FLAGS_GCC = ["-fno-tree-vectorize"]
FLAGS_CLANG = ["-fno-vectorize", "-fno-slp-vectorize"]
X86_LEVELS = (2, 3, 4)
ANNOTATIONS = {
    "float": "float",
    "int": "int",
    "truth": "bool",
    "None": "None",
    "float64": "Array",
    "float32": "Singles",
    "int64": "Indices",
    "int32": "Codes",
    "bool": "Mask",
    "uint8": "Letters",
}


@dataclass(frozen=True)
class Compiler:
    """The commands that compile and link, and whether they are clang's."""

    compile: tuple[str, ...]
    link: tuple[str, ...]
    clang: bool
    zig: bool

    @property
    def flags(self) -> list[str]:
        """For every file."""
        return FLAGS + (FLAGS_CLANG if self.clang else FLAGS_GCC)

    def level(self, level: int) -> list[str]:
        """For a level of x86-64; zig builds for the processor it runs on unless told."""
        if level == 0:
            return ["-mcpu=baseline"] if self.zig else []
        return [f"-mcpu=x86_64_v{level}" if self.zig else f"-march=x86-64-v{level}"]


def find_compiler() -> Compiler | None:
    """The system's compiler, else zig's; None if there is neither."""
    given = os.environ.get("CXX")
    command = shlex.split(given) if given else ["c++"] if shutil.which("c++") else []
    if command:
        said = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True).stdout
        return Compiler(tuple(command), tuple(command), "clang" in said, False)
    if importlib.util.find_spec("ziglang") is None:
        return None
    zig = (sys.executable, "-m", "ziglang")
    # linked as C: linking as C++ would build the C++ library first, of which nothing is used
    return Compiler((*zig, "c++"), (*zig, "cc"), True, True)


def extensions(machine: str) -> dict[str, tuple[str, int]]:
    """Name of each extension, its source and its level."""
    if machine.lower() not in {"x86_64", "amd64"}:
        return {"_cpu": ("cpu.cpp", 0), "_baseline": ("module.cpp", 0)}
    return {"_cpu": ("cpu.cpp", 0), **{f"_v{level}": ("module.cpp", level) for level in X86_LEVELS}}


def build(into: Path, *, force: bool = False) -> list[Path]:
    """Build what is older than its sources; the extensions' paths."""
    compiler = find_compiler()
    if compiler is None:
        raise RuntimeError("no C++ compiler found, and no zig: pip install ziglang")
    newest = max(path.stat().st_mtime for path in [*CORE.glob("*.hpp"), *CORE.glob("*.cpp"), Path(__file__)])
    suffix = ".pyd" if os.name == "nt" else ".abi3.so"
    wanted = {into / f"{name}{suffix}": (name, *what) for name, what in extensions(platform.machine()).items()}
    stale = [path for path in wanted if force or not path.exists() or path.stat().st_mtime < newest]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(lambda path: compile_one(compiler, path, *wanted[path]), stale))
    return list(wanted)


def compile_one(compiler: Compiler, path: Path, name: str, source: str, level: int) -> None:
    """One extension, moved into its place when it is whole."""
    include = Path(sysconfig.get_path("include"))
    headers = [f"-I{include}"] if (include / "Python.h").exists() else ["-DCAUTIOUS_WITHOUT_PYTHON_H"]
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        made, linked = Path(folder) / f"{name}.o", Path(folder) / path.name
        what = [*compiler.flags, *compiler.level(level), *headers, f"-DCAUTIOUS_MODULE={name}"]
        run([*compiler.compile, *what, "-c", str(CORE / source), "-o", str(made)])
        undefined = ["-undefined", "dynamic_lookup"] if sys.platform == "darwin" else ["-Wl,--as-needed"]
        run([*compiler.link, "-shared", *compiler.level(level), str(made), "-o", str(linked), *undefined, "-lm"])
        linked.replace(path)


def run(command: list[str]) -> None:
    """Run a command; its words if it fails."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{shlex.join(command)}\n{done.stdout}{done.stderr}")
    if "warning:" in done.stderr and "argument unused" not in done.stderr:
        print(done.stderr, file=sys.stderr)


def write_stubs() -> None:
    """Types of all kernels for mypy and editors, from what the extension says of itself."""
    sys.path.insert(0, str(ROOT / "src"))
    core = importlib.import_module("cautious._core")
    for subject in sorted({description[0] for description in core.DESCRIPTIONS}):
        (CORE / f"{subject}.pyi").write_text(stub(core, subject))


def stub(core: Any, subject: str) -> str:
    """The stub file of one subject."""
    module = getattr(core, subject)
    constants = [f"{name}: int\n" for name, value in vars(module).items() if isinstance(value, int)]
    text = "".join([*constants, *(signature(*words) for of, *words in core.DESCRIPTIONS if of == subject)])
    arrays = sorted(name for name in ANNOTATIONS.values() if name[0].isupper() and name != "None")
    names = ", ".join(name for name in arrays if re.search(rf"\b{name}\b", text))
    return f'"""{module.__doc__}"""\n\nfrom cautious.arrays import {names}\n\n{text}'


def signature(name: str, doc: str, argument_names: str, types: str) -> str:
    """One kernel."""
    before, after = (part.split() for part in types.split("->"))
    arguments = [f"{word}: {annotation(kinds)}" for word, kinds in zip(argument_names.split(), before, strict=True)]
    results = [annotation(kinds) for kinds in after]
    result = results[0] if len(results) == 1 else f"tuple[{', '.join(results)}]"
    listed = "".join(f"    {argument},\n" for argument in [*arguments, "/"] if arguments)
    return f'def {name}(\n{listed}) -> {result}:\n    """{doc}"""\n\n'


def annotation(kinds: str) -> str:
    """The type of an argument of one kind or of several, such as "int32/int64"."""
    return " | ".join(dict.fromkeys(ANNOTATIONS[kind] for kind in kinds.split("/")))


class CoreHook(BuildHookInterface):  # type: ignore[type-arg]
    """Puts the extensions into a wheel, or beside their sources for an editable installation."""

    def dependencies(self) -> list[str]:
        """Zig where no compiler is."""
        given = os.environ.get("CXX") or shutil.which("c++")
        return [] if given else ["ziglang>=0.13"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it collects files."""
        if self.target_name != "wheel":
            return
        build_data["pure_python"] = False
        build_data["tag"] = f"cp311-abi3-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
        if version == "editable":
            build(CORE)
            return
        self.folder = tempfile.TemporaryDirectory()
        for path in build(Path(self.folder.name)):
            build_data["force_include"][str(path)] = f"cautious/_core/{path.name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Called when the wheel is written."""
        if self.target_name == "wheel" and version != "editable":
            self.folder.cleanup()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Build the compiled core beside its sources.")
    parser.add_argument("--force", action="store_true", help="also what is up to date")
    build(CORE, force=parser.parse_args().force)
    write_stubs()
