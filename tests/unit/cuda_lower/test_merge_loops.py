"""Loops of a large kernel that differ in numbers become one function, but not where a number is a stride."""

from __future__ import annotations

import numpy as np
import pytest

from threadloom.cuda.lower.outline_loops import OutlineLoops
from threadloom.par.interp import interpret
from threadloom.par.passes import collected_declines
from threadloom.par.text import parse, print_module
from threadloom.par.verify import verify

GEOMETRY = "i32 %grid.x, i32 %grid.y, i32 %grid.z, i32 %block.x, i32 %block.y, i32 %block.z, i32 %shared.bytes"


def _kernel(steps: list[str]) -> str:
    """Each step works on the elements of 64 threads: its text uses %v, the element, and %x, and gives %w."""
    loops = "".join(
        f"""
    parallel threads (%x) = (i32 0) to (i32 %block.x) {{
      %to = getelementptr float, ptr %data, i32 %x
      %v = load float, ptr %to
      {step}
      store float %w, ptr %to
    }}""".replace("%x", f"%x.{n}").replace("%to", f"%to.{n}").replace("%v", f"%v.{n}").replace("%w", f"%w.{n}")
        .replace("%u", f"%u.{n}")
        for n, step in enumerate(steps)
    )
    return f"""
define exported void @k(ptr noalias %data, {GEOMETRY}) {{
  parallel blocks (%z, %y, %b) = (i32 0, i32 0, i32 0) to (i32 %grid.z, i32 %grid.y, i32 %grid.x) {{{loops}
  }}
  return
}}
"""


def _outlined(text: str):
    module = OutlineLoops(fewest_ops=5, worth_a_call=4).apply(parse(text))
    verify(module)
    return module


def _run(module) -> np.ndarray:
    data = np.arange(128, dtype=np.float32)
    interpret(module, "k", [data, 1, 1, 1, 64, 1, 1, 0])
    return data


STEP = "%u = fmul float %v, {}\n      %w = fadd float %u, {}"


def test_equal_numbers_of_a_loop_are_one_parameter_and_what_all_loops_share_stays():
    steps = [STEP.format("2.0", "1.0"), STEP.format("3.0", "1.0"), STEP.format("0.5", "1.0")]
    text = _kernel(steps)
    with collected_declines() as declined:
        module = _outlined(text)
    assert (_run(module) == _run(parse(text))).all()
    (whole,) = module.functions[1:]
    assert print_module(module).count(f"call void @{whole.name}(") == 3
    assert [param.value.name for param in whole.params if param.value.name.startswith("number")] == ["number.0"]
    assert "1.0" in print_module(module).split("define")[-1]
    merged = [one for one in declined if "differ in numbers" in one.reason]
    assert len(merged) == 3


def test_numbers_that_agree_in_every_loop_are_one_parameter():
    text = _kernel([STEP.format("2.0", "2.0"), STEP.format("3.0", "3.0")])
    module = _outlined(text)
    assert (_run(module) == _run(parse(text))).all()
    (whole,) = module.functions[1:]
    assert sum(param.value.name.startswith("number") for param in whole.params) == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("mul i32 %x, 2", "mul i32 %x, 3"),  # a stride
        ("sdiv i32 %x, 2", "sdiv i32 %x, 3"),
        ("and i32 %x, 7", "and i32 %x, 3"),
    ],
)
def test_what_tells_following_passes_something_stays_a_number(first, second):
    step = "%u = {}\n      %w = sitofp i32 %u to float"
    module = _outlined(_kernel([step.format(first), step.format(second)]))
    assert len(module.functions) == 3


def test_a_name_that_is_taken_is_not_taken_again():
    text = _kernel([STEP.format("2.0", "1.0"), STEP.format("3.0", "1.0")]).replace("%u.", "%number.")
    module = _outlined(text)
    assert (_run(module) == _run(parse(text))).all()


@pytest.mark.parametrize(("count", "merged"), [(12, True), (13, False)])
def test_loops_of_very_many_numbers_stay_apart(count: int, merged: bool):
    def step(first: int) -> str:
        adds = "".join(f"%u{n + 1} = fadd float %u{n}, {first + n}.0\n      " for n in range(count))
        return f"%u0 = fmul float %v, %v\n      {adds}%w = fneg float %u{count}"

    module = _outlined(_kernel([step(0), step(100)]))
    assert len(module.functions) == (2 if merged else 3)
