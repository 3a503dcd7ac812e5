"""AMX in NumPy: compiled code whose tile instructions are calls, so that it runs where no such unit is.

Code compiled for one thread; vectors of 16 lanes are cut in two by the compiler where the machine has shorter ones.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping

import ml_dtypes
import numpy as np
from cpu_run import plain_schedule

from threadloom.lang.bind import Call
from threadloom.targets.cpu.compile import Compiled, clear_accumulated, form_for, lower
from threadloom.targets.cpu.emit import emit_llvm
from threadloom.targets.cpu.jit import load
from threadloom.targets.cpu.lower.kernel import ENTRY, argument_words
from threadloom.targets.cpu.schedule import Target
from threadloom.tile.ops import Access

ROWS, ROW_BYTES = 16, 64
EMULATED = Target(64, 16, 6, 2, 8, 48 << 10, 2 << 20, tile_dtypes=frozenset({"bf16", "i8"}))
INTRINSIC = re.compile(r"call void @llvm\.x86\.(\w+)\(")


class Unit:
    """The eight tiles, and a function for every instruction."""

    def __init__(self) -> None:
        self.tiles = np.zeros((8, ROWS, ROW_BYTES), np.uint8)
        self.configured = False
        self.products = 0
        self.calls = {
            "ldtilecfg": _function(self.configure, ctypes.c_void_p),
            "tilerelease": _function(self.release),
            "tilezero": _function(self.zero, ctypes.c_int8),
            "tileloadd64": _function(self.load, ctypes.c_int8, ctypes.c_void_p, ctypes.c_int64),
            "tilestored64": _function(self.store, ctypes.c_int8, ctypes.c_void_p, ctypes.c_int64),
            "tdpbf16ps": _function(self.bf16, *[ctypes.c_int8] * 3),
            "tdpbssd": _function(self.signed_bytes, *[ctypes.c_int8] * 3),
            "tdpbuud": _function(self.unsigned_bytes, *[ctypes.c_int8] * 3),
        }

    def address(self, name: str) -> int:
        return ctypes.cast(self.calls[name], ctypes.c_void_p).value or 0

    def configure(self, pointer: int) -> None:
        given = np.frombuffer(ctypes.string_at(pointer, 64), np.uint8)
        widths = given[16:32].view(np.uint16)
        self.configured = bool(given[0] == 1 and (widths == ROW_BYTES).all() and (given[48:56] == ROWS).all())

    def release(self) -> None:
        self.configured = False
        self.tiles[...] = 0xAA

    def zero(self, tile: int) -> None:
        self.tiles[tile] = 0 if self.configured else 0xAA

    def load(self, tile: int, pointer: int, stride: int) -> None:
        for row in range(ROWS):
            self.tiles[tile, row] = np.frombuffer(ctypes.string_at(pointer + row * stride, ROW_BYTES), np.uint8)

    def store(self, tile: int, pointer: int, stride: int) -> None:
        for row in range(ROWS):
            ctypes.memmove(pointer + row * stride, self.tiles[tile, row].ctypes.data, ROW_BYTES)

    def bf16(self, out: int, a: int, b: int) -> None:
        self._product(out, a, b, ml_dtypes.bfloat16, np.float32)

    def signed_bytes(self, out: int, a: int, b: int) -> None:
        self._product(out, a, b, np.int8, np.int32)

    def unsigned_bytes(self, out: int, a: int, b: int) -> None:
        self._product(out, a, b, np.uint8, np.int32)

    def _product(self, out: int, a: int, b: int, narrow: type, wide: type) -> None:
        """out[m, n] += sum over k, i of a[m, k, i] b[k, n, i], where i are the elements of 32 bits."""
        left, right = (self.tiles[t].view(narrow).reshape(ROWS, ROWS, -1).astype(wide) for t in (a, b))
        self.tiles[out].view(wide)[...] += np.einsum("mki,kni->mn", left, right)
        self.products += self.configured


def _function(method: object, *types: object) -> object:
    return ctypes.CFUNCTYPE(None, *types)(method)


def run_emulated(call: Call, tiles: Mapping[str, int] | None = None, extent: int = 64) -> tuple[list[np.ndarray], Unit]:
    """Fill the call's outputs, poisoned before; with the unit as it is afterwards."""
    schedule = plain_schedule(call.kernel, tiles, extent, serial=True)
    outputs = [call.arrays[t.name] for t in call.kernel.tensors if t.access is not Access.IN]
    for array in outputs:
        array[...] = np.asarray(77, array.dtype)
    clear_accumulated(call.kernel, call.arrays, call.dims)
    plan, module = lower(schedule, form_for(schedule, call.arrays, call.dims), EMULATED)
    unit = Unit()
    text = INTRINSIC.sub(lambda m: f"call void inttoptr (i64 {unit.address(m[1])} to ptr)(", emit_llvm(module))
    entry = load(text, [ENTRY]).function(ENTRY, None, ctypes.c_void_p)
    Compiled(schedule, argument_words(plan.kernel), entry).run(call.arrays, call.dims, call.scalars)
    return outputs, unit
