"""Every example's Hopper code, compiled and disassembled here: the units it uses, its registers, memory and budgets."""

from __future__ import annotations

import re

import pytest
from quick import some

from tests.unit.cuda_target.machine_code import NAMES, Sass, example, example_call, sass
from threadloom.sched.ops import Issue
from threadloom.targets.cuda.compile import CudaKernel, facts_of
from threadloom.targets.cuda.emit import emit
from threadloom.targets.cuda.faults import fault_of
from threadloom.targets.cuda.launch import device_tensors
from threadloom.task.ops import Kind, Method

pytest.importorskip("cuda.bindings.nvrtc")

REGISTERS = 65536  # of an SM


def issued(kernel: CudaKernel, kind: Kind) -> list[Issue]:
    """What the plan issues for tasks of `kind`."""
    kinds = {t.name: t.kind for t in kernel.program.graph.tasks}
    found = [i for s in kernel.program.sections for i in s.instrs if isinstance(i, Issue)]
    return [i for i in found if kinds.get(i.task) is kind]


def budgets_of(kernel: CudaKernel) -> list[int]:
    """What roles take of the registers of the others; one alone has all."""
    several = len(kernel.program.roles) > 1
    return sorted({r.registers for r in kernel.program.roles if r.registers and several})


def check(kernel: CudaKernel, code: Sass) -> None:
    """All that must hold of any generated kernel."""
    cubin, source = kernel.cubin, kernel.source
    assert fault_of(kernel) == "" and "serialized" not in cubin.log
    assert (cubin.spill_bytes, cubin.stack_bytes) == (0, 0), cubin.log
    assert code.count("LDL") == code.count("STL") == 0
    assert 0 < cubin.registers * source.threads <= REGISTERS
    granted = sum(32 * r.warps * r.registers for r in kernel.program.roles)
    assert granted <= REGISTERS
    assert sorted(set(code.budgets())) == budgets_of(kernel)
    assert all(n % 8 == 0 for n in budgets_of(kernel))
    assert source.threads == 32 * sum(r.warps for r in kernel.program.roles)
    assert cubin.shared_bytes in (0, 1024)  # dynamic alone
    stated = re.search(r"(\d+) threads, (\d+) bytes of shared memory", source.text)
    assert (int(stated[1]), int(stated[2])) == (source.threads, source.shared_bytes)


def check_units(kernel: CudaKernel, code: Sass) -> None:
    """Products of narrow floats on the tensor cores, bulk copies where the plan says so, barriers where roles meet."""
    narrow = [
        t for t in kernel.program.graph.tasks
        if t.kind is Kind.DOT and all(v.type.dtype.bits <= 16 for o in t.ops if hasattr(o, "over") for v in (o.a, o.b))
    ]  # fmt: skip
    if narrow:
        assert code.count("HGMMA") + code.count("QGMMA") + code.count("IGMMA") >= len(narrow)
    bulk = [i for i in issued(kernel, Kind.LOAD) if i.method is Method.BULK_COPY]
    assert bool(bulk) == bool(code.count("UTMALDG")), (bulk, code.count("UTMALDG"))
    if code.count("UTMASTG"):
        assert any(i.method is Method.BULK_COPY for i in issued(kernel, Kind.STORE))
    if len(kernel.program.roles) > 1 and kernel.source.barriers:
        assert code.count("SYNCS") >= len(kernel.source.barriers)
    maps = len(kernel.source.maps)
    assert bool(maps) == bool(code.count("UTMALDG") + code.count("UTMASTG"))


LARGE = ("matmul", "flash_attention", "chunk_scan", "softmax")  # by default: at SHAPE, others at their first small one


@pytest.mark.parametrize("name", some(NAMES, ["matmul", "softmax"]))
def test_example(name: str, tmp_path):
    check_example(name, "" if name in LARGE else "small", "f16", tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize(("which", "dtype"), [("small", "f16"), ("", "f16"), ("", "bf16")], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_example_of_another_size_or_type(name: str, which: str, dtype: str, tmp_path):
    check_example(name, which, dtype, tmp_path)


def check_example(name: str, which: str, dtype: str, tmp_path) -> None:
    kernel = example(name, which, dtype)
    code = sass(kernel, tmp_path)
    check(kernel, code)
    check_units(kernel, code)


@pytest.mark.parametrize("name", some(LARGE, ["matmul", "softmax"]))
def test_same_input_same_bytes(name: str):
    """The text of a plan does not depend on what was made before in this process."""
    kernel = example(name)
    call = example_call(name, kernel_shape(name))
    facts = {t.name: facts_of(t, g) for t, g in zip(call.kernel.tensors, tensors(call), strict=True)}
    assert emit(kernel.program, facts, call.dims).text == kernel.source.text


def kernel_shape(name: str) -> dict[str, int]:
    import importlib

    return importlib.import_module(f"threadloom.examples.{name}").SHAPE


def tensors(call):
    return device_tensors(call.kernel, call.arrays).values()
