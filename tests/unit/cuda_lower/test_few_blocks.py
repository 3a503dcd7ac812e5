"""Which worker runs a thread changes nothing: blocks' threads spread over workers, and loops over threads that fork."""

from __future__ import annotations

import random

import numpy as np
import pytest
from property.cuda_lower_kernels import make_kernel

from threadloom.cuda.check.rendezvous import cuda_rendezvous
from threadloom.cuda.lower.pipeline import PASSES, lower
from threadloom.cuda.optimize.collapse import WORKERS, Collapse
from threadloom.cuda.optimize.serialize_inner import ForkInner
from threadloom.par.interp import interpret
from threadloom.par.ops import Level, Module, Parallel
from threadloom.par.passes import collected_declines
from threadloom.par.text import parse, print_module
from threadloom.par.verify import verify
from threadloom.par.walk import walk

GEOMETRY = "i32 %grid.x, i32 %grid.y, i32 %grid.z, i32 %block.x, i32 %block.y, i32 %block.z, i32 %shared.bytes"
KERNEL = """
define exported void @k(ptr %ran, i32 %n, GEOMETRY) {
  parallel blocks (%bz, %by, %bx) = (i32 0, i32 0, i32 0) to (i32 %grid.z, i32 %grid.y, i32 %grid.x) {
    MEMORY
    parallel threads (%tz, %ty, %tx) = (i32 0, i32 0, i32 0) to (i32 %block.z, i32 %block.y, i32 %block.x) {
      %row.of = mul i32 %by, %block.y
      %row = add i32 %row.of, %ty
      %rows = mul i32 %grid.x, %block.x
      %start = mul i32 %row, %rows
      %column.of = mul i32 %bx, %block.x
      %column = add i32 %column.of, %tx
      %i = add i32 %start, %column
      %inside = icmp slt i32 %i, %n
      if i1 %inside {
        %p = getelementptr i32, ptr %ran, i32 %i
        LOOP
        %v = load i32, ptr %p
        %w = add i32 %v, %sum
        store i32 %w, ptr %p
        yield
      } else {
        yield
      }
    }
  }
  return
}
"""
LOOP = """%sum = for %k = i32 0 to 3 step 1 carry (%a = i32 0) {
          %b = add i32 %a, %k
          yield i32 %b
        }"""


def _kernel(memory: str = "") -> Module:
    return parse(KERNEL.replace("MEMORY", memory).replace("LOOP", LOOP).replace("GEOMETRY", GEOMETRY))


@pytest.mark.parametrize("seed", range(8))
def test_each_thread_runs_once(seed: int) -> None:
    chosen = random.Random(seed)
    grid, block = (
        (chosen.randint(1, 3), chosen.randint(1, 2)),
        (chosen.choice((1, 15, 16, 17, 50)), chosen.randint(1, 3)),
    )
    total = grid[0] * grid[1] * block[0] * block[1]
    n = chosen.randint(0, total)
    module = Collapse().apply(_kernel())
    verify(module)
    assert print_module(module) != print_module(_kernel())
    for workers in (1, 2, 5, 64):
        ran = np.zeros(total, np.int32)
        interpret(module, "k", [ran, n, *grid, 1, *block, 1, 0], externals={WORKERS: lambda workers=workers: workers})
        assert np.array_equal(ran, 3 * (np.arange(total) < n)), workers


def test_reasons() -> None:
    cases = {
        "%tile = alloca shared [8 x i32], i64 1": "they share memory",
        "store i32 0, ptr %ran": "the block does more than its loop over threads",
    }
    for memory, reason in cases.items():
        with collected_declines() as declined:
            assert Collapse().apply(_kernel(memory)) == _kernel(memory)
        assert [one.detail for one in declined] == [reason]
    light = (
        KERNEL.replace("MEMORY", "")
        .replace("LOOP", "")
        .replace("i32 %v, %sum", "i32 %v, 3")
        .replace("GEOMETRY", GEOMETRY)
    )
    with collected_declines() as declined:
        Collapse().apply(parse(light))
    assert [one.detail for one in declined] == ["they have little to do"]


@pytest.mark.parametrize("seed", range(600, 606))
def test_loops_over_threads_that_fork(seed: int) -> None:
    """What is compared with in the ablation computes the same."""
    module = make_kernel(seed, warps=False)
    x, same = np.arange(40, dtype=np.int32), np.full(16, 3, np.int32)
    expected, out = np.zeros(40, np.int32), np.zeros(40, np.int32)
    arguments = [2, 2, 1, 1, 5, 4, 1, 0]
    externals = {WORKERS: lambda: 2, "__loom_distinct": lambda *_: 1}
    interpret(module, "k", [x, same, expected, *arguments], externals=externals, rendezvous=cuda_rendezvous())
    forked = lower(module, without=("serialize-inner",)).module
    levels = {op.level for f in forked.functions if f.body for op in walk(f.body) if isinstance(op, Parallel)}
    assert levels == {Level.BLOCKS}
    interpret(forked, "k", [x, same, out, *arguments], externals=externals)
    assert np.array_equal(out, expected)


def test_a_grid_of_warps_does_not_fork() -> None:
    with collected_declines() as declined:
        text = print_module(_kernel()).replace("parallel threads", "parallel warps")
        ForkInner().apply(parse(text))
    assert [one.reason for one in declined] == ["loops over threads do not fork"]
    assert any(one.name == "serialize-inner" for one in PASSES)
