"""A register-blocked matrix product through builder, emission and JIT: the shape that tile kernels will take."""

import ctypes

import numpy as np
import pytest

from threadloom.par.builder import Builder, ModuleBuilder
from threadloom.par.ops import F32, I64, PTR, Level, Module, Operand, Vector
from threadloom.targets.cpu import jit
from threadloom.targets.cpu.emit import emit_llvm
from threadloom.targets.cpu.host import X86_64_V3, X86_64_V4
from threadloom.tolerance import bound, worst_error


def add_micro_kernel(m: ModuleBuilder, rows: int, vectors: int, lanes: int) -> None:
    """c[rows, vectors*lanes] = a panel [k, rows] times b panel [k, vectors*lanes]; accumulators are carried values."""
    vector = Vector(lanes, F32)
    params = [
        ("a", PTR, "noalias readonly"),
        ("b", PTR, "noalias readonly"),
        ("c", PTR, "noalias"),
        ("k", I64),
        ("ldc", I64),
    ]
    with m.function("micro", params, attrs=("noinline", "nounwind")) as b:
        a, panel, c, k, ldc = b.args
        names = [f"acc.{row}.{column}" for row in range(rows) for column in range(vectors)]
        with b.loop(0, k, 1, [b.const(vector, 0.0)] * len(names), names, "p") as loop:
            a_row = b.gep(F32, a, b.mul(loop.iv, rows))
            b_row = b.gep(F32, panel, b.mul(loop.iv, vectors * lanes))
            columns = [b.load(vector, b.gep(F32, b_row, column * lanes), name="b") for column in range(vectors)]
            following = []
            for row in range(rows):
                broadcast = b.splat(b.load(F32, b.gep(F32, a_row, row), name="a"), lanes)
                for column in range(vectors):
                    following.append(b.fma(broadcast, columns[column], loop.args[row * vectors + column]))
            loop.yield_(*following)
        for row in range(rows):
            for column in range(vectors):
                at = b.gep(F32, c, b.add(b.mul(ldc, row), column * lanes))
                b.store(loop.results[row * vectors + column], at)
        b.ret()


def pack(
    b: Builder, source: Operand, to: Operand, k: Operand, outer_stride: Operand, inner_stride: Operand, width: int
) -> None:
    """to[p, w] = source[p * outer_stride + w * inner_stride]."""
    with b.loop(0, k, 1, iv="p") as loop:
        with b.loop(0, width, 1, iv="w") as inner:
            at = b.add(b.mul(loop.iv, outer_stride), b.mul(inner.iv, inner_stride))
            b.store(b.load(F32, b.gep(F32, source, at)), b.gep(F32, to, b.add(b.mul(loop.iv, width), inner.iv)))
            inner.yield_()
        loop.yield_()


def gemm_module(rows: int, vectors: int, lanes: int) -> Module:
    """c = a @ b for sizes that are multiples of the register tile; rows of tiles are spread over workers."""
    m, width = ModuleBuilder(), vectors * lanes
    add_micro_kernel(m, rows, vectors, lanes)
    params = [
        ("a", PTR),
        ("b", PTR),
        ("c", PTR),
        ("b.packed", PTR),
        ("a.packed", PTR),
        ("M", I64),
        ("N", I64),
        ("K", I64),
    ]
    with m.function("gemm", params, exported=True) as b:
        a, right, c, b_packed, a_packed, rows_all, columns_all, k = b.args
        with b.parallel(Level.BLOCKS, [0], [b.udiv(columns_all, width)], ["j"]) as (j,):
            to = b.gep(F32, b_packed, b.mul(b.mul(j, width), k))
            pack(b, b.gep(F32, right, b.mul(j, width)), to, k, columns_all, b.const(I64, 1), width)
        with b.parallel(Level.BLOCKS, [0], [b.udiv(rows_all, rows)], ["i"]) as (i,):
            first = b.mul(i, rows)
            panel = b.gep(F32, a_packed, b.mul(first, k))
            pack(b, b.gep(F32, a, b.mul(first, k)), panel, k, b.const(I64, 1), k, rows)
            with b.loop(0, b.udiv(columns_all, width), 1, iv="j") as loop:
                at = b.gep(F32, c, b.add(b.mul(first, columns_all), b.mul(loop.iv, width)))
                strip = b.gep(F32, b_packed, b.mul(b.mul(loop.iv, width), k))
                b.call("micro", [panel, strip, at, k, columns_all])
                loop.yield_()
        b.ret()
    return m.build()


def run_gemm(module: Module, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    code = jit.compile_module(module)
    gemm = code.function("gemm", None, *[ctypes.c_void_p] * 5, *[ctypes.c_int64] * 3)
    (m, k), n = a.shape, b.shape[1]
    c, b_packed, a_packed = np.full((m, n), np.nan, np.float32), np.empty_like(b), np.empty_like(a)
    gemm(*(array.ctypes.data for array in (a, b, c, b_packed, a_packed)), m, n, k)
    return c


@pytest.mark.parametrize(("rows", "vectors", "lanes"), [(14, 2, 16), (6, 2, 8), (8, 2, 4), (1, 1, 8)])
def test_gemm_is_right_for_every_register_tile(rows, vectors, lanes):
    rng = np.random.default_rng(0)
    a = rng.standard_normal((rows * 3, 70), dtype=np.float32)
    b = rng.standard_normal((70, vectors * lanes * 2), dtype=np.float32)
    c = run_gemm(gemm_module(rows, vectors, lanes), a, b)
    assert worst_error(c, a.astype(np.float64) @ b.astype(np.float64)) <= bound("f32", 70, 4.0)


@pytest.mark.parametrize(
    ("tile", "target", "register"), [((14, 2, 16), X86_64_V4, "%zmm"), ((6, 2, 8), X86_64_V3, "%ymm")]
)
def test_accumulators_stay_in_registers(tile, target, register):
    assembly = jit.compile_assembly(emit_llvm(gemm_module(*tile)), target)
    micro = assembly[assembly.index("\nmicro:") : assembly.index("\n.Lfunc_end0")]
    multiplies = [line for line in micro.splitlines() if "vfmadd" in line]
    assert len(multiplies) == tile[0] * tile[1] and all(register in line for line in multiplies)
    assert "(%rsp)" not in micro  # nothing is spilled
