"""Groups of threads without work are passed over, and those with work do what they did."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from threadloom.cuda.vectorize.skip_idle import SkipIdle
from threadloom.par.interp import interpret
from threadloom.par.ops import For, Module
from threadloom.par.passes import collected_declines
from threadloom.par.text import parse, print_module
from threadloom.par.verify import verify
from threadloom.par.walk import walk
from threadloom.targets.cpu.jit import CompileOptions, compile_module

KERNEL = """
define exported void @walk(ptr noalias %flags, ptr noalias %to, ptr noalias %out, i32 %n, i32 %threads) {
  parallel blocks (%b) = (i32 0) to (i32 3) {
    parallel threads (%y, %x) = (i32 0, i32 0) to (i32 1, i32 %threads) {
      %start = mul i32 %b, %threads
      %i = add i32 %start, %x
      %inside = icmp slt i32 %i, %n
      if i1 %inside {
        %p = getelementptr i8, ptr %flags, i32 %i
        %flag = load i8, ptr %p
        %set = icmp ne i8 %flag, 0
        if i1 %set {
          %q = getelementptr i32, ptr %to, i32 INDEX
          %place = load i32, ptr %q
          %r = getelementptr i32, ptr %out, i32 %place
          store i32 %i, ptr %r
          yield
        } else {
          yield
        }
        yield
      } else {
        yield
      }
    }
  }
  return
}
"""


def _module(text: str = KERNEL, index: str = "%i") -> Module:
    return parse(text.replace("INDEX", index))


@pytest.mark.parametrize("threads", [5, 32, 64, 70])
@pytest.mark.parametrize("share", [0.0, 0.02, 1.0])
def test_same_work(threads: int, share: float) -> None:
    module = SkipIdle().apply(_module())
    verify(module)
    assert parse(print_module(module)) == module
    rng = np.random.default_rng(threads)
    total = 3 * threads
    flags, to = (rng.random(total) < share).astype(np.int8), rng.permutation(total).astype(np.int32)
    kernel = compile_module(module, CompileOptions()).function(
        "walk", None, *[ctypes.c_void_p] * 3, *[ctypes.c_int] * 2
    )
    for n in (0, 1, total - 3, total):
        wanted = np.full(total, -1, np.int32)
        set_ = np.flatnonzero(flags[:n])
        wanted[to[set_]] = set_
        found, compiled = np.full(total, -1, np.int32), np.full(total, -1, np.int32)
        interpret(module, "walk", [flags, to, found, n, threads])
        kernel(flags.ctypes.data, to.ctypes.data, compiled.ctypes.data, n, threads)
        assert np.array_equal(found, wanted) and np.array_equal(compiled, wanted), n


def test_a_group_is_tested_at_once() -> None:
    text = print_module(SkipIdle().apply(_module()))
    assert "load <32 x i8>" in text and "%all.lanes = icmp eq i32" in text
    assert any(isinstance(op, For) for op in walk(SkipIdle().apply(_module()).functions[0].body))


@pytest.mark.parametrize(("old", "new", "reason"), [
    ("store i32 %i, ptr %r", "store i32 %i, ptr %q", "vectors mask the work"),
    ("%p = getelementptr i8, ptr %flags, i32 %i", "%two = mul i32 %i, 2\n%p = getelementptr i8, ptr %flags, i32 %two",
     "a test's loads are scattered"),
    ("load i8, ptr %p", "load volatile i8, ptr %p", "a test reads what others publish"),
    ("i32 1, i32 %threads)", "i32 1, i32 8)", "fewer threads than a group"),
])  # fmt: skip
def test_reasons(old: str, new: str, reason: str) -> None:
    module = _module(KERNEL.replace(old, new))
    with collected_declines() as declined:
        assert SkipIdle().apply(module) == module
    assert [one.detail for one in declined] == [reason]
