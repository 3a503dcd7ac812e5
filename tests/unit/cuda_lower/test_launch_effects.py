"""What launches may wait in a batch is read off the kernel; anything the analysis cannot follow is a reason not to."""

from __future__ import annotations

import pytest

from threadloom.cuda.host_stubs import ParamSource, Stub
from threadloom.cuda.launch_effects import PointerEffect, launch_effects
from threadloom.cuda.lower.pipeline import lower
from threadloom.par.ops import I32, PTR
from threadloom.par.text import parse

GEOMETRY = "i32 %grid.x, i32 %grid.y, i32 %grid.z, i32 %block.x, i32 %block.y, i32 %block.z, i32 %shared.bytes"
STUB = Stub("stub", "k", (ParamSource(0, 0, PTR), ParamSource(1, 8, PTR), ParamSource(2, 0, I32)), (8, 16, 4))
KERNEL = """
declare i32 @printf(ptr)
declare void @loom.grid.sync()
@seen = internal global i32 0
define exported void @k(ptr %x, ptr %y, i32 %n, GEOMETRY) {
  parallel blocks (%bz, %by, %bx) = (i32 0, i32 0, i32 0) to (i32 %grid.z, i32 %grid.y, i32 %grid.x) {
    %tile = alloca shared [64 x float], i64 1
    parallel threads (%tz, %ty, %tx) = (i32 0, i32 0, i32 0) to (i32 %block.z, i32 %block.y, i32 %block.x) {
      %p = getelementptr float, ptr %x, i32 %tx
      %v = load float, ptr %p
      %s = getelementptr [64 x float], ptr %tile, i32 0, i32 %tx
      store float %v, ptr %s
      barrier threads
      EXTRA
      %q = getelementptr float, ptr %y, i32 %tx
      store float %v, ptr %q
    }
  }
  return
}
"""


def _effects(extra: str) -> tuple[PointerEffect, ...] | str:
    module = parse(KERNEL.replace("GEOMETRY", GEOMETRY).replace("EXTRA", extra), "k.par")
    kernel = next(function for function in module.functions if function.name == "k")
    return launch_effects(kernel, module, lower(module).module, STUB)


def test_reads_and_writes_by_argument() -> None:
    assert _effects("") == (PointerEffect(0, 0, True, False), PointerEffect(1, 8, False, True))


def test_an_atomic_reads_and_writes() -> None:
    found = _effects("%old = atomicrmw add ptr %x, i32 1 monotonic, align 4")
    assert found == (PointerEffect(0, 0, True, True), PointerEffect(1, 8, False, True))


@pytest.mark.parametrize(("extra", "reason"), [
    ("%c = call i32 @printf(ptr %x)", "printf"),
    ("call void @loom.grid.sync()", "grid-wide"),
    ("store i32 1, ptr @seen", "global variable"),
    ("%far = load ptr, ptr %x\n      store i32 1, ptr %far", "no argument"),
])  # fmt: skip
def test_what_keeps_launches_out_of_batches(extra: str, reason: str) -> None:
    assert reason in _effects(extra)


def test_the_table_that_the_runtime_reads() -> None:
    from threadloom.cuda.link_host import KernelRecord, registration_ir

    known = KernelRecord(STUB, "entry", 1024, (PointerEffect(1, 8, False, True),))
    text = registration_ir((known, KernelRecord(STUB, "entry", 1024, ()), KernelRecord(STUB, "entry", 1024)), (), 750)
    assert "[4 x i32] [i32 1, i32 8, i32 0, i32 1]" in text
    assert "ptr @loom.kernel.effects.0, i32 1 }" in text
    assert "ptr null, i32 0 }" in text and "ptr null, i32 -1 }" in text
