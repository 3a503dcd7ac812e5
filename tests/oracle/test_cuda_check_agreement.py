"""`loom check`'s two engines say the same of the same kernels: the interpreter, and instrumented compiled code."""

from __future__ import annotations

import ctypes
import functools
import json

import numpy as np
import pytest

from threadloom.cuda.check.interpreted import check_interpreted
from threadloom.cuda.kernel import COLLECTIVES
from threadloom.cuda.lower.pipeline import lower
from threadloom.cuda.lower.runtime_calls import CHECK_CALLS, DIVERGENT_BARRIER
from threadloom.par.ops import Int, Module, Type
from threadloom.par.text import parse
from threadloom.targets.cpu.jit import CompileOptions, compile_module

KERNEL = """
define exported void @k(ptr %x, ptr %out, i32 %m, i32 %grid.x, i32 %grid.y, i32 %grid.z,
                        i32 %block.x, i32 %block.y, i32 %block.z, i32 %shared.bytes) {
  parallel blocks (%blockIdx.z, %blockIdx.y, %blockIdx.x) = (i32 0, i32 0, i32 0)
      to (i32 %grid.z, i32 %grid.y, i32 %grid.x) loc("k.cu":1:1) {
    %tile.shared = alloca shared [64 x i32], i64 1
    parallel threads (%threadIdx.z, %threadIdx.y, %t) = (i32 0, i32 0, i32 0)
        to (i32 %block.z, i32 %block.y, i32 %block.x) {
      %first = mul i32 %blockIdx.x, %block.x
      %g = add i32 %first, %t
      %px = getelementptr i32, ptr %x, i32 %g
      %po = getelementptr i32, ptr %out, i32 %g
      %s = getelementptr [64 x i32], ptr %tile.shared, i32 0, i32 %t
      %n1 = add i32 %t, 1
      %n = urem i32 %n1, %block.x
      %near = getelementptr [64 x i32], ptr %tile.shared, i32 0, i32 %n
BODY
    }
  }
  return
}
"""

# Thread 0 leaves a partial result, then counts; the last block to count reads all of them behind a barrier.
LAST_BLOCK = """%flag = getelementptr [64 x i32], ptr %tile.shared, i32 0, i32 0
           %c = icmp eq i32 %t, 0
           if i1 %c {
           %p = getelementptr i32, ptr %out, i32 %blockIdx.x
           BEFORE
           FENCE
           %old = atomicrmw add ptr %x, i32 1 ORDER
           AFTER
           store i32 %old, ptr %flag
           yield
           } else {
           yield
           }
           barrier threads
           %count = load i32, ptr %flag
           %end = sub i32 %grid.x, 1
           %last = icmp eq i32 %count, %end
           if i1 %last {
           %sum = load i32, ptr %out
           yield
           } else {
           yield
           }"""


NOTHING = "%nothing = add i32 %t, 0"


def _last_block(before: str = "store i32 %t, ptr %p", fence: str = "fence seq_cst", after: str = "%id = add i32 %t, 0",
                order: str = "monotonic") -> str:  # fmt: skip
    parts = {"BEFORE": before, "FENCE": fence, "AFTER": after, "ORDER": order}
    return functools.reduce(lambda text, part: text.replace(part, parts[part]), parts, LAST_BLOCK)


def _through(count: str, written: str = "64") -> str:
    """Threads up to `written` write one word each; then each reads the first `count`, of %end = 65."""
    return f"""%c = icmp slt i32 %t, {written}
           if i1 %c {{
           store i32 1, ptr %s
           yield
           }} else {{
           yield
           }}
           %end = add i32 %block.x, 1
           barrier threads
           for %i = i32 0 to {count} step 1 {{
           %p = getelementptr [64 x i32], ptr %tile.shared, i32 0, i32 %i
           %v = load i32, ptr %p
           yield
           }}"""


def _guarded(end: str, read: str) -> str:
    """Threads of the grid below `end` write a word of their own, then read one."""
    return f"""%in = icmp slt i32 %g, {end}
           if i1 %in {{
           store i32 1, ptr %s
           %v = load i32, ptr {read}
           store i32 %v, ptr %po
           yield
           }} else {{
           yield
           }}"""


