"""Sums of thread indices that wrap between two lanes, then are extended: kept, compared and counted on from there."""

from __future__ import annotations

import random

import numpy as np
import pytest

from threadloom.cuda.vectorize.vectorize_threads import VectorizeThreads
from threadloom.par.interp import interpret
from threadloom.par.text import parse

KERNEL = """
define exported void @k(ptr %out, ptr %less, ptr %narrow, i32 %by, i64 %than) {{
  parallel blocks (%b) = (i32 0) to (i32 1) {{
    parallel threads (%t) = (i32 0) to (i32 21) {{
      %i = {sum}
      %wide = {extension} i32 %i to i64
      %more = add i64 %wide, {added}
      %many = mul i64 %more, 3
      %small = icmp {predicate} i64 %wide, %than
      %code = if i1 %small {{ yield i32 1 }} else {{ yield i32 2 }}
      %back = trunc i64 %more to i32
      %p = getelementptr i64, ptr %out, i32 %t
      store i64 %many, ptr %p
      %q = getelementptr i32, ptr %less, i32 %t
      store i32 %code, ptr %q
      %r = getelementptr i32, ptr %narrow, i32 %t
      store i32 %back, ptr %r
    }}
  }}
  return
}}
"""


@pytest.mark.parametrize("seed", range(12))
def test_lanes_keep_what_they_have_alone(seed: int) -> None:
    rng = random.Random(seed)
    extension = rng.choice(("zext", "sext"))
    sums = ("add i32 %t, %by", "sub i32 %t, %by", "sub i32 %by, %t", "shl i32 %t, 28", "mul i32 %t, 268435456")
    text = KERNEL.format(sum=rng.choice(sums), extension=extension, added=rng.choice((0, 1, -5)),
                         predicate=rng.choice(("slt", "sge", "ult", "ugt")))  # fmt: skip
    module = parse(text)
    vectors = VectorizeThreads(width=4, worth_it=1e9).apply(module)
    assert vectors != module
    edge = 2**31 - 3 if extension == "sext" else rng.choice((3, -3, 6))
    than, results = rng.choice((5, -5)), []
    for one in (module, vectors):
        results.append([np.zeros(21, np.int64), np.zeros(21, np.int32), np.zeros(21, np.int32)])
        interpret(one, "k", [*results[-1], edge, than])
    for one, other in zip(*results, strict=True):
        assert np.array_equal(one, other), text
