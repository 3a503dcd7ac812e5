"""Every example's sm_80 code, compiled and disassembled here: the units it uses, its registers and memory."""

from __future__ import annotations

import importlib
import re
from functools import cache

import pytest
from quick import some

from tests.unit.cuda_target.machine_code import NAMES, Sass, example_call, sass
from threadloom.machine.devices import device
from threadloom.sched.ops import Issue
from threadloom.targets.cuda.compile import CudaKernel
from threadloom.targets.cuda.faults import fault_of
from threadloom.targets.cuda.launch import device_tensors, kernel_for
from threadloom.task.ops import Kind, Method

pytest.importorskip("cuda.bindings.nvrtc")

REGISTERS = 65536  # of an SM
THREADS = 256
TENSOR = {"f16": "HMMA", "bf16": "HMMA", "tf32": "HMMA", "i8": "IMMA", "u8": "IMMA", "f64": "DMMA"}
IN_MEMORY = ("mla_decode",)  # fits no registers for its SHAPE


@cache
def ampere(name: str, which: str, dtype: str) -> CudaKernel:
    module = importlib.import_module(f"threadloom.examples.{name}")
    call = example_call(name, module.SHAPES[0] if which == "small" else module.SHAPE, dtype)
    return kernel_for(call.kernel, call.dims, device_tensors(call.kernel, call.arrays), "a100")


def check(kernel: CudaKernel, code: Sass) -> None:
    """All that must hold of any generated kernel."""
    cubin, source = kernel.cubin, kernel.source
    assert fault_of(kernel) == ""
    assert (cubin.spill_bytes, cubin.stack_bytes) == (0, 0), cubin.log
    assert code.count("LDL") == code.count("STL") == 0
    assert source.threads == THREADS and 0 < cubin.registers * THREADS <= REGISTERS
    assert source.shared_bytes <= device("a100").memory("smem").capacity_bytes.value and cubin.shared_bytes == 0
    stated = re.search(r"(\d+) threads, (\d+) bytes of shared memory", source.text)
    assert (int(stated[1]), int(stated[2])) == (source.threads, source.shared_bytes)
    check_units(kernel, code)


def check_units(kernel: CudaKernel, code: Sass) -> None:
    """Products on the tensor cores through ldmatrix, asynchronous copies where the plan and the strides have them."""
    tasks = {t.name: t for t in kernel.program.graph.tasks}
    dots = [o for t in tasks.values() for o in t.ops if t.kind is Kind.DOT and hasattr(o, "over")]
    for d in dots:
        if (unit := TENSOR.get(d.a.type.dtype.name)) and d.a.type.dtype == d.b.type.dtype:
            assert code.count(unit), f"no {unit} for {d}"
    if any(d.a.type.dtype.bits == d.b.type.dtype.bits == 16 for d in dots):
        assert code.count("LDSM")
    issues = [i for s in kernel.program.sections for i in s.instrs if isinstance(i, Issue)]
    loads = [tasks[i.task] for i in issues if tasks[i.task].kind is Kind.LOAD and i.method is Method.ASYNC_COPY]
    assert bool(code.count("LDGSTS")) == bool(re.search(r"copy_async\w*<", kernel.source.text))
    assert code.count("LDGDEPBAR") >= bool(loads)


COMMON = ("copy_tiles", "softmax", "matmul", "flash_attention", "chunk_state")


@pytest.mark.parametrize("name", some(COMMON, ["copy_tiles", "matmul"]))
def test_example(name: str, tmp_path):
    kernel = ampere(name, "", "f16")
    code = sass(kernel, tmp_path)
    check(kernel, code)
    assert code.count("LDGSTS")  # none of these has rows that begin between the copies' 4, 8 or 16 bytes


@pytest.mark.slow
@pytest.mark.parametrize(("which", "dtype"), [("small", "f16"), ("", "f16"), ("", "bf16"), ("small", "f32")], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_every_example(name: str, which: str, dtype: str, tmp_path):
    kernel = ampere(name, which, dtype)
    if kernel.program.device.startswith("a100/spilled"):
        assert name in IN_MEMORY and not which
        check_units(kernel, sass(kernel, tmp_path))
    else:
        check(kernel, sass(kernel, tmp_path))