def _in_parts(first: str, second: str, behind: str, mask: str = "") -> str:
    """Lanes 0 to 15 do `first` and `second`; with `mask` lanes 8 to 23 meet then; lane 20 reads a word of lane 3."""
    meet = f"call void @loom.syncwarp(i32 {mask})" if mask else "%nobody = add i32 %t, 0"
    return f"""%c = icmp slt i32 %t, 16
           if i1 %c {{
           {first}
           {second}
           yield
           }} else {{
           yield
           }}
           %u = sub i32 %t, 8
           %d = icmp ult i32 %u, 16
           if i1 %d {{
           {meet}
           yield
           }} else {{
           yield
           }}
           {behind}
           %e = icmp eq i32 %t, 20
           if i1 %e {{
           %p = getelementptr [64 x i32], ptr %tile.shared, i32 0, i32 3
           %v = load i32, ptr %p
           yield
           }} else {{
           yield
           }}"""


SHUFFLE = "%v = call i32 @loom.shfl.sync.xor.i32(i32 -1, i32 %t, i32 1, i32 32)"


def _under(condition: str, inside: str, other: str = "", after: str = "store i32 1, ptr %po") -> str:
    """`inside` where the condition %c holds, `other` elsewhere, and then `after`."""
    return f"""{condition}
           if i1 %c {{
           {inside}
           yield
           }} else {{
           {other or "%nobody = add i32 %t, 0"}
           yield
           }}
           {after}"""


