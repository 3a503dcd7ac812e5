"""Files with hundreds of kernels: those behind the budget have one version each, which is right for every launch."""

from __future__ import annotations

from dataclasses import replace

import llvmlite.binding as llvm
import numpy as np
import pytest

from threadloom.cuda import compile_unit
from threadloom.cuda.lower.pipeline import PASSES
from threadloom.cuda.lower.separators import weight
from threadloom.cuda.lower.split_warps import SplitWarps
from threadloom.cuda.optimize.specialize_launch import SpecializeLaunch
from threadloom.par.interp import interpret
from threadloom.par.ops import If
from threadloom.par.passes import collected_declines, run_passes
from threadloom.par.text import parse
from threadloom.par.walk import walk

GEOMETRY = "i32 %grid.x, i32 %grid.y, i32 %grid.z, i32 %block.x, i32 %block.y, i32 {mark}%block.z, i32 %shared.bytes"
# out[t] = the number of the thread one lane on
SHUFFLE = """
define exported void @{name}(ptr %out, {geometry}) {{
  parallel blocks (%b.z, %b.y, %b) = (i32 0, i32 0, i32 0) to (i32 %grid.z, i32 %grid.y, i32 %grid.x) {{
    parallel threads (%z, %y, %x) = (i32 0, i32 0, i32 0) to (i32 %block.z, i32 %block.y, i32 %block.x) {{
      %row = mul i32 %y, %block.x
      %t = add i32 %row, %x
      %v = call i32 @loom.shfl.sync.down.i32(i32 -1, i32 %t, i32 1, i32 32)
      %p = getelementptr i32, ptr %out, i32 %t
      store i32 %v, ptr %p
    }}
  }}
  return
}}
declare i32 @loom.shfl.sync.down.i32(i32, i32, i32, i32)
"""


def _shuffle(name: str = "k", mark: str = "") -> str:
    return SHUFFLE.format(name=name, geometry=GEOMETRY.format(mark=mark))


@pytest.mark.parametrize("block", [(64, 1), (16, 4), (33, 2), (5, 1)])
def test_one_version_of_a_loop_over_warps_is_right_for_every_shape(block):
    module = parse(_shuffle())
    results = []
    for budget in (SplitWarps().most_ops_of_module, 0):
        passes = [replace(one, most_ops_of_module=budget) if isinstance(one, SplitWarps) else one for one in PASSES]
        lowered = run_passes(module, passes)
        declined = [one.reason for step in lowered.steps for one in step.declined]
        assert (budget == 0) == any("only one version of a loop over warps" in reason for reason in declined)
        out = np.zeros(block[0] * block[1], np.int32)
        interpret(lowered.module, "k", [out, 1, 1, 1, *block, 1, 0])
        results.append(out)
    threads = np.arange(block[0] * block[1])
    known = (threads % 32 == 31) | (threads + 1 < len(threads))  # the lane behind it is there
    assert np.array_equal(results[0], results[1])
    assert np.array_equal(results[0][known], np.where(threads % 32 == 31, threads, threads + 1)[known])


def test_two_versions_of_loops_over_warps_as_far_as_the_budget_goes():
    first, other = parse(_shuffle("k")), parse(_shuffle("l"))
    module = replace(first, functions=(first.functions[0], *other.functions))
    size = sum(1 for op in walk(first.functions[0].body)) - 2
    split = SplitWarps(most_ops_of_module=size).apply(module)
    two = {f.name for f in split.functions if f.body and any(isinstance(op, If) for op in walk(f.body))}
    assert two == {"k"}


def test_kernels_with_warp_operations_weigh_more():
    kernel = parse(_shuffle()).functions[0]
    assert weight(kernel) > 4 * sum(1 for _ in walk(kernel.body))


def test_a_file_with_many_kernels_has_versions_for_its_launches_of_the_first_ones_only():
    from threadloom.cuda.host_launches import ATTRIBUTE

    mark = f'"{ATTRIBUTE}"="1" '
    address = "%p = getelementptr"
    texts = (_shuffle(name, mark).replace(address, f"barrier threads\n      {address}") for name in ("k", "l"))
    first, second = (parse(text.replace("%row = mul i32 %y", "%row = mul i32 %block.z")) for text in texts)
    module = replace(first, functions=(first.functions[0], *second.functions))
    budget = weight(first.functions[0])
    with collected_declines() as declined:
        names = {f.name for f in SpecializeLaunch(most_ops_of_module=budget).apply(module).functions}
    assert "k.launched" in names and "l.launched" not in names
    assert [one.detail for one in declined if "many kernels" in one.reason] == ["l"]


@pytest.mark.parametrize(
    ("lines", "level"), [(10, (3, True, True)), (300, (2, True, False)), (1200, (1, False, False))]
)
def test_the_longer_a_file_the_less_llvm_does(lines, level, monkeypatch):
    monkeypatch.setattr(compile_unit, "_LONG_UNIT_LINES", 200)
    monkeypatch.setattr(compile_unit, "_VERY_LONG_UNIT_LINES", 1000)
    adds = "\n".join(f"  %v{i} = add i32 %{'n' if i == 0 else f'v{i - 1}'}, 1" for i in range(lines))
    module = llvm.parse_assembly(f"define i32 @f(i32 %n) {{\n{adds}\n  ret i32 %v{lines - 1}\n}}")
    assert compile_unit._llvm_level(module, 3) == level
