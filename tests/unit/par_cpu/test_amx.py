"""AMX tiles through par: what a bf16 micro-kernel on the matrix unit will use."""

import ctypes

import ml_dtypes
import numpy as np
import pytest

from threadloom.par.builder import ModuleBuilder
from threadloom.par.ops import I8, I64, PTR, Module
from threadloom.targets.cpu import jit
from threadloom.targets.cpu.emit import emit_llvm
from threadloom.targets.cpu.host import SAPPHIRE_RAPIDS, enable_amx

ROWS, PAIRS, COLUMNS = 16, 16, 16  # one tile: 16 rows of 64 bytes


def tile_product() -> Module:
    """c[16, 16] f32 += a[16, 32] bf16 times b, whose rows hold pairs of k: b[16, 16, 2] bf16."""
    m = ModuleBuilder()
    with m.function("product", [("config", PTR), ("a", PTR), ("b", PTR), ("c", PTR)], exported=True) as b:
        config, left, right, out = b.args
        stride = b.const(I64, 64)
        number = [b.const(I8, tile) for tile in range(3)]
        b.call("llvm.x86.ldtilecfg", [config])
        for tile, source in zip(number, (out, left, right), strict=True):
            b.call("llvm.x86.tileloadd64", [tile, source, stride])
        b.call("llvm.x86.tdpbf16ps", number)
        b.call("llvm.x86.tilestored64", [number[0], out, stride])
        b.call("llvm.x86.tilerelease", [])
        b.ret()
    return m.build()


def test_tiles_compile_to_tile_instructions():
    assembly = jit.compile_assembly(emit_llvm(tile_product()), SAPPHIRE_RAPIDS)
    for instruction in ("ldtilecfg", "tileloadd", "tdpbf16ps", "tilestored", "tilerelease"):
        assert instruction in assembly


@pytest.mark.skipif(not enable_amx(), reason="this CPU has no AMX, or the kernel does not grant it")
def test_the_tile_product_is_right():
    rng = np.random.default_rng(1)
    a = rng.standard_normal((ROWS, 2 * PAIRS)).astype(ml_dtypes.bfloat16)
    b = rng.standard_normal((2 * PAIRS, COLUMNS)).astype(ml_dtypes.bfloat16)
    paired = np.ascontiguousarray(b.reshape(PAIRS, 2, COLUMNS).transpose(0, 2, 1))
    c = np.ones((ROWS, COLUMNS), np.float32)
    config = np.zeros(64, np.uint8)
    config[0] = 1  # palette
    config[16:22:2] = 64  # bytes per row of tiles 0 to 2
    config[48:51] = 16  # their rows
    product = jit.compile_module(tile_product()).function("product", None, *[ctypes.c_void_p] * 4)
    product(*(array.ctypes.data for array in (config, a, paired, c)))
    assert np.allclose(c, 1 + a.astype(np.float32) @ b.astype(np.float32), atol=1e-4)
