"""Loops that another thread may have to end are watched, all others stay as they are."""

from __future__ import annotations

import numpy as np
import pytest

from threadloom.cuda.lower.peel_rows import PeelRows
from threadloom.cuda.lower.runtime_calls import WAITING
from threadloom.cuda.lower.watch_waits import WatchWaits, refuse_waits
from threadloom.cuda.vectorize.narrow_threads import NarrowThreads
from threadloom.cuda.vectorize.vectorize_threads import VectorizeThreads
from threadloom.errors import CompileError
from threadloom.par.interp import interpret
from threadloom.par.text import parse, print_module
from threadloom.par.verify import verify


def _module(load: str, alloca: str = "", body: str = ""):
    return parse(f"""
define exported void @k(ptr %flag, ptr %out, i32 %n) {{
  parallel blocks (%b) = (i32 0) to (i32 1) {{
    {alloca}
    parallel threads (%t) = (i32 0) to (i32 1) {{
      %seen = while (%i = i32 0) loc("k.cu":7:3) {{
        {load}
        %more = icmp slt i32 %i, %v
        condition i1 %more, i32 %i
      }} do (%j) {{
        {body}
        %next = add i32 %j, 1
        yield i32 %next
      }}
      store i32 %seen, ptr %out
    }}
  }}
  return
}}
""")


GLOBAL = "%v = load volatile i32, ptr %flag, align 4"
SHARED = ("%v = load volatile i32, ptr %own, align 4", "%own = alloca shared i32, i64 1")


@pytest.mark.parametrize(
    ("load", "alloca", "body", "watched"),
    [
        (GLOBAL, "", "", True),
        (GLOBAL, "", "store i32 %j, ptr %out", True),
        ("%v = atomicrmw add ptr %flag, i32 0 monotonic, align 4", "", "", True),
        ("%v = load atomic i32, ptr %flag acquire, align 4", "", "", True),
        ("%v = load i32, ptr %flag, align 4", "", "", False),
        (*SHARED, "", True),
        (*SHARED, "store i32 %j, ptr %own", False),  # as in trees of sums by one warp
    ],
)
def test_what_is_watched(load: str, alloca: str, body: str, watched: bool):
    before = _module(load, alloca, body)
    after = WatchWaits().apply(before)
    verify(after)
    assert (WAITING in print_module(after)) == watched
    assert watched or after is before


def test_results_are_the_same_and_long_loops_are_told():
    module, told = WatchWaits().apply(_module(GLOBAL)), []
    flag, out = np.array([10000], np.int32), np.zeros(1, np.int32)

    def waiting(file, line, turns):
        told.append((line, turns))
        return 100 * turns

    interpret(module, "k", [flag, out, 0], externals={WAITING: waiting})
    assert out[0] == 10000
    assert told == [(7, 32), (7, 3200)]


LOCK = "%r = cmpxchg ptr %flag, i32 0, i32 1 monotonic monotonic, align 4\n%v = extractvalue { i32, i1 } %r, 0"
UPDATE = "%r = cmpxchg ptr %flag, i32 %i, i32 1 monotonic monotonic, align 4\n%v = extractvalue { i32, i1 } %r, 0"


@pytest.mark.parametrize(("load", "turns"), [(GLOBAL, True), (LOCK, True), (UPDATE, False)])
def test_loops_around_a_loop_that_waits_take_turns(load: str, turns: bool):
    text = print_module(WatchWaits().apply(_module(load)))
    assert WAITING in text
    assert text.count("schedule(turns)") == 2 * turns  # blocks and threads
    assert print_module(parse(text)) == text


@pytest.mark.parametrize(("load", "waits"), [(GLOBAL, True), (LOCK, True), (UPDATE, False)])
def test_kernels_that_wait_can_be_refused(load: str, waits: bool):
    module = WatchWaits().apply(_module(load))
    if not waits:
        return refuse_waits(module)
    with pytest.raises(CompileError, match="until another thread has written") as caught:
        refuse_waits(module)
    assert (caught.value.slug, caught.value.loc.line) == ("cuda-waits", 7)


COUNTER = "%v = load volatile i32, ptr %flag, align 4\n%own = icmp slt i32 %i, %n"


def test_a_loop_whose_end_depends_on_nothing_that_others_write_is_not_watched():
    text = print_module(_module(COUNTER)).replace("condition i1 %more", "condition i1 %own")
    assert WAITING not in print_module(WatchWaits().apply(parse(text)))


PLAIN = "%v = load i32, ptr %flag, align 4"


def test_what_a_loop_with_a_fence_loads_may_change():
    assert WAITING in print_module(WatchWaits().apply(_module(PLAIN, body="fence seq_cst")))


FUNCTION = """
define i32 @wait(ptr %flag) {
  while () loc("k.cu":3:3) {
    %v = load volatile i32, ptr %flag, align 4
    %more = icmp eq i32 %v, 0
    condition i1 %more
  } do () {
    yield
  }
  return i32 0
}
define exported void @k(ptr %flag, i32 %n) {
  parallel blocks (%b) = (i32 0) to (i32 1) {
    parallel threads (%t) = (i32 0) to (i32 %n) {
      %r = call i32 @wait(ptr %flag)
    }
    parallel threads (%u) = (i32 0) to (i32 %n) {
      store i32 %u, ptr %flag
    }
  }
  return
}
"""


def test_loops_around_the_call_of_a_function_that_waits_take_turns():
    text = print_module(WatchWaits().apply(parse(FUNCTION)))
    assert text.count("schedule(turns)") == 2  # blocks, and the first loop over threads


GUARDED = """
define exported void @k(ptr %flag, i32 %n) {
  parallel blocks (%b) = (i32 0) to (i32 1) {
    parallel threads (%y, %x) = (i32 0, i32 0) to (i32 4, i32 %n) {
      %some = icmp slt i32 %x, 7
      %row = icmp eq i32 %y, 0
      if i1 %some {
        while () loc("k.cu":3:3) {
          %v = load volatile i32, ptr %flag, align 4
          %more = icmp eq i32 %v, 0
          condition i1 %more
        } do () {
          yield
        }
        yield
      } else {
        yield
      }
      if i1 %row {
        %at = getelementptr i32, ptr %flag, i32 %x
        store volatile i32 1, ptr %at, align 4
        yield
      } else {
        yield
      }
    }
  }
  return
}
"""


@pytest.mark.parametrize("one", [NarrowThreads(), PeelRows(), VectorizeThreads()], ids=lambda one: one.name)
def test_threads_that_may_wait_are_not_parted(one: NarrowThreads | PeelRows | VectorizeThreads):
    before = parse(GUARDED)
    assert print_module(one.apply(before)) == print_module(before)
    plain = parse(GUARDED.replace("volatile ", ""))
    assert isinstance(one, VectorizeThreads) or print_module(one.apply(plain)) != print_module(plain)
