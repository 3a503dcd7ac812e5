"""The copy that memory-bound kernels are measured against: whole lines, past the caches, on all cores."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache

from threadloom.par.builder import ModuleBuilder
from threadloom.par.ops import F32, I64, PTR, Level, Vector
from threadloom.targets.cpu.host import host_cpu
from threadloom.targets.cpu.jit import compile_module

CHUNK_ELEMS = 1 << 14
VECTORS = 4


@lru_cache(maxsize=1)
def copier() -> Callable[[int, int, int], None]:
    """copy(to, from, bytes): addresses on cache lines, bytes a multiple of 64 KiB."""
    lanes = host_cpu().vector_bytes // 4
    m = ModuleBuilder()
    params = [("to", PTR, "noalias"), ("source", PTR, "noalias readonly"), ("bytes", I64)]
    with m.function("copy", params, exported=True) as b:
        to, source, bytes_ = b.args
        with b.parallel(Level.BLOCKS, [0], [b.udiv(bytes_, CHUNK_ELEMS * 4)], names=["chunk"]) as (chunk,):
            first = b.mul(chunk, CHUNK_ELEMS)
            with b.loop(0, CHUNK_ELEMS, lanes * VECTORS) as loop:
                at = b.add(first, loop.iv)
                pointers = [
                    b.gep(F32, b.gep(F32, base, at), lanes * v) for v in range(VECTORS) for base in (source, to)
                ]
                for v in range(VECTORS):
                    value = b.load(Vector(lanes, F32), pointers[2 * v], lanes * 4)
                    b.store(value, pointers[2 * v + 1], lanes * 4, nontemporal=True)
        b.fence()
        b.ret()
    return compile_module(m.build()).function("copy", None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