# name: (lines of the body; line k of it is line 10 + k of the source, findings as (kind, lines))
CASES: dict[str, tuple[str, set[tuple[str, tuple[int, ...]]]]] = {
    "clean": (
        """store i32 1, ptr %s
           barrier threads
           %v = load i32, ptr %near
           store i32 %v, ptr %po""",
        set(),
    ),
    "a missing barrier": (
        """store i32 1, ptr %s
           %v = load i32, ptr %near
           store i32 %v, ptr %po""",
        {("race", (10, 11))},
    ),
    "a missing barrier at the end of a loop": (
        """for %i = i32 0 to %m step 1 {
           store i32 %i, ptr %s
           barrier threads
           %v = load i32, ptr %near
           store i32 %v, ptr %po
           yield
           }""",
        {("race", (11, 13))},
    ),
    "a write beside another thread's read of what came before a barrier": (
        """store i32 1, ptr %s
           barrier threads
           %v = load i32, ptr %near
           store i32 %v, ptr %s""",
        {("race", (12, 13))},
    ),
    "a write of what all threads have read since a barrier": (
        """store i32 1, ptr %s
           barrier threads
           %w = getelementptr [64 x i32], ptr %tile.shared, i32 0, i32 0
           %v = load i32, ptr %w
           %c = icmp eq i32 %t, 5
           if i1 %c {
           store i32 %v, ptr %w
           yield
           } else {
           yield
           }""",
        {("race", (13, 16))},
    ),
    "a word that one block writes and all have read, by barriers of their own": (
        """%v = load i32, ptr %out
           barrier threads
           %c = icmp eq i32 %g, 70
           if i1 %c {
           store i32 %v, ptr %out
           yield
           } else {
           yield
           }""",
        {("race", (10, 14))},
    ),
    "a word of a block's own, read and written again over barriers": (
        """store i32 %t, ptr %po
           barrier threads
           %v = load i32, ptr %po
           barrier threads
           store i32 %v, ptr %po
           barrier threads
           %u = load i32, ptr %po""",
        set(),
    ),
    "what two threads read and nobody wrote, before a barrier and after": (
        """%w = getelementptr [64 x i32], ptr %tile.shared, i32 0, i32 0
           %v = load i32, ptr %w
           barrier threads
           %u = load i32, ptr %w""",
        {("uninitialised", (11,)), ("uninitialised", (13,))},
    ),
    "uninitialised shared memory": (
        """%v = load i32, ptr %s
           store i32 %v, ptr %po""",
        {("uninitialised", (10,))},
    ),
    "a loop through a shared array": (_through("64"), set()),
    "a loop through one of which a part is written": (_through("64", written="16"), {("uninitialised", (21,))}),
    "a loop that goes on behind its end": (_through("%end"), {("out-of-bounds", (21,))}),
    "a race behind a guard that all threads of a block pass": (_guarded("100", "%near"), {("race", (12, 13))}),
    "no race behind one": (_guarded("100", "%s"), set()),
    "a race behind a guard that no block passes as a whole": (_guarded("40", "%near"), {("race", (12, 13))}),
    "beyond the end of a shared array": (
        """%far = getelementptr [64 x i32], ptr %tile.shared, i32 0, i32 64
           store i32 1, ptr %s
           %c = icmp eq i32 %t, 0
           if i1 %c {
           store i32 1, ptr %far
           yield
           } else {
           yield
           }""",
        {("out-of-bounds", (14,))},
    ),
    "blocks that write one place": (
        """%c = icmp eq i32 %t, 0
           if i1 %c {
           store i32 %t, ptr %out
           yield
           } else {
           yield
           }""",
        {("race", (12, 12))},
    ),
    "atomics do not race": (
        """%old = atomicrmw add ptr %out, i32 1 monotonic
           store i32 1, ptr %s""",
        set(),
    ),
    "volatile accesses do not race": (
        """store volatile i32 1, ptr %out
           %v = load volatile i32, ptr %out""",
        set(),
    ),
    "reads do not race, volatile or not": (
        """%v = load volatile i32, ptr %x
           %w = load i32, ptr %x""",
        set(),
    ),
    "a volatile store against a plain read": (
        """store volatile i32 1, ptr %out
           %v = load i32, ptr %out""",
        {("race", (10, 11))},
    ),
    "an atomic against a plain store": (
        """%old = atomicrmw add ptr %out, i32 1 monotonic
           %c = icmp eq i32 %t, 3
           if i1 %c {
           store i32 1, ptr %out
           yield
           } else {
           yield
           }""",
        {("race", (10, 13))},
    ),
    "a barrier for a part of the block": (
        """%c = icmp slt i32 %t, 16
           if i1 %c {
           barrier threads
           yield
           } else {
           yield
           }
           store i32 1, ptr %po""",
        {("divergent-barrier", (12,))},
    ),
    "a warp that synchronises itself": (
        """store i32 1, ptr %s
           call void @loom.syncwarp(i32 -1)
           %lane = and i32 %t, 31
           %turned = sub i32 31, %lane
           %f = and i32 %t, 32
           %i = add i32 %f, %turned
           %p = getelementptr [64 x i32], ptr %tile.shared, i32 0, i32 %i
           %v = load i32, ptr %p
           store i32 %v, ptr %po""",
        set(),
    ),
    "warps that do not": (
        """store i32 1, ptr %s
           call void @loom.syncwarp(i32 -1)
           %back = sub i32 63, %t
           %p = getelementptr [64 x i32], ptr %tile.shared, i32 0, i32 %back
           %v = load i32, ptr %p
           store i32 %v, ptr %po""",
        {("race", (10, 14))},
    ),
    "a barrier of a part of a warp orders nothing of the others": (
        _in_parts("call void @loom.syncwarp(i32 65535)", "store i32 1, ptr %s", NOTHING),
        {("race", (13, 30))},
    ),
    "a barrier of the whole warp behind it": (
        _in_parts("call void @loom.syncwarp(i32 65535)", "store i32 1, ptr %s", "call void @loom.syncwarp(i32 -1)"),
        set(),
    ),
    "a barrier of a part of a warp orders its lanes only": (
        _in_parts("store i32 1, ptr %s", "call void @loom.syncwarp(i32 65535)", NOTHING),
        {("race", (12, 30))},
    ),
    "barriers of two parts of a warp, one behind the other": (
        _in_parts("store i32 1, ptr %s", "call void @loom.syncwarp(i32 65535)", NOTHING, "16776960"),
        set(),
    ),
    "a shuffle under a condition that some lanes do not meet": (
        _under("%c = icmp slt i32 %t, 16", SHUFFLE),
        {("absent-lanes", (12,))},
    ),
    "one that names only those that do": (
        _under("%c = icmp slt i32 %t, 16", SHUFFLE.replace("-1", "65535")),
        set(),
    ),
    "one of a whole warp": (_under("%c = icmp slt i32 %t, 32", SHUFFLE), set()),
    "a vote, where the others end": (
        _under("%c = icmp slt i32 %t, 16", "%v = call i32 @loom.vote.sync.any(i32 -1, i32 %t)", after=NOTHING),
        set(),
    ),
    "lanes that meet elsewhere": (
        _under("%c = icmp slt i32 %t, 16", SHUFFLE, other="call void @loom.syncwarp(i32 -1)"),
        {("absent-lanes", (12,)), ("absent-lanes", (15,))},
    ),
    "a loop that lanes leave at different times": (
        f"""for %i = i32 0 to %t step 1 {{
           {SHUFFLE}
           yield
           }}
           store i32 1, ptr %po""",
        {("absent-lanes", (11,))},
    ),
    "a loop that whole warps leave at different times": (
        f"""%w = lshr i32 %t, 5
           %n3 = add i32 %w, 2
           for %i = i32 0 to %n3 step 1 {{
           {SHUFFLE}
           yield
           }}
           store i32 1, ptr %po""",
        set(),
    ),
    "a grid-wide barrier orders blocks": (
        """store i32 %t, ptr %px
           call void @loom.grid.sync()
           %total = mul i32 %grid.x, %block.x
           %last = sub i32 %total, 1
           %i = sub i32 %last, %g
           %p = getelementptr i32, ptr %x, i32 %i
           %v = load i32, ptr %p
           store i32 %v, ptr %po""",
        set(),
    ),
    "the last block, behind a fence": (_last_block(), set()),
    "the last block, behind an atomic that releases": (_last_block(fence=NOTHING, order="acq_rel"), set()),
    "the last block, without a fence": (_last_block(fence=NOTHING), {("race", (14, 28))}),
    "the last block, behind a fence of the block": (_last_block(fence="fence acq_rel"), {("race", (14, 28))}),
    "the last block, stored behind the count": (
        _last_block(before="fence seq_cst", fence=NOTHING, after="store i32 %t, ptr %p"),
        {("race", (17, 28))},
    ),
    "the last block, stored again behind the count": (
        _last_block(after="store i32 %t, ptr %p"),
        {("race", (17, 28))},
    ),
    "an atomic load beside a plain one": (
        """%v = load atomic i32, ptr %x monotonic, align 4
           %w = load i32, ptr %x""",
        set(),
    ),
    "a private array left": (
        """%a = alloca private i32, i64 4
           %i = and i32 %t, 7
           %p = getelementptr i32, ptr %a, i32 %i
           store i32 %t, ptr %p""",
        {("out-of-bounds", (13,))},
    ),
}
GEOMETRY = (2, 1, 1, 64, 1, 1, 0)


