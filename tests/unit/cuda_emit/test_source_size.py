"""Code that is too wide is compiled quickly, all else as well as can be."""

from __future__ import annotations

from pathlib import Path

import pytest
from generators.tile_programs import program

from threadloom.targets.cuda import best_plan, nvrtc
from threadloom.targets.cuda.compile import DeviceTensor
from threadloom.targets.cuda.launch import kernel_for
from threadloom.targets.cuda.source_size import MOST_UNROLLED, is_too_wide, unrolled_size
from threadloom.targets.cuda.time_plan import packed

GOLDEN = Path(__file__).parents[2] / "golden"

TEXT = """
a
#pragma unroll
for (int i = 0; i < 8; i += 2) {
  #pragma unroll
  for (int e = 0; e < 2; e++) bb;
  #pragma unroll 1
  for (int r = 0; r < 9; r++) {
    cccc
  }
}
dd
"""


def test_a_line_counts_as_often_as_it_stands_in_unrolled_loops():
    once = len("a") + len("dd")
    outer = 4 * (len("for (int i = 0; i < 8; i += 2) {") + len("for (int r = 0; r < 9; r++) {") + len("cccc}"))
    inner = 4 * 2 * len("for (int e = 0; e < 2; e++) bb;")
    last = 1 * 4 * len("}")
    assert unrolled_size(TEXT) == once + outer + inner + last


def test_products_of_warpgroups_are_compiled_as_well_as_can_be():
    wide = "#pragma unroll\nfor (int i = 0; i < 255; i++) {\n" + "x[i] = y[i];\n" * 999 + "}\n"
    assert is_too_wide(wide) and not is_too_wide(wide + "mma_m64n8k16_f16(x);")


def test_no_example_is_too_wide():
    sizes = {path: unrolled_size(path.read_text()) for path in GOLDEN.glob("sm*/*.cu")}
    assert len(sizes) > 20 and max(sizes.values()) < MOST_UNROLLED // 2


@pytest.mark.parametrize("seed", [6850430664])
def test_programs_that_took_longer_than_a_call_waits(seed: int, monkeypatch: pytest.MonkeyPatch):
    """Loops over 128 elements that are loaded one by one, in several copies of a body: 75 CPU seconds before."""
    pytest.importorskip("cuda.bindings.nvrtc")
    monkeypatch.setenv("LOOM_COMPILE_SECONDS", "0")
    monkeypatch.setattr(best_plan, "MANY_WIDE", 1)
    wide = []
    compile_source = nvrtc.compile_source

    def noted(text: str, arch: str, **options: object) -> nvrtc.Cubin:
        wide.append(is_too_wide(text))
        return compile_source(text, arch, **options)

    monkeypatch.setattr(nvrtc, "compile_source", noted)
    call = program(seed).kernel.bind(**program(seed).arguments)
    given = {n: DeviceTensor(256, a.shape, packed(a.shape)) for n, a in call.arrays.items()}
    assert kernel_for(call.kernel, call.dims, given).cubin.registers
    assert wide == [True]
