"""Loops with accumulators in memory: the interpreter before and after they are carried in registers."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from threadloom.cuda.vectorize.carry_accumulators import CarryAccumulators
from threadloom.par.interp import interpret
from threadloom.par.text import parse, print_module

KERNEL = """
define exported void @k(ptr noalias %c, ptr noalias %a, i32 %n) {{
  parallel blocks (%b) = (i32 0) to (i32 1) {{
    parallel threads (%t) = (i32 0) to (i32 5) {{
      %two = mul i32 %t, 2
      %q0 = getelementptr i32, ptr %c, i32 %two
      {before}
      %r = while (%k = i32 {start}) {{
        %go = icmp slt i32 %k, {end}
        condition i1 %go, i32 %k
      }} do (%k1) {{
        %p = getelementptr i32, ptr %a, i32 %k1
        %v = load i32, ptr %p
        %wide = sext i32 %two to i64
        %q = getelementptr i32, ptr %c, i64 %wide
        %o = load i32, ptr %q
        %s = add i32 %o, %v
        store i32 %s, ptr %q
        {inner}
        %again = load i32, ptr %q
        %s1 = mul i32 %again, 3
        store i32 %s1, ptr %q
        %fixed = load i32, ptr %a
        %at1 = getelementptr i32, ptr %q, i32 1
        %o1 = load i32, ptr %at1
        %s2 = add i32 %o1, %fixed
        store i32 %s2, ptr %at1
        %next = add i32 %k1, 1
        yield i32 %next
      }}
      %e = getelementptr i32, ptr %c, i32 %t
      %f = getelementptr i32, ptr %e, i32 16
      store i32 %r, ptr %f
    }}
  }}
  return
}}
"""
BEFORE = ("", "store i32 7, ptr %q0")
BOUNDS = (("0", "4"), ("0", "%n"), ("%n", "3"))
NESTED = """
        %r1 = while (%j = i32 0) {
          %go1 = icmp slt i32 %j, 2
          condition i1 %go1, i32 %j
        } do (%j1) {
          %oj = load i32, ptr %q
          %sj = add i32 %oj, %j1
          store i32 %sj, ptr %q
          %nj = add i32 %j1, 1
          yield i32 %nj
        }"""
OVERLAP = "%odd = getelementptr i32, ptr %c, i32 %k1\n %ov = load i32, ptr %odd\n store i32 %ov, ptr %a"
INNER = {"plain": "", "nested": NESTED, "another address": OVERLAP}


@pytest.mark.parametrize("inner", INNER)
def test_results_stay(inner: str) -> None:
    for before, (start, end) in itertools.product(BEFORE, BOUNDS):
        module = parse(KERNEL.format(before=before, start=start, end=end, inner=INNER[inner]))
        carried = CarryAccumulators().apply(module)
        assert parse(print_module(carried)) == carried
        for n in (0, 2):
            results = []
            for one in (module, carried):
                results.append(np.arange(32, dtype=np.int32))
                interpret(one, "k", [results[-1], np.arange(1, 9, dtype=np.int32) * 3, n])
            assert np.array_equal(*results), (before, start, end, n)


def test_what_is_carried() -> None:
    def loads(inner: str, end: str, before: str = "") -> bool:
        text = print_module(CarryAccumulators().apply(parse(KERNEL.format(before=before, start="0", end=end,
                                                                          inner=inner))))  # fmt: skip
        return "%o = load" in text

    assert not loads("", "4") and not loads(NESTED, "4")
    assert loads(OVERLAP, "4") and loads("", "%n")
    assert not loads("", "%n", "store i32 7, ptr %q0")
