"""Rows that fit one vector: under a mask where the machine has mask registers, without a loop over vectors."""

from __future__ import annotations

import numpy as np
import pytest

from threadloom.cuda.vectorize import vectorize_threads
from threadloom.cuda.vectorize.extents import span
from threadloom.cuda.vectorize.vectorize_threads import VectorizeThreads
from threadloom.par.interp import interpret
from threadloom.par.ops import Leaf, Parallel
from threadloom.par.text import parse, print_module
from threadloom.par.walk import walk

KERNEL = """
define exported void @k(ptr noalias %a, ptr noalias %b, ptr noalias %shared, i32 %n, i32 %first) {{
  parallel blocks (%block) = (i32 0) to (i32 1) {{
    %wide = sext i32 %n to i64
    %some = call i64 @llvm.smin.i64(i64 {most}, i64 %wide)
    %skip = sext i32 %first to i64
    %low = call i64 @llvm.smax.i64(i64 0, i64 %skip)
    %lowest = call i64 @llvm.smin.i64(i64 %low, i64 {most})
    %high = call i64 @llvm.smax.i64(i64 %some, i64 %lowest)
    %lower = trunc i64 %lowest to i32
    %upper = trunc i64 %high to i32
    parallel threads (%y, %x) = (i32 0, i32 %lower) to (i32 3, i32 %upper) {{
      %row = mul i32 %y, 16
      %item = add i32 %row, %x
      %p = getelementptr float, ptr %a, i32 %item
      %v = load float, ptr %p
      %d = fpext float %v to double
      %t = fmul double %d, %d
      %w = fadd double %t, %d
      %r = fptrunc double %w to float
      %q = getelementptr float, ptr %b, i32 %item
      store float %r, ptr %q
      %c = load float, ptr %shared
      %s = getelementptr float, ptr %b, i32 50
      store float %c, ptr %s
    }}
  }}
  return
}}
"""


@pytest.fixture
def mask_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectorize_threads, "has_mask_registers", lambda: True)


@pytest.mark.usefixtures("mask_registers")
@pytest.mark.parametrize(("n", "first"), [(14, 1), (16, 0), (20, -3), (0, 0), (5, 9), (9, 8)])
@pytest.mark.parametrize(("width", "vectors"), [(16, 1), (8, 2)])
def test_a_row_is_a_known_number_of_vectors(n: int, first: int, width: int, vectors: int) -> None:
    module = parse(KERNEL.format(most=16))
    changed = VectorizeThreads(width=width).apply(module)
    assert f"<{width} x double>" in print_module(changed)
    found = []
    for one in (module, changed):
        b, shared = np.full(64, -1, np.float32), np.full(int(n > first), 7, np.float32)  # may be empty
        interpret(one, "k", [np.arange(64, dtype=np.float32), b, shared, n, first])
        found.append(b)
    assert np.array_equal(*found)
    ends = [op.uppers[-1] for op in walk(changed.functions[0].body) if isinstance(op, Parallel)]
    assert [str(getattr(end, "text", "")) for end in ends] == ["1", str(vectors)]  # blocks, and vectors of a row


@pytest.mark.usefixtures("mask_registers")
def test_longer_rows_are_loops_over_vectors() -> None:
    assert "chunks" in print_module(VectorizeThreads(width=8).apply(parse(KERNEL.format(most=17))))


def test_without_mask_registers_there_are_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectorize_threads, "has_mask_registers", lambda: False)
    assert "chunks" in print_module(VectorizeThreads(width=16).apply(parse(KERNEL.format(most=16))))


SPANS = """
define exported void @k(i64 %n) {
  %a = call i64 @llvm.smin.i64(i64 16, i64 %n)
  %b = call i64 @llvm.smax.i64(i64 %a, i64 -2)
  %c = trunc i64 %b to i32
  %d = sext i32 %c to i64
  %e = trunc i64 %a to i32
  %f = add i64 %a, 1
  return
}
"""


def test_spans() -> None:
    leaves = {op.result.name: op for op in parse(SPANS).functions[0].body.ops if isinstance(op, Leaf) and op.result}
    found = {name: span(leaf.result, leaves) for name, leaf in leaves.items()}
    assert found == {
        "a": (None, 16),
        "b": (-2, 16),
        "c": (-2, 16),
        "d": (-2, 16),
        "e": (None, None),  # what is below zero may be anything when it is cut
        "f": (None, None),
    }