def _module(body: str) -> Module:
    lines = []
    for number, line in enumerate(body.splitlines(), 10):
        bare = line.strip() in ("yield", "}", "} else {")
        place = f' loc("k.cu":{number}:1)'
        lines.append(line if bare else line.replace(" {", place + " {") if line.endswith("{") else line + place)
    text = KERNEL.replace("BODY", "\n".join(lines))
    used = [c for c in COLLECTIVES.values() if f"@{c.callee}(" in text]
    declarations = [f"declare {_spelled(c.result)} @{c.callee}({', '.join(map(_spelled, c.params))})" for c in used]
    return parse("\n".join([text, *declarations]))


def _spelled(type_: Type) -> str:
    return f"i{type_.bits}" if isinstance(type_, Int) else "void"


@pytest.fixture(scope="module")
def runtime() -> ctypes.CDLL:
    from threadloom.cuda import runtime_library

    return ctypes.CDLL(str(runtime_library.folder() / "libcudart.so"))


def _compiled_findings(
    module: Module, runtime: ctypes.CDLL, geometry: tuple[int, ...] = GEOMETRY
) -> set[tuple[str, tuple[int, ...]]]:
    lowered = lower(module, check=True).module
    x, out = np.zeros(128, np.int32), np.zeros(128, np.int32)
    found: set[tuple[str, tuple[int, ...]]] = set()
    diverged = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_int)(
        lambda file, line: found.add(("divergent-barrier", (line,)))
    )
    imports = {name: ctypes.cast(runtime[name], ctypes.c_void_p).value for name in CHECK_CALLS}
    imports[DIVERGENT_BARRIER] = ctypes.cast(diverged, ctypes.c_void_p).value
    code = compile_module(lowered, CompileOptions(optimize=True), imports)
    kernel = code.function("k", None, *[ctypes.c_void_p] * 2, *[ctypes.c_int] * 8)
    from threadloom.targets.cpu import openmp

    before = openmp.threads()
    openmp.set_threads(1)
    try:
        kernel(x.ctypes.data, out.ctypes.data, 3, *geometry)
    finally:
        openmp.set_threads(before)
    take = ctypes.CFUNCTYPE(ctypes.c_char_p)(ctypes.cast(runtime["__loom_check_take"], ctypes.c_void_p).value)
    text = take().decode()
    for one in map(json.loads, text.splitlines()):
        found.add((one["kind"], tuple(sorted(place["line"] for place in one["places"]))))
    return found


