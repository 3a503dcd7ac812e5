"""Loops that another thread may have to end are watched, all others stay as they are."""

from __future__ import annotations

import numpy as np
import pytest

from threadloom.cuda.lower.runtime_calls import WAITING
from threadloom.cuda.lower.watch_waits import WatchWaits
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

    interpret(module, "k", [flag, out, 0], externals={WAITING: waiting})
    assert out[0] == 10000
    assert told == [(7, 4096), (7, 8192)]


LOCK = "%r = cmpxchg ptr %flag, i32 0, i32 1 monotonic monotonic, align 4\n%v = extractvalue { i32, i1 } %r, 0"
UPDATE = "%r = cmpxchg ptr %flag, i32 %i, i32 1 monotonic monotonic, align 4\n%v = extractvalue { i32, i1 } %r, 0"


@pytest.mark.parametrize(("load", "turns"), [(GLOBAL, True), (LOCK, True), (UPDATE, False)])
def test_blocks_around_a_loop_that_waits_take_turns(load: str, turns: bool):
    text = print_module(WatchWaits().apply(_module(load)))
    assert WAITING in text
    assert ("schedule(turns)" in text) == turns
    assert print_module(parse(text)) == text
