"""What other machines would run: code is generated for every width, and holds what it should."""

from __future__ import annotations

import re

import numpy as np
import pytest
from cpu_run import plain_schedule

from threadloom.examples.flash_attention import flash_attention
from threadloom.examples.matmul import matmul
from threadloom.examples.softmax import softmax
from threadloom.targets.cpu.compile import form_for, lower
from threadloom.targets.cpu.emit import emit_llvm
from threadloom.targets.cpu.host import AARCH64_NEON, X86_64_V3, X86_64_V4, CpuTarget
from threadloom.targets.cpu.jit import compile_assembly
from threadloom.targets.cpu.schedule import AVX2, AVX512, NEON, Ahead, Target

MACHINES = {
    "avx2": (AVX2, X86_64_V3, r"vfmadd\d+ps.*%ymm", r"%zmm"),
    "avx512": (AVX512, X86_64_V4, r"vfmadd\d+ps.*%zmm", None),
    "neon": (NEON, AARCH64_NEON, r"fmla\s+v\d+\.4s", None),
}


def assembly(kernel: object, arguments: dict[str, object], target: Target, cpu: CpuTarget, **tiles: int) -> str:
    call = kernel.bind(**arguments)
    schedule = plain_schedule(call.kernel, tiles)
    _, module = lower(schedule, form_for(schedule, call.arrays, call.dims), target)
    return compile_assembly(emit_llvm(module), cpu)


@pytest.mark.parametrize("name", MACHINES)
def test_products_are_register_blocked(name: str):
    """The micro-kernel's loop has one FMA for each accumulator and spills nothing."""
    target, cpu, fma, never = MACHINES[name]
    a, bias = np.zeros((128, 128), np.float32), np.zeros(128, np.float32)
    text = assembly(matmul, {"a": a, "b": a, "bias": bias}, target, cpu)
    kernel = max(re.findall(r"\"?dot\.float\.[^\n]*:\n.*?(?=\n\.Lfunc_end)", text, re.S), key=len)
    assert len(re.findall(fma, kernel)) >= target.accumulators
    assert "Spill" not in kernel
    assert never is None or not re.search(never, text)


@pytest.mark.parametrize("name", MACHINES)
def test_exponentials_are_inline(name: str):
    target, cpu, fma, _ = MACHINES[name]
    text = assembly(softmax, {"x": np.zeros((32, 256), np.float32)}, target, cpu)
    assert len(re.findall(fma, text)) >= 5
    assert not re.search(r"\b(bl|callq?)\s+_?expf", text)


@pytest.mark.parametrize("name", MACHINES)
def test_attention_is_emitted(name: str):
    target, cpu, fma, _ = MACHINES[name]
    q = np.zeros((1, 2, 64, 32), np.float32)
    arguments = {"q": q, "k": q, "v": q, "scale": 0.1, "causal": True}
    assert len(re.findall(fma, assembly(flash_attention, arguments, target, cpu))) >= 2 * target.accumulators


def test_stores_past_the_caches():
    x = np.zeros((64, 1024), np.float32)
    call = softmax.bind(x=x)
    schedule = plain_schedule(call.kernel, {"m": 16}, nontemporal=frozenset({"out"}), prefetch=(("x", Ahead(1, 2)),))
    form = form_for(schedule, call.arrays, call.dims)
    if form.tensor("out").aligned:
        text = compile_assembly(emit_llvm(lower(schedule, form, AVX512)[1]), X86_64_V4)
        assert "vmovntps" in text and "prefetch" in text


def attention_code(target: Target, queries: int) -> str:
    q = np.zeros((1, 1, queries, 64), np.float32)
    call = flash_attention.bind(q=q, k=q, v=q, scale=1.0)
    schedule = plain_schedule(call.kernel, {"m": 64, "n": 96})
    return emit_llvm(lower(schedule, form_for(schedule, call.arrays, call.dims), target)[1])


def test_few_kernels_of_rest_rows():
    """A product that only stores does its last whole block once more, whatever the number of rows."""
    kernels = re.findall(r"^define .*@(dot\.float\.\dx\d)[^(]*\.set", attention_code(AVX2, 100), re.MULTILINE)
    assert sorted(kernels) == ["dot.float.1x2", "dot.float.6x2"]


@pytest.mark.parametrize("queries", [64, 100])
def test_machines_that_cannot_scatter_store_lane_by_lane(queries):
    assert "masked.scatter" not in attention_code(AVX2, queries)
    assert "masked.scatter" in attention_code(AVX512, queries)


def test_extents_are_divided_as_natural_numbers():
    assert "srem" not in attention_code(AVX2, 64)
