"""How much code the largest kernels are on AVX2: compiling takes some 45 us a line (docs/cpu-target.md)."""

from __future__ import annotations

import re

import pytest

from threadloom.cli.inputs import bound_call, make_inputs
from threadloom.cli.kernel_argument import choose
from threadloom.machine.cpu import ZEN2, build
from threadloom.sched.search import plan
from threadloom.targets.cpu.compile import cpu_schedule, form_for, lower
from threadloom.targets.cpu.emit import emit_llvm
from threadloom.targets.cpu.schedule import target_of

SMALLER = {"chunk_scan": {"B": 1, "C": 2}}  # than by default, the same code


def code_of(example: str) -> str:
    chosen, machine = choose(example, SMALLER.get(example, {})), build(ZEN2)
    call = bound_call(chosen, make_inputs(chosen))
    schedule = cpu_schedule(plan(call.kernel, call.dims, machine).best)
    return emit_llvm(lower(schedule, form_for(schedule, call.arrays, call.dims), target_of(machine))[1])


@pytest.mark.parametrize(("example", "lines"), [("chunk_scan", 1450), ("w4_matmul", 1400)])
def test_lines(example: str, lines: int):
    assert code_of(example).count("\n") < lines


def test_masks_are_made_once_and_narrow_loads_are_one_function():
    """Six rows of 4-bit weights, and eight of the other operand, end at the same place."""
    text = code_of("w4_matmul")
    assert len(re.findall(r"masked\.load\.v4i8\.p0\(ptr", text)) == 1
    loads = len(re.findall(r"call <4 x i8> @load\.4xi8", text)) + len(re.findall(r"masked\.load\.v8f32\.p0\(ptr", text))
    assert loads > 10 and len(re.findall(r"= icmp slt <8 x i32>", text)) <= 4
