"""Builds the compiled core and its stubs: ``python build_core.py``; the core also as hatchling's hook.

The compiler is the system's (``$CXX``, else ``c++``, ``g++`` or ``clang++``), and where there is none the one of the
``ziglang`` wheel. One extension is built per CPU level, and a small one that asks the processor which of them it can
run. With ``--target``, or ``CAUTIOUS_TARGET`` for wheels, zig builds for another system.
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
# slow, and every access within a Span is checked
FLAGS_SANITIZE = ["-O1", "-g", "-fno-omit-frame-pointer", "-DCAUTIOUS_CHECKED", "-D_GLIBCXX_ASSERTIONS"]
X86_LEVELS = (2, 3, 4)
ANNOTATIONS = {
    "float": "float",
    "int": "int",
    "truth": "bool",
    "None": "None",
    "float64": "Array",
    "int64": "Indices",
    "int32": "Codes",
    "bool": "Mask",
    "uint8": "Letters",
}


class BuildError(Exception):
    """The core cannot be built; the message has the compiler's words."""


@dataclass(frozen=True)
class Target:
    """The system that the core is built for: a triple of zig's such as x86_64-linux-gnu, or "" for this system."""

    triple: str = ""

    @property
    def machine(self) -> str:
        """Such as x86_64 or aarch64."""
        return self.triple.split("-")[0] or {"AMD64": "x86_64"}.get(platform.machine(), platform.machine())

    @property
    def system(self) -> str:
        """One of linux, macos, windows."""
        own = {"darwin": "macos", "win32": "windows"}.get(sys.platform, "linux")
        return self.triple.split("-")[1].split(".")[0] if self.triple else own

    @property
    def zig_triple(self) -> str:
        """With the oldest version of the system that wheels promise."""
        return {"linux": f"{self.machine}-linux-gnu.2.17", "macos": f"{self.machine}-macos.11.0"}.get(
            self.system, self.triple
        )

    @property
    def suffix(self) -> str:
        """Of an extension's file."""
        return ".pyd" if self.system == "windows" else ".abi3.so"

    @property
    def tag(self) -> str:
        """The platform tag of a wheel."""
        if self.system == "macos":
            return f"macosx_11_0_{'arm64' if self.machine == 'aarch64' else self.machine}"
        if not self.triple:
            return sysconfig.get_platform().replace("-", "_").replace(".", "_")
        if self.system == "windows":
            return "win_amd64" if self.machine == "x86_64" else "win_arm64"
        return f"manylinux_2_17_{self.machine}.manylinux2014_{self.machine}"

    def extensions(self) -> dict[str, tuple[str, int]]:
        """Name of each extension, its source and its level of x86-64; level 0 is the plain processor."""
        levels = {f"_v{level}": ("module.cpp", level) for level in X86_LEVELS}
        return {"_cpu": ("cpu.cpp", 0), **(levels if self.machine == "x86_64" else {"_baseline": ("module.cpp", 0)})}


@dataclass(frozen=True)
class Compiler:
    """The commands that compile and link, and what they must be told."""

    compile: tuple[str, ...]
    link: tuple[str, ...]
    clang: bool
    zig: bool
    target: Target
    sanitize: str = ""

    @property
    def name(self) -> str:
        """Which compiler it is."""
        return "zig" if self.zig else " ".join(self.compile)

    @property
    def common(self) -> list[str]:
        """For compiling and linking."""
        words = [f"-fsanitize={self.sanitize}", "-fno-sanitize-recover=all"] if self.sanitize else []
        if self.zig and self.target.triple:
            words += ["-target", self.target.zig_triple]
        elif self.target.system == "macos":
            words += ["-mmacosx-version-min=11.0"]
        return words

    @property
    def flags(self) -> list[str]:
        """For compiling every file."""
        own = FLAGS_CLANG if self.clang else FLAGS_GCC
        return [*FLAGS, *own, *self.common, *(FLAGS_SANITIZE if self.sanitize else [])]

    def level(self, level: int) -> list[str]:
        """For a level of x86-64; zig builds for the processor it runs on unless told."""
        if level == 0:
            return ["-mcpu=baseline"] if self.zig else []
        return [f"-mcpu=x86_64_v{level}" if self.zig else f"-march=x86-64-v{level}"]


def find_compiler(target: Target, sanitize: str = "") -> Compiler | None:
    """The system's compiler, else zig's, which is also the one for other systems; None if there is neither."""
    if not target.triple:
        given = os.environ.get("CXX")
        for command in [shlex.split(given)] if given else [["c++"], ["g++"], ["clang++"]]:
            said = understands(command, target)
            if said is not None:
                return Compiler(tuple(command), tuple(command), "clang" in said, False, target, sanitize)
        if given:
            raise BuildError(f"CXX={given} is no compiler of C++20 that knows the levels of x86-64")
    if sanitize or importlib.util.find_spec("ziglang") is None:
        return None
    zig = (sys.executable, "-m", "ziglang")
    # linked as C: linking as C++ would build the C++ library first, of which nothing is used
    return Compiler((*zig, "c++"), (*zig, "cc"), True, True, target)


