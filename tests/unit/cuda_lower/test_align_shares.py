"""Blocks taken in groups: each runs once, whatever their number, and a reason where groups gain nothing."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from threadloom.cuda.optimize.align_shares import AlignShares
from threadloom.par.ops import Parallel
from threadloom.par.passes import collected_declines
from threadloom.par.text import parse, print_module
from threadloom.par.verify import verify
from threadloom.par.walk import walk
from threadloom.targets.cpu.jit import CompileOptions, compile_module

GEOMETRY = "i32 %grid.x, i32 %grid.y, i32 %grid.z, i32 %block.x, i32 %block.y, i32 %block.z, i32 %shared.bytes"
KERNEL = """
define exported void @k(ptr %out, i32 %n, GEOMETRY) {
  parallel blocks (%bx) = (i32 0) to (i32 %grid.x) {
    %at = mul i32 %bx, STEP
    %p = getelementptr i32, ptr %out, i32 %at
    %old = load i32, ptr %p
    %new = add i32 %old, 1
    store i32 %new, ptr %p
  }
  return
}
"""


def _module(step: str):
    return parse(KERNEL.replace("GEOMETRY", GEOMETRY).replace("STEP", step))


@pytest.mark.parametrize(("step", "grain"), [("1", 16), ("2", 8), ("3", 16), ("8", 2)])
def test_each_block_runs_once(step: str, grain: int) -> None:
    module = AlignShares().apply(_module(step))
    verify(module)
    assert [op.grain for op in walk(module.functions[0].body) if isinstance(op, Parallel)] == [grain]
    assert parse(print_module(module)) == module
    kernel = compile_module(module, CompileOptions()).function("k", None, ctypes.c_void_p, *[ctypes.c_int] * 8)
    for blocks in (1, 17, 256, 1000, 4097):
        out = np.zeros(blocks * int(step), np.int32)
        kernel(out.ctypes.data, 0, blocks, 1, 1, 1, 1, 1, 0)
        assert np.array_equal(out[:: int(step)], np.ones(blocks, np.int32)), blocks


@pytest.mark.parametrize(("step", "reason"), [
    ("16", "blocks write whole cache lines"),
    ("%n", "what blocks write is no constant distance apart"),
])  # fmt: skip
def test_reasons(step: str, reason: str) -> None:
    with collected_declines() as declined:
        assert AlignShares().apply(_module(step)) == _module(step)
    assert [one.detail for one in declined] == [reason]
