"""Loops in and after loops, and what they carry: compiled for sm_90a, computed on the CPU by the code for sm_80."""

from __future__ import annotations

import numpy as np
import pytest
from generators.tile_programs import program

import threadloom as tl
from benchmarks.gpu_cases import gated_linear
from tests.unit.cuda_emit.test_products import compiled, is_right_on_cpu

rng = np.random.default_rng(0)


def numbers(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


@tl.kernel
def states(
    start: tl.Tensor["B", "M", tl.f32], x: tl.Tensor["M", "K", tl.f32], y: tl.Tensor["J", "M", "L", tl.f32]
) -> tl.Tensor["B", "M", tl.f32]:
    for b, m in tl.grid(tl.each("B"), "M"):
        state = start[b, m]
        for k in tl.stream("K"):
            state += tl.sum(x[m, k], k)
        for j in tl.stream(tl.each("J")):
            state = state * 0.5
            for i in tl.stream("L"):
                state = tl.maximum(state, tl.max(y[j, m, i], i))
        out[b, m] = state


def of_states() -> tuple[np.ndarray, ...]:
    return numbers(3, 24), numbers(24, 40), numbers(3, 24, 5)


def test_what_loops_begin_with_is_loaded():
    """Found by random programs: a slot that a copy fills was worked in, which loops inside may not read."""
    compiled(states.bind(*of_states()))


@pytest.mark.clang
@pytest.mark.slow  # seconds of compiling; test_branches_and_loops.py runs one of the kind
def test_what_loops_begin_with_is_loaded_on_the_cpu():
    assert is_right_on_cpu(states, *of_states())


def of_gated_linear() -> tuple[np.ndarray, ...]:
    return tuple(gated_linear.inputs(rng, **gated_linear.SHAPES[0], dtype=np.float16).values())


def test_scalars_of_tiles_outlive_the_pass_that_makes_them():
    """Found with a stranger's kernel: what one pass sums up for a later stage was declared in its block."""
    text = compiled(gated_linear.gated_linear.bind(*of_gated_linear()))
    assert "  float whole;" in text[text.index("// worker0") : text.index("prologue", text.index("// worker0"))]


@pytest.mark.clang
@pytest.mark.slow
def test_a_state_that_is_given_on_the_cpu():
    assert is_right_on_cpu(gated_linear.gated_linear, *of_gated_linear())


def test_both_branches_in_program_order():
    """Found by random programs: the second branch reads what the first one changes, and both make one value."""
    found = program(7621271101)
    compiled(found.kernel.bind(**found.arguments))
