"""Products on AMX, of bf16 and of bytes: every arrangement of the operands, sizes that fill no tile, what is emitted.

They run on the unit where this machine has it, and anywhere with its instructions emulated (tests/emulated_amx.py).
"""

from __future__ import annotations

import importlib
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from cpu_run import plain_schedule, run_compiled
from emulated_amx import run_emulated
from quick import some

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


@tl.kernel
def bytes_plain(a: tl.Tensor["M", "K", "T"], b: tl.Tensor["K", "N", "T"]) -> tl.Tensor["M", "N", tl.i32]:
    for m, n in tl.grid("M", "N"):
        acc = tl.zeros(m, n, dtype=tl.i32)
        for k in tl.stream("K"):
            acc += tl.dot(a[m, k], b[k, n])
        out[m, n] = acc


@tl.kernel
def bytes_columns_of_b(a: tl.Tensor["M", "K", "T"], b: tl.Tensor["N", "K", "T"]) -> tl.Tensor["M", "N", tl.i32]:
    for m, n in tl.grid("M", "N"):
        k = tl.axis("K")
        out[m, n] = tl.dot(a[m, k], b[n, k]) * 3


@tl.kernel
def bytes_columns_of_a(a: tl.Tensor["K", "M", "T"], b: tl.Tensor["K", "N", "T"]) -> tl.Tensor["M", "N", tl.i32]:
    for m, n in tl.grid("M", "N"):
        acc = tl.full(5, m, n, dtype=tl.i32)
        for k in tl.stream("K"):
            acc += tl.dot(a[k, m], b[k, n])
        out[m, n] = acc


@tl.kernel
def bytes_computed(a: tl.Tensor["M", "K", "T"], b: tl.Tensor["K", "N", "T"]) -> tl.Tensor["M", "N", tl.i32]:
    for m, n in tl.grid("M", "N"):
        acc = tl.zeros(m, n, dtype=tl.i32)
        for k in tl.stream("K"):
            acc += tl.dot(tl.cast(tl.exp(tl.cast(a[m, k], tl.f32) * 0.01), a.dtype), b[k, n])
        out[m, n] = acc


KERNELS = {kernel.name: kernel for kernel in (plain, columns_of_b, columns_of_a, scaled_operand)}
BYTES = {kernel.name: kernel for kernel in (bytes_plain, bytes_columns_of_b, bytes_columns_of_a, bytes_computed)}
SIZES = [(64, 64, 64), (100, 70, 50), (33, 129, 7), (40, 40, 1), (32, 16, 0)]


def arguments(name: str, m: int, n: int, k: int, dtype: type = ml_dtypes.bfloat16) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = {"columns_of_b": ((m, k), (n, k)), "columns_of_a": ((k, m), (k, n))}
    shapes = shapes.get(name.removeprefix("bytes_"), ((m, k), (k, n)))
    if dtype is ml_dtypes.bfloat16:
        return {x: rng.standard_normal(s).astype(dtype) for x, s in zip("ab", shapes, strict=True)}
    limits = np.iinfo(dtype)
    return {x: rng.integers(limits.min, limits.max, s, dtype, True) for x, s in zip("ab", shapes, strict=True)}


@pytest.mark.parametrize("name", KERNELS)
def test_emulated_products(name: str):
    given = arguments(name, 100, 70, 50)
    call = KERNELS[name].bind(**given)
    (got,), unit = run_emulated(call, {"m": 64, "n": 96, "k": 48})
    want = KERNELS[name].interpret(**given, exact=True)
    assert np.abs(got - want).max(initial=0) <= tolerance(call.kernel, call.dims, tl.f32, want)
    assert unit.products and not unit.configured


@pytest.mark.parametrize(
    ("dtype", "size"), some([(np.int8, (100, 70, 90)), (np.uint8, (33, 129, 7))], [(np.uint8, (33, 129, 7))])
)
@pytest.mark.parametrize("name", BYTES)
def test_emulated_products_of_bytes(name: str, dtype: type, size: tuple[int, int, int]):
    given = arguments(name, *size, dtype)
    (got,), unit = run_emulated(BYTES[name].bind(**given), {"m": 64, "n": 96, "k": 80})
    np.testing.assert_array_equal(got, BYTES[name].interpret(**given))
    assert unit.products and not unit.configured


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("name", BYTES)
def test_products_of_bytes(name: str, size: tuple[int, int, int]):
    if not enable_amx():
        pytest.skip("this machine has no AMX, or does not lend it")
    for dtype in (np.int8, np.uint8):
        given = arguments(name, *size, dtype)
        (got,) = run_compiled(BYTES[name].bind(**given), AMX, tiles={"m": 64, "n": 96, "k": 80})
        np.testing.assert_array_equal(got, BYTES[name].interpret(**given))


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


@pytest.mark.parametrize(
    ("dtype", "instruction"), [(ml_dtypes.bfloat16, "tdpbf16ps"), (np.int8, "tdpbssd"), (np.uint8, "tdpbuud")]
)
def test_what_is_emitted(dtype: type, instruction: str):
    kernel = plain if dtype is ml_dtypes.bfloat16 else bytes_plain
    call = kernel.bind(**arguments(kernel.name, 128, 128, 128, dtype))
    schedule = plain_schedule(call.kernel)
    form = form_for(schedule, call.arrays, call.dims)
    text = compile_assembly(emit_llvm(lower(schedule, form, AMX)[1]), SAPPHIRE_RAPIDS)
    assert text.count(instruction) == 4 and "ldtilecfg" in text and "tilerelease" in text
    assert instruction not in compile_assembly(emit_llvm(lower(schedule, form, AVX512)[1]), SAPPHIRE_RAPIDS)


def test_a_unit_for_floats_only_gets_no_bytes():
    call = bytes_plain.bind(**arguments("bytes_plain", 64, 64, 64, np.int8))
    schedule = plain_schedule(call.kernel)
    floats = replace(AMX, tile_dtypes=frozenset({"bf16"}))
    text = emit_llvm(lower(schedule, form_for(schedule, call.arrays, call.dims), floats)[1])
    assert "llvm.x86.tile" not in text


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


@pytest.mark.slow
@pytest.mark.parametrize("name", ["flash_attention", "retention"])
def test_emulated_examples_in_bf16(name: str):
    module = importlib.import_module(f"threadloom.examples.{name}")
    given = module.inputs(np.random.default_rng(0), **module.SHAPES[0], dtype=ml_dtypes.bfloat16)
    call = getattr(module, name).bind(**given)
    (got,), unit = run_emulated(call, extent=32)
    want = module.reference(**given)
    assert worst_error(got, want) <= tolerance(call.kernel, call.dims, tl.bf16, want)
    assert unit.products