def _interpreted_findings(module: Module, geometry: tuple[int, ...] = GEOMETRY) -> set[tuple[str, tuple[int, ...]]]:
    x, out = np.zeros(128, np.int32), np.zeros(128, np.int32)
    found = check_interpreted(module, "k", [x, out, 3], geometry)
    return {(one.kind, tuple(sorted(loc.line for loc in one.locs))) for one in found}


def _causes(found: set[tuple[str, tuple[int, ...]]]) -> set[tuple[str, tuple[int, ...]]]:
    """Whether a racing read comes before the write, and so sees uninitialised memory, depends on the order."""
    racing = {line for kind, lines in found if kind == "race" for line in lines}
    return {(kind, lines) for kind, lines in found if kind != "uninitialised" or not racing & set(lines)}


@pytest.mark.parametrize("case", CASES)
def test_the_engines_agree(case: str, runtime: ctypes.CDLL) -> None:
    body, expected = CASES[case]
    module = _module(body)
    assert _causes(_interpreted_findings(module)) == expected
    assert _causes(_compiled_findings(module, runtime)) == expected


NEXT_WORD = """%beyond = add i32 %t, 1
           %q = getelementptr [64 x i32], ptr %tile.shared, i32 0, i32 %beyond
           store i32 1, ptr %q"""


@pytest.mark.parametrize("predicate", ["slt", "sge", "sle", "sgt", "ult", "uge", "ule", "ugt", "ne", "eq"])
def test_guards_leave_out_just_the_threads_that_fail_them(predicate: str, runtime: ctypes.CDLL) -> None:
    """Beyond the last thread's word there is none; a guard lets all others pass, by one branch or the other."""
    end = 62 if predicate in ("sle", "sgt", "ule", "ugt") else 63
    nothing, inverse = "%nothing = add i32 %t, 2", predicate[1:] in ("ge", "gt", "q")
    inside, other = (nothing, NEXT_WORD) if inverse else (NEXT_WORD, nothing)
    module = _module(_under(f"%c = icmp {predicate} i32 %t, {end}", inside, other, after="%after = add i32 %t, 3"))
    assert _interpreted_findings(module) == _compiled_findings(module, runtime) == set()


@pytest.mark.parametrize("depth", [1, 2])
def test_a_proof_for_flat_blocks_does_not_hold_for_deep_ones(depth: int, runtime: ctypes.CDLL) -> None:
    module = _module("store i32 1, ptr %s")
    expected = {("race", (10, 10))} if depth == 2 else set()
    geometry = (2, 1, 1, 32, 1, depth, 0)
    assert _interpreted_findings(module, geometry) == expected
    assert _compiled_findings(module, runtime, geometry) == expected