def understands(command: list[str], target: Target) -> str | None:
    """What a compiler says of itself if it exists, works, has its headers and knows C++20 and the highest level."""
    if shutil.which(command[0]) is None:
        return None
    said = subprocess.run([*command, "--version"], capture_output=True, text=True).stdout
    compiler = Compiler(tuple(command), (), "clang" in said, False, target)
    highest = max(level for _, level in target.extensions().values())
    trial = [
        *command,
        *compiler.flags,
        *compiler.level(highest),
        "-fsyntax-only",
        "-x",
        "c++",
        str(CORE / "arrays.hpp"),
    ]
    return said if subprocess.run(trial, capture_output=True).returncode == 0 else None


@dataclass(frozen=True)
class Part:
    """A file to compile: the object it becomes, its source, what is defined for it, and its level of x86-64."""

    made: Path
    source: Path
    defined: tuple[str, ...]
    level: int

    def sources(self) -> list[Path]:
        """All files that the object is made of."""
        found = [Path(__file__), self.source, *(CORE / word for word in re.findall(r'"(.+)"', " ".join(self.defined)))]
        for path in found:
            names = re.findall(r'^#include "(.+)"', path.read_text(), re.MULTILINE)
            found += [CORE / name for name in names if CORE / name not in found]
        return found


def is_older(path: Path, than: list[Path]) -> bool:
    """Whether a file is missing or older than one of these."""
    return not path.exists() or path.stat().st_mtime < max(other.stat().st_mtime for other in than)


def parts_of(name: str, source: str, level: int, objects: Path) -> list[Part]:
    """All files of one extension."""
    whole = Part(objects / name / "module.o", CORE / source, (f"CAUTIOUS_MODULE={name}",), level)
    if source != "module.cpp":
        return [whole]
    subjects = re.findall(r"DO\((\w+)\)", (CORE / source).read_text())
    defined = [(f"CAUTIOUS_SUBJECT={subject}", f'CAUTIOUS_HEADER="{subject}.hpp"') for subject in subjects]
    return [whole] + [Part(objects / name / f"{d[0].split('=')[1]}.o", CORE / "subject.cpp", d, level) for d in defined]


def build(
    into: Path,
    target: Target,
    *,
    force: bool = False,
    sanitize: str = "",
    level: int | None = None,
    objects: Path = ROOT / "build" / "core",
) -> list[Path]:
    """Build what is older than its sources, for one level or for all; the extensions' paths."""
    listed = {name: what for name, what in target.extensions().items() if level is None or what[1] in {0, level}}
    paths = {into / f"{name}{target.suffix}": (name, *what) for name, what in listed.items()}
    planned = [(path, part) for path, what in paths.items() for part in parts_of(*what, objects)]
    if not force and not any(is_older(path, part.sources()) for path, part in planned):
        return list(paths)
    compiler = find_compiler(target, sanitize)
    if compiler is None:
        raise BuildError("no g++ found" if sanitize else "no C++ compiler found, and no zig: pip install ziglang")
    # objects of different compilers are kept apart
    objects = objects / re.sub(r"[^\w.+]+", "-", f"{compiler.name} {target.triple} {sanitize}").strip("-")
    wanted = {path: parts_of(*what, objects) for path, what in paths.items()}
    into.mkdir(parents=True, exist_ok=True)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        stale = [part for parts in wanted.values() for part in parts if force or is_older(part.made, part.sources())]
        list(pool.map(lambda part: compile_part(compiler, part), stale))
        unlinked = [path for path, parts in wanted.items() if force or is_older(path, [part.made for part in parts])]
        list(pool.map(lambda path: link(compiler, path, [str(part.made) for part in wanted[path]]), unlinked))
    return list(wanted)


def compile_part(compiler: Compiler, part: Part) -> None:
    """One object, moved into its place when it is whole."""
    include = Path(sysconfig.get_path("include"))
    has_headers = not compiler.zig and (include / "Python.h").exists()
    headers = [f"-I{include}"] if has_headers else ["-DCAUTIOUS_WITHOUT_PYTHON_H"]
    what = [*compiler.flags, *compiler.level(part.level), *headers, *(f"-D{word}" for word in part.defined)]
    part.made.parent.mkdir(parents=True, exist_ok=True)
    whole = part.made.with_suffix(".new.o")
    run([*compiler.compile, *what, f"-I{CORE}", "-c", str(part.source), "-o", str(whole)])
    whole.replace(part.made)


