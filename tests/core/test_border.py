"""Where Python ends and kernels begin: wrong arguments raise typed errors, whatever they are."""

import importlib.util
import signal
from pathlib import Path

import kernel_fuzzer
import numpy as np
import pytest

from cautious import _core

ROOT = Path(__file__).resolve().parents[2]
KERNELS = kernel_fuzzer.kernels()
FUZZED_CALLS = 30_000


def plain_arguments(kernel):
    return [kernel_fuzzer.plain(slot, 0) for slot in kernel.slots]


def wrong_arrays(slot):
    """Arrays that a kernel must not take for one of the right kind, and things that are no arrays."""
    shape, dtype = ((2, 2) if slot.table else (2,)), np.dtype(slot.kinds[0])
    yield from (None, "text", 1.5, 2**100, [1.0, 2.0], object(), np.nan)
    # bytes are an array of uint8
    yield from () if "uint8" in slot.kinds else (b"text",)
    yield from (np.zeros(shape, other) for other in ("complex128", "float16", "int16", "U3", "O", "V8"))
    yield np.zeros(shape, "float32" if "float32" not in slot.kinds else "int64")
    yield np.zeros((4, 4), dtype)[::2, ::2] if slot.table else np.zeros(4, dtype)[::2]
    if dtype.itemsize > 1:
        yield np.zeros(shape, dtype.newbyteorder())
        yield (
            np.frombuffer(bytearray(4 * dtype.itemsize + 1), np.uint8)[1:]
            .view(dtype)[: 2 * shape[0]]
            .reshape(shape[0], -1)
        )
    if slot.table:
        yield from (np.zeros(4, dtype), np.zeros((1, 2, 2), dtype), np.asfortranarray(np.zeros((2, 3), dtype)))
    if slot.writable:
        kept = np.zeros(shape, dtype)
        kept.flags.writeable = False
        yield kept


def wrong_numbers(slot):
    """What is no number of the right kind; anything has a truth, but for arrays."""
    if slot.kinds[0] == "truth":
        yield np.zeros(2)
        return
    yield from (None, "text", [1], np.zeros(2), object(), 1j)
    if slot.kinds[0] == "int":
        yield from (1.5, np.nan, np.inf, 2**64, -(2**100), np.float64(1.0))
    else:
        yield 2**2000


@pytest.mark.parametrize("name", KERNELS)
def test_wrong_arguments(name):
    kernel = KERNELS[name]
    for at, slot in enumerate(kernel.slots):
        for wrong in wrong_arrays(slot) if slot.array else wrong_numbers(slot):
            arguments = plain_arguments(kernel)
            arguments[at] = wrong
            with pytest.raises(TypeError, match=f"`{slot.name}` must be"):
                kernel.function(*arguments)


@pytest.mark.parametrize("name", KERNELS)
def test_wrong_number_of_arguments(name):
    kernel = KERNELS[name]
    arguments = plain_arguments(kernel)
    for wrong in [[*arguments, 0], arguments[:-1], []] if arguments else [[0]]:
        with pytest.raises(TypeError, match="arguments"):
            kernel.function(*wrong)
    with pytest.raises(TypeError, match="keyword"):
        kernel.function(*arguments, out=None)


@pytest.mark.parametrize("name", [name for name, kernel in KERNELS.items() if kernel.overloads > 1])
def test_types_of_different_overloads(name):
    kernel = KERNELS[name]
    varied = [at for at, slot in enumerate(kernel.slots) if len(set(slot.kinds)) > 1]
    for at in varied if len(varied) > 1 else ():
        slot = kernel.slots[at]
        last = next(i for i, kind in enumerate(slot.kinds) if kind != slot.kinds[0])
        arguments = plain_arguments(kernel)
        arguments[at] = kernel_fuzzer.plain(slot, last)
        if all(kernel.slots[i].kinds[j] != kernel.slots[i].kinds[0] for j in [last] for i in varied):
            with pytest.raises(TypeError, match="belong together"):
                kernel.function(*arguments)


def test_random_arguments():
    """A crash, an endless loop or an untyped error fails with the kernel's name, the seed and the arguments."""
    calls = max(100, FUZZED_CALLS // len(KERNELS))
    answered, failed = kernel_fuzzer.fuzz(list(KERNELS), calls, seed=0)
    assert not failed, "\n".join(f"{name}: {words}" for name, words in failed.items())
    assert set(answered) == set(KERNELS)
    assert not [name for name, count in answered.items() if count == 0], "calls that were all refused test little"


def test_a_crash_is_noticed(monkeypatch):
    """The fuzzer itself: a child that dies or does not end is a failure with a name."""
    assert kernel_fuzzer.ending(-signal.SIGSEGV) == "SIGSEGV"
    assert "no end" in kernel_fuzzer.ending(-signal.SIGPROF)
    monkeypatch.setattr(kernel_fuzzer, "__file__", "/nowhere")
    name = next(iter(KERNELS))
    answered, failed = kernel_fuzzer.fuzz([name], 1, seed=0)
    assert not answered
    assert "exit code 2" in failed[name]


def test_stubs_are_up_to_date():
    spec = importlib.util.spec_from_file_location("build_core", ROOT / "build_core.py")
    build_core = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build_core)
    folder = ROOT / "src" / "cautious" / "_core"
    subjects = {description[0] for description in _core.DESCRIPTIONS}
    assert {path.stem for path in folder.glob("*.pyi")} == {*subjects, "_cpu"}
    for subject in subjects:
        assert (folder / f"{subject}.pyi").read_text() == build_core.stub(_core, subject), "run `make core`"


def test_extensions_need_no_cpp_library():
    """Zig links none."""
    for path in Path(_core.__file__).parent.glob("_*.abi3.so"):
        assert b"libstdc++" not in path.read_bytes(), path.name
