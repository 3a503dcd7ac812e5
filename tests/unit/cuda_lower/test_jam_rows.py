"""Rows jammed together compute what rows one by one do, and the pass says why it leaves others alone."""

from __future__ import annotations

import numpy as np
import pytest

from threadloom.cuda.lower.jam_rows import JamRows
from threadloom.par.interp import interpret
from threadloom.par.passes import collected_declines
from threadloom.par.text import parse
from threadloom.par.verify import verify

KERNEL = """
define exported void @tile(ptr noalias %a, ptr noalias %b, ptr %c, i32 %ny, i32 %nx, i32 %depth) {
  parallel threads (%y, %x) = (i32 0, i32 0) to (i32 %ny, i32 %nx) {
    %row = mul i32 %y, %depth
    %odd = and i32 %y, 1
    %is.odd = icmp eq i32 %odd, 1
    %sum = for %k = i32 0 to %depth step 1 carry (%acc = float 0.0) {
      %ia = add i32 %row, %k
      %pa = getelementptr float, ptr %a, i32 %ia
      %av = load float, ptr %pa
      %column = mul i32 %k, %nx
      %ib = add i32 %column, %x
      %pb = getelementptr float, ptr %b, i32 %ib
      %bv = load float, ptr %pb
      %product = fmul float %av, %bv
      %signed = if i1 %is.odd {
        %minus = fneg float %product
        yield float %minus
      } else {
        yield float %product
      }
      %next = fadd float %acc, %signed
      yield float %next
    }
    %place.row = mul i32 %y, %nx
    %place = add i32 %place.row, %x
    %pc = getelementptr float, ptr %c, i32 %place
    EXTRA
    store float %sum, ptr %pc
  }
  return
}
"""


def _module(extra: str = ""):
    module = parse(KERNEL.replace("EXTRA", extra))
    verify(module)
    return module


def _product(module, ny: int, nx: int, depth: int) -> np.ndarray:
    rng = np.random.default_rng(ny * 100 + nx)
    a = rng.standard_normal(ny * depth).astype(np.float32)
    b = rng.standard_normal(depth * nx).astype(np.float32)
    c = np.zeros(ny * nx, np.float32)
    interpret(module, "tile", [a, b, c, ny, nx, depth])
    return c


@pytest.mark.parametrize(("ny", "nx", "depth"), [(8, 3, 5), (9, 2, 4), (3, 4, 2), (16, 1, 1), (5, 5, 0), (0, 3, 2)])
@pytest.mark.parametrize("rows", [2, 4, 8])
def test_jammed_rows_compute_the_same(rows: int, ny: int, nx: int, depth: int) -> None:
    before = _module()
    after = JamRows(rows=rows).apply(before)
    assert after != before
    verify(after)
    np.testing.assert_array_equal(_product(after, ny, nx, depth), _product(before, ny, nx, depth))


def test_atomics_stay_in_their_order() -> None:
    before = _module("%old = atomicrmw add ptr %c, i32 1 monotonic, align 4")
    with collected_declines() as declined:
        assert JamRows().apply(before) is before
    assert [one.reason for one in declined] == ["rows not jammed"]


def test_too_much_code_is_left_alone() -> None:
    before = _module()
    with collected_declines() as declined:
        assert JamRows(most_ops=20).apply(before) is before
    assert "too many" in declined[0].detail
