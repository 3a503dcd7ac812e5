"""Directed kernels: every collective with every width and kind on full and partial warps, and the shapes of control
flow around barriers. The interpreter on the raised form, the interpreter on the lowered form and compiled code agree.
"""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from quick import some

from threadloom.cuda.check.rendezvous import cuda_rendezvous
from threadloom.cuda.kernel import COLLECTIVES
from threadloom.cuda.lower.pipeline import lower
from threadloom.cuda.lower.runtime_calls import DIVERGENT_BARRIER
from threadloom.par.interp import interpret
from threadloom.par.ops import Module
from threadloom.par.text import parse
from threadloom.targets.cpu.jit import CompileOptions, compile_module

KERNEL = """
define exported void @k(ptr %x, ptr %out, i32 %m, i32 %blocks, i32 %nx) {
  parallel blocks (%block) = (i32 0) to (i32 %blocks) {
    %tile = alloca shared i32, i64 256
    parallel threads (%t) = (i32 0) to (i32 %nx) {
      %first = mul i32 %block, %nx
      %g = add i32 %first, %t
      %px = getelementptr i32, ptr %x, i32 %g
      %po = getelementptr i32, ptr %out, i32 %g
      %s = getelementptr i32, ptr %tile, i32 %t
      %v = load i32, ptr %px
      BODY
    }
  }
  return
}
DECLARATIONS
"""
LETTERS = {32: "i32", 64: "i64", 0: "void"}


def _module(body: str) -> Module:
    used = [c for c in COLLECTIVES.values() if f"@{c.callee}(" in body]
    declared = []
    for one in used:
        params = ", ".join(LETTERS[type_.bits] for type_ in one.params)
        declared.append(f"declare {LETTERS[getattr(one.result, 'bits', 0)]} @{one.callee}({params})")
    return parse(KERNEL.replace("BODY", body).replace("DECLARATIONS", "\n".join(declared)))


class Diverged(Exception):
    pass


def _stop(file: int, line: int) -> int:
    raise Diverged