def link(compiler: Compiler, path: Path, made: list[str]) -> None:
    """One extension, moved into its place when it is whole."""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        linked = Path(folder) / path.name
        # no level: zig would build its runtime library once for each; on macOS -s leaves the names of local functions
        strip = [] if compiler.sanitize else ["-Wl,-x"] if compiler.target.system == "macos" else ["-s"]
        how = ["-shared", *compiler.common, *compiler.level(0), *strip]
        run([*compiler.link, *how, *made, "-o", str(linked), *libraries(compiler, Path(folder))])
        needed = re.search(rb"_ZNSt\w+", linked.read_bytes()) if compiler.zig else None
        if needed:
            raise BuildError(f"{path.name} needs {needed[0].decode()} of the C++ library, with which zig does not link")
        linked.replace(path)


def libraries(compiler: Compiler, folder: Path) -> list[str]:
    """What an extension is linked with. Python's functions are looked up when it is loaded, except on Windows."""
    if compiler.target.system == "macos":
        return ["-undefined", "dynamic_lookup"]
    if compiler.target.system == "linux":
        return ["-Wl,--as-needed", "-lm"]
    if not compiler.zig:
        return [str(Path(sys.base_prefix) / "libs" / "python3.lib")]
    declared = re.findall(r"^CAUTIOUS_FROM_PYTHON (.+);", (CORE / "python_abi.hpp").read_text(), re.MULTILINE)
    names = [re.search(r"(\w+)(\(.*)?$", words) for words in declared]
    lines = [f"  {name[1]}{'' if name[2] else ' DATA'}\n" for name in names if name]
    (folder / "python3.def").write_text("LIBRARY python3.dll\nEXPORTS\n" + "".join(lines))
    machine = "i386:x86-64" if compiler.target.machine == "x86_64" else "arm64"
    dlltool = [*compiler.link[:-1], "dlltool", "-m", machine, "-d", str(folder / "python3.def")]
    run([*dlltool, "-l", str(folder / "python3.lib")])
    return [str(folder / "python3.lib")]


def run(command: list[str]) -> None:
    """Run a command; its words if it fails."""
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise BuildError(f"{shlex.join(command)}\n{done.stdout}{done.stderr}")
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
    imports = f"from cautious.arrays import {names}\n\n" if names else ""
    return f'"""{module.__doc__}"""\n\n{imports}{text}'


def signature(name: str, doc: str, argument_names: str, types: str) -> str:
    """One kernel."""
    before, after = (part.split() for part in types.split("->"))
    arguments = [f"{word}: {annotation(kinds)}" for word, kinds in zip(argument_names.split(), before, strict=True)]
    results = [annotation(kinds) for kinds in after]
    result = results[0] if len(results) == 1 else f"tuple[{', '.join(results)}]"
    listed = "".join(f"    {argument},\n" for argument in [*arguments, "/"] if arguments)
    return f'def {name}(\n{listed}) -> {result}:\n    """{doc}"""\n\n'


def annotation(kinds: str) -> str:
    """The type of an argument of one kind or of several, such as "out:int32/int64"."""
    return " | ".join(dict.fromkeys(ANNOTATIONS[kind] for kind in kinds.split(":")[-1].split("/")))


class CoreHook(BuildHookInterface):  # type: ignore[type-arg]
    """Puts the extensions into a wheel, or beside their sources for an editable installation."""

    target = Target(os.environ.get("CAUTIOUS_TARGET", ""))

    def dependencies(self) -> list[str]:
        """Zig where no compiler is."""
        compiler = find_compiler(self.target)
        return [] if compiler is not None and not compiler.zig else ["ziglang>=0.13"]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it collects files."""
        build_data["pure_python"] = False
        build_data["tag"] = f"cp311-abi3-{self.target.tag}"
        self.folder = tempfile.TemporaryDirectory()
        try:
            if version == "editable":
                made = build(CORE, self.target)
            else:
                made = build(Path(self.folder.name), self.target, objects=Path(self.folder.name) / "objects")
        except BuildError as error:
            self.app.abort(str(error))
        if version != "editable":
            build_data["force_include"].update({str(path): f"cautious/_core/{path.name}" for path in made})

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Called when the wheel is written."""
        self.folder.cleanup()


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description="Build the compiled core beside its sources, and its stubs.")
    parser.add_argument("--force", action="store_true", help="also what is up to date")
    parser.add_argument("--into", type=Path, metavar="FOLDER", help="build there, and no stubs")
    parser.add_argument("--target", default="", metavar="TRIPLE", help="another system, such as aarch64-macos, by zig")
    parser.add_argument("--sanitize", default="", metavar="KINDS", help="address,undefined or thread; g++ only")
    parser.add_argument("--level", type=int, choices=X86_LEVELS, help="only this level of x86-64")
    given = parser.parse_args()
    if (given.target or given.sanitize) and not given.into:
        parser.error("--target and --sanitize need --into")
    try:
        build(given.into or CORE, Target(given.target), force=given.force, sanitize=given.sanitize, level=given.level)
    except BuildError as error:
        sys.exit(str(error))
    if not given.into:
        write_stubs()


if __name__ == "__main__":
    main()
