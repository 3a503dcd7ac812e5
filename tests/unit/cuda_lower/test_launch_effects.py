"""What launches may wait in a batch is read off the kernel; anything the analysis cannot follow is a reason not to."""

from __future__ import annotations

import pytest

from threadloom.cuda.host_stubs import ParamSource, Stub
from threadloom.cuda.launch_effects import PointerEffect, launch_effects
from threadloom.cuda.lower.effects import Memory
from threadloom.cuda.lower.pipeline import lower
from threadloom.cuda.own_elements import Own, own_elements
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

    known = KernelRecord(STUB, "entry", (PointerEffect(1, 8, False, True),))
    text = registration_ir((known, KernelRecord(STUB, "entry", ()), KernelRecord(STUB, "entry")), (), 750)
    assert "[6 x i32] [i32 1, i32 8, i32 0, i32 1, i32 0, i32 0]" in text
    assert "ptr @loom.kernel.effects.0, i32 1 }" in text
    assert "ptr null, i32 0 }" in text and "ptr null, i32 -1 }" in text


OWN = """
define exported void @k(ptr %x, ptr %y, i32 %n, GEOMETRY) {
  parallel blocks (%blockIdx.z, %blockIdx.y, %blockIdx.x) = (i32 0, i32 0, i32 0) to (i32 %grid.z, i32 %grid.y, i32 %grid.x) {
    parallel threads (%threadIdx.z, %threadIdx.y, %threadIdx.x) = (i32 0, i32 0, i32 0) to (i32 %block.z, i32 %block.y, i32 %block.x) {
      %start = mul i32 %blockIdx.x, EXTENT
      %i = add i32 %start, %threadIdx.x
      %wide = sext i32 %i to i64
      %p = getelementptr { float, i32 }, ptr %x, i64 %wide
      %q = getelementptr { float, i32 }, ptr %x, i64 %wide, i32 1
      store float 0.0, ptr %p
      %v = load i32, ptr %q
      EXTRA
    }
  }
  return
}
"""  # noqa: E501


def _own(extent: str = "%block.x", extra: str = "") -> dict[str, Own]:
    module = parse(OWN.replace("GEOMETRY", GEOMETRY).replace("EXTENT", extent).replace("EXTRA", extra), "k.par")
    return own_elements(module.functions[0], Memory(module.functions[0], module))


def test_elements_of_each_thread_alone() -> None:
    assert _own() == {"x": Own(8)}
    assert _own("128") == {"x": Own(8, 128)}
    assert _own(extra="%r = getelementptr float, ptr %y, i64 %wide\n store float 0.0, ptr %r") == {
        "x": Own(8),
        "y": Own(4),
    }
    assert _own("%n") == {}


@pytest.mark.parametrize("extra", [
    "%r = getelementptr float, ptr %x, i64 %wide\n store float 0.0, ptr %r",  # other bytes for each thread
    "%far = add i64 %wide, 1\n %r = getelementptr { float, i32 }, ptr %x, i64 %far\n store float 0.0, ptr %r",
    "%r = getelementptr { float, i32 }, ptr %x, i32 %v\n store float 0.0, ptr %r",
    "%r = getelementptr { float, i32 }, ptr %x, i64 %wide, i32 1\n store double 0.0, ptr %r",  # reaches over the end
])  # fmt: skip
def test_elements_of_others(extra: str) -> None:
    assert "x" not in _own(extra=extra)