def _interpreted(module: Module, x: np.ndarray, m: int, blocks: int, clean: bool) -> np.ndarray:
    out = np.zeros_like(x)
    outcome = interpret(module, "k", [x.copy(), out, m, blocks, len(x) // blocks], rendezvous=cuda_rendezvous(),
                        externals={DIVERGENT_BARRIER: _stop})  # fmt: skip
    assert not clean or not outcome.findings, "\n".join(map(str, outcome.findings))
    return out


def _compiled(module: Module, x: np.ndarray, m: int, blocks: int, optimize: bool) -> tuple[np.ndarray, int]:
    out, reports = np.zeros_like(x), []
    callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int)(lambda file, line: reports.append(line))
    imports = {DIVERGENT_BARRIER: ctypes.cast(callback, ctypes.c_void_p).value}
    code = compile_module(module, CompileOptions(optimize=optimize), imports)
    kernel = code.function("k", None, *[ctypes.c_void_p] * 2, *[ctypes.c_int] * 3)
    x = x.copy()
    kernel(x.ctypes.data, out.ctypes.data, m, blocks, len(x) // blocks)
    return out, len(reports)


def agree(body: str, threads: int, m: int = 3, blocks: int = 2, optimize: bool = False) -> np.ndarray:
    """The result, after all engines have agreed on it and the interpreter has found nothing wrong."""
    module = _module(body)
    x = np.random.default_rng(threads).integers(-40, 40, threads * blocks).astype(np.int32)
    expected = _interpreted(module, x, m, blocks, clean=True)
    lowered = lower(module).module
    assert np.array_equal(_interpreted(lowered, x, m, blocks, clean=False), expected)
    result, reports = _compiled(lowered, x, m, blocks, optimize)
    assert reports == 0 and np.array_equal(result, expected)
    return expected.reshape(blocks, threads)


# ---------------------------------------------------------------- warp operations


@pytest.mark.parametrize("threads", some([32, 40, 7], [40]))
@pytest.mark.parametrize("width", some([32, 16, 8], [8]))
@pytest.mark.parametrize("kind", ["idx", "up", "down", "xor"])
def test_shuffles(kind: str, width: int, threads: int) -> None:
    lines = []
    for number, by in enumerate((1, 2, 16)):
        lines.append(f"%r{number} = call i32 @loom.shfl.sync.{kind}.i32(i32 -1, i32 %v, i32 {by}, i32 {width})")
    lines += ["%a = mul i32 %r0, 7", "%b = add i32 %a, %r1", "%c = mul i32 %b, 7", "%d = add i32 %c, %r2",
              "store i32 %d, ptr %po"]  # fmt: skip
    agree("\n".join(lines), threads)


def test_a_shuffle_from_outside_the_segment_keeps_the_own_value() -> None:
    body = "%r = call i32 @loom.shfl.sync.down.i32(i32 -1, i32 %t, i32 2, i32 8)\n store i32 %r, ptr %po"
    lanes = np.arange(40)
    expected = np.where((lanes % 8 + 2 < 8) & (lanes + 2 < 40), lanes + 2, lanes)
    assert np.array_equal(agree(body, 40)[0], expected)


WITH_MEMBERS = sorted(callee for callee in COLLECTIVES if callee.startswith(("loom.vote", "loom.match", "loom.reduce")))


@pytest.mark.parametrize("threads", some([32, 45], [45]))
@pytest.mark.parametrize("callee", WITH_MEMBERS)
def test_votes_matches_and_reductions(callee: str, threads: int) -> None:
    wide = callee.endswith("i64")
    type_ = "i64" if wide else "i32"
    body = f"""
      %small = and i32 %v, 3
      %value = {"sext i32 %small to i64" if wide else "add i32 %small, 0"}
      %all = call i32 @{callee}(i32 -1, {type_} %value)
      store i32 %all, ptr %po
      %odd = and i32 %t, 1
      %c = icmp eq i32 %odd, 1
      if i1 %c {{
        %here = call i32 @loom.activemask()
        %some = call i32 @{callee}(i32 %here, {type_} %value)
        %both = xor i32 %some, %all
        store i32 %both, ptr %po
        yield
      }} else {{
        yield
      }}"""
    agree(body, threads)


def test_shuffles_in_a_loop_reduce_a_warp() -> None:
    body = """
      %sum.out, %d.out = while (%sum = i32 %v, %d = i32 16) {
        %go = icmp sgt i32 %d, 0
        condition i1 %go, i32 %sum, i32 %d
      } do (%sum1, %d1) {
        %other = call i32 @loom.shfl.sync.xor.i32(i32 -1, i32 %sum1, i32 %d1, i32 32)
        %sum2 = add i32 %sum1, %other
        %half = lshr i32 %d1, 1
        yield i32 %sum2, i32 %half
      }
      store i32 %sum.out, ptr %po"""
    result = agree(body, 64, optimize=True)
    x = np.random.default_rng(64).integers(-40, 40, 128).astype(np.int32).reshape(2, 2, 32)
    assert np.array_equal(result.reshape(2, 2, 32), np.broadcast_to(x.sum(axis=2, keepdims=True), (2, 2, 32)))


@pytest.mark.parametrize("threads", [1, 33, 256])
@pytest.mark.parametrize("kind", ["count", "and", "or"])
def test_counting_barriers(kind: str, threads: int) -> None:
    body = f"""
      %p = and i32 %v, 1
      %a = call i32 @loom.syncthreads.{kind}(i32 %p)
      %q = and i32 %t, 256
      %b = call i32 @loom.syncthreads.{kind}(i32 %q)
      %c = call i32 @loom.syncthreads.{kind}(i32 2)
      %ab = mul i32 %a, 1000
      %abc = add i32 %ab, %b
      %d = mul i32 %abc, 1000
      %e = add i32 %d, %c
      store i32 %e, ptr %po"""
    agree(body, threads)


def test_counting_barriers_leave_out_exited_threads() -> None:
    body = """
      %c = icmp slt i32 %t, 20
      if i1 %c {
        %a = call i32 @loom.syncthreads.count(i32 1)
        %b = call i32 @loom.syncthreads.and(i32 1)
        %s1 = mul i32 %a, 10
        %s2 = add i32 %s1, %b
        store i32 %s2, ptr %po
        yield
      } else {
        store i32 -1, ptr %po
        yield
      }"""
    assert set(agree(body, 33)[0]) == {201, -1}


# ---------------------------------------------------------------- control flow around barriers

SHAPES = {
    "barrier in a loop": """
      store i32 %v, ptr %s
      barrier threads
      %acc.out = for %i = i32 0 to %m step 1 carry (%acc = i32 %v) {
        %n = add i32 %t, 1
        %w = urem i32 %n, %nx
        %o = getelementptr i32, ptr %tile, i32 %w
        %u = load i32, ptr %o
        barrier threads
        %acc1 = add i32 %acc, %u
        store i32 %acc1, ptr %s
        barrier threads
        yield i32 %acc1
      }
      store i32 %acc.out, ptr %po""",
    "doubly nested": """
      store i32 %v, ptr %s
      %acc.out = for %i = i32 0 to %m step 1 carry (%acc = i32 1) {
        %inner = for %j = i32 0 to %i step 1 carry (%b = i32 %acc) {
          barrier threads
          %u = load i32, ptr %tile
          %b1 = add i32 %b, %u
          barrier threads
          %c = icmp eq i32 %t, 0
          if i1 %c {
            store i32 %b1, ptr %tile
            yield
          } else {
            yield
          }
          yield i32 %b1
        }
        barrier threads
        %acc1 = mul i32 %inner, 3
        yield i32 %acc1
      }
      store i32 %acc.out, ptr %po""",
    "break between two barriers": """
      store i32 %v, ptr %s
      %stop.out, %acc.out, %k.out = while (%stop = i1 false, %acc = i32 %v, %k = i32 0) {
        %on = xor i1 %stop, true
        %more = icmp slt i32 %k, 9
        %go = and i1 %on, %more
        condition i1 %go, i1 %stop, i32 %acc, i32 %k
      } do (%stop1, %acc1, %k1) {
        barrier threads
        %n = add i32 %t, 1
        %w = urem i32 %n, %nx
        %o = getelementptr i32, ptr %tile, i32 %w
        %u = load i32, ptr %o
        %acc2 = add i32 %acc1, %u
        barrier threads
        %last = icmp eq i32 %k1, %m
        %acc4 = if i1 %last {
          yield i32 %acc2
        } else {
          store i32 %acc2, ptr %s
          barrier threads
          %acc3 = add i32 %acc2, 1
          yield i32 %acc3
        }
        %k2 = add i32 %k1, 1
        yield i1 %last, i32 %acc4, i32 %k2
      }
      %r = add i32 %acc.out, %k.out
      store i32 %r, ptr %po""",
    "condition loaded from shared memory": """
      %c = icmp eq i32 %t, 0
      if i1 %c {
        store i32 %m, ptr %tile
        yield
      } else {
        yield
      }
      %k.out = while (%k = i32 0) {
        barrier threads
        %left = load i32, ptr %tile
        %go = icmp sgt i32 %left, 0
        condition i1 %go, i32 %k
      } do (%k1) {
        %left0 = load i32, ptr %tile
        barrier threads
        if i1 %c {
          %less = sub i32 %left0, 1
          store i32 %less, ptr %tile
          yield
        } else {
          yield
        }
        %k2 = add i32 %k1, %v
        yield i32 %k2
      }
      store i32 %k.out, ptr %po""",
    "threads leave a loop by return": """
      %exit.0, %acc.out, %k.out = while (%e = i32 0, %acc = i32 0, %k = i32 0) {
        %stays = icmp eq i32 %e, 0
        %inside = icmp slt i32 %k, 5
        %go = and i1 %stays, %inside
        condition i1 %go, i32 %e, i32 %acc, i32 %k
      } do (%e1, %acc1, %k1) {
        %mine = and i32 %v, 7
        %done = icmp sle i32 %mine, %k1
        %e2, %acc2 = if i1 %done {
          store i32 %k1, ptr %po
          yield i32 1, i32 %acc1
        } else {
          store i32 %v, ptr %s
          barrier threads
          %u = load i32, ptr %s
          %sum = add i32 %u, %acc1
          barrier threads
          yield i32 0, i32 %sum
        }
        %k2 = add i32 %k1, 1
        yield i32 %e2, i32 %acc2, i32 %k2
      }
      %on = icmp eq i32 %exit.0, 0
      if i1 %on {
        store i32 %acc.out, ptr %s
        barrier threads
        %w = load i32, ptr %s
        store i32 %w, ptr %po
        yield
      } else {
        yield
      }""",
    "if with barriers on both sides, and values out of it": """
      store i32 %v, ptr %s
      %odd = and i32 %m, 1
      %c = icmp eq i32 %odd, 1
      %a, %b = if i1 %c {
        barrier threads
        %o = load i32, ptr %tile
        yield i32 %o, i32 %t
      } else {
        %n = add i32 %t, 5
        barrier threads
        yield i32 %n, i32 %v
      }
      %r = sub i32 %a, %b
      store i32 %r, ptr %po""",
}


@pytest.mark.parametrize("optimize", some([False, True], [True]), ids=["plain", "O3"])
@pytest.mark.parametrize("shape", SHAPES)
def test_control_flow_around_barriers(shape: str, optimize: bool) -> None:
    for threads, m in ((33, 3), (64, 4)):
        agree(SHAPES[shape], threads, m, optimize=optimize)


def test_a_barrier_that_some_threads_miss_is_reported() -> None:
    body = """
      %c = icmp slt i32 %v, 0
      if i1 %c {
        barrier threads
        yield
      } else {
        yield
      }
      store i32 %v, ptr %po"""
    module = _module(body)
    lowered = lower(module).module
    x = np.array([1, -1] * 16, np.int32)
    found = interpret(module, "k", [x, np.zeros_like(x), 0, 1, 32]).kinds()
    with pytest.raises(Diverged):
        _interpreted(lowered, x, 0, 1, clean=False)
    assert _compiled(lowered, x, 0, 1, optimize=True)[1] == 1
    assert _compiled(lowered, np.abs(x), 0, 1, optimize=True)[1] == 0
    assert found <= {"divergent-barrier"}


def test_grid_wide_barrier() -> None:
    body = """
      store i32 %v, ptr %px
      %c = call i32 @loom.syncthreads.count(i32 1)
      call void @loom.grid.sync()
      %total = mul i32 %blocks, %nx
      %n = add i32 %g, %nx
      %w = urem i32 %n, %total
      %q = getelementptr i32, ptr %x, i32 %w
      %far = load i32, ptr %q
      call void @loom.grid.sync()
      %both = add i32 %far, %c
      store i32 %both, ptr %px
      store i32 %both, ptr %po"""
    agree(body, 33, blocks=3)


def test_volatile_shared_memory_works_in_lock_step() -> None:
    """The last steps of the classic reduction, without __syncwarp."""
    steps = [f"""
      %o{d} = getelementptr i32, ptr %s, i32 {d}
      %a{d} = load volatile i32, ptr %o{d}
      %b{d} = load volatile i32, ptr %s
      %c{d} = add i32 %a{d}, %b{d}
      store volatile i32 %c{d}, ptr %s""" for d in (16, 8, 4, 2, 1)]  # fmt: skip
    body = f"""
      %h = add i32 %t, 32
      %high = getelementptr i32, ptr %tile, i32 %h
      store volatile i32 0, ptr %high
      store volatile i32 %v, ptr %s
      {"".join(steps)}
      %r = load volatile i32, ptr %tile
      store i32 %r, ptr %po"""
    x = np.arange(32, dtype=np.int32)
    result, _ = _compiled(lower(_module(body)).module, x, 0, 1, optimize=True)
    assert set(result) == {x.sum()}
