"""Products of bf16 on AMX: every arrangement of the operands, sizes that fill no tile, and what is emitted."""

from __future__ import annotations

import importlib

import ml_dtypes
import numpy as np
import pytest
from cpu_run import plain_schedule, run_compiled

import threadloom as tl
from threadloom.comparison import tolerance
from threadloom.targets.cpu.compile import form_for, lower
from threadloom.targets.cpu.emit import emit_llvm
from threadloom.targets.cpu.host import SAPPHIRE_RAPIDS, enable_amx
from threadloom.targets.cpu.jit import compile_assembly
from threadloom.targets.cpu.schedule import AMX, AVX512
from threadloom.tolerance import worst_error


@tl.kernel
def plain(a: tl.Tensor["M", "K", "T"], b: tl.Tensor["K", "N", "T"]) -> tl.Tensor["M", "N", tl.f32]:
    for m, n in tl.grid("M", "N"):
        acc = tl.zeros(m, n, dtype=tl.f32)
        for k in tl.stream("K"):
            acc += tl.dot(a[m, k], b[k, n])
        out[m, n] = acc


@tl.kernel
def columns_of_b(a: tl.Tensor["M", "K", "T"], b: tl.Tensor["N", "K", "T"]) -> tl.Tensor["M", "N", tl.f32]:
    for m, n in tl.grid("M", "N"):
        acc = tl.zeros(m, n, dtype=tl.f32)
        for k in tl.stream("K"):
            acc += tl.dot(a[m, k], b[n, k])
        out[m, n] = acc


@tl.kernel
def columns_of_a(a: tl.Tensor["K", "M", "T"], b: tl.Tensor["K", "N", "T"]) -> tl.Tensor["M", "N", tl.f32]:
    for m, n in tl.grid("M", "N"):
        acc = tl.full(1.0, m, n, dtype=tl.f32)
        for k in tl.stream("K"):
            acc += tl.dot(a[k, m], b[k, n])
        out[m, n] = tl.relu(acc) * 2.0


@tl.kernel
def scaled_operand(a: tl.Tensor["M", "K", "T"], b: tl.Tensor["K", "N", "T"]) -> tl.Tensor["M", "N", tl.f32]:
    for m, n in tl.grid("M", "N"):
        acc = tl.zeros(m, n, dtype=tl.f32)
        for k in tl.stream("K"):
            acc += tl.dot(tl.cast(tl.exp(a[m, k]), a.dtype), b[k, n])
        out[m, n] = acc


KERNELS = {kernel.name: kernel for kernel in (plain, columns_of_b, columns_of_a, scaled_operand)}
SIZES = [(64, 64, 64), (100, 70, 50), (33, 129, 7), (40, 40, 1), (32, 16, 0)]


def arguments(name: str, m: int, n: int, k: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = {"columns_of_b": ((m, k), (n, k)), "columns_of_a": ((k, m), (k, n))}.get(name, ((m, k), (k, n)))
    return {x: rng.standard_normal(s).astype(ml_dtypes.bfloat16) for x, s in zip("ab", shapes, strict=True)}


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("name", KERNELS)
def test_products(name: str, size: tuple[int, int, int]):
    if not enable_amx():
        pytest.skip("this machine has no AMX, or does not lend it")
    given = arguments(name, *size)
    call = KERNELS[name].bind(**given)
    (got,) = run_compiled(call, AMX, tiles={"m": 64, "n": 96, "k": 48})
    want = KERNELS[name].interpret(**given, exact=True)
    assert np.abs(got - want).max(initial=0) <= tolerance(call.kernel, call.dims, tl.f32, want)


def test_what_is_emitted():
    call = plain.bind(**arguments("plain", 128, 128, 128))
    schedule = plain_schedule(call.kernel)
    form = form_for(schedule, call.arrays, call.dims)
    text = compile_assembly(emit_llvm(lower(schedule, form, AMX)[1]), SAPPHIRE_RAPIDS)
    assert text.count("tdpbf16ps") == 4 and "ldtilecfg" in text and "tilerelease" in text
    assert "tdpbf16ps" not in compile_assembly(emit_llvm(lower(schedule, form, AVX512)[1]), SAPPHIRE_RAPIDS)


@pytest.mark.parametrize("name", ["flash_attention", "mla_decode", "retention", "chunk_scan"])
def test_examples_in_bf16(name: str):
    """Among them one tile that is rows of one product and depth of another."""
    if not enable_amx():
        pytest.skip("this machine has no AMX, or does not lend it")
    module = importlib.import_module(f"threadloom.examples.{name}")
    given = module.inputs(np.random.default_rng(0), **module.SHAPES[0], dtype=ml_dtypes.bfloat16)
    call = getattr(module, name).bind(**given)
    (got,) = run_compiled(call, AMX, extent=32)
    want = module.reference(**given)
    assert worst_error(got, want) <= tolerance(call.kernel, call.dims, tl.bf16, want)
