"""Values too wide for registers: loops over them are not unrolled, and kernels that have no smaller tile run so."""

from __future__ import annotations

import numpy as np
import pytest

import threadloom as tl
from tests.unit.cuda_emit.test_products import is_right_on_cpu
from tests.unit.cuda_emit.test_random_programs import compiled
from threadloom.sched.search import plan
from threadloom.targets.cuda.registers import unroll


def test_loops_over_what_registers_hold_are_unrolled():
    assert unroll(255) == unroll(255, tl.f16) == unroll(127, tl.f64) == "#pragma unroll"


def test_loops_over_wide_values_are_not():
    assert unroll(256) == unroll(256, tl.f16) == unroll(128, tl.i64) == "#pragma unroll 1"


@tl.kernel
def wide(x: tl.Tensor["M", "N", tl.f32], w: tl.Tensor["N", "D", tl.f32]) -> tl.Tensor["M", "D", tl.f32]:
    for m in tl.grid("M"):
        d = tl.axis("D")
        acc = tl.zeros(m, d)
        for n in tl.stream("N"):
            acc = acc * 0.5 + tl.dot(x[m, n], w[n, d])
        out[m, d] = acc


def of_wide(m: int, n: int, d: int) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(0)
    return tuple(rng.standard_normal(shape).astype(np.float32) for shape in ((m, n), (n, d)))


def test_a_tile_that_fits_no_registers_has_a_plan_with_values_in_memory():
    """It was refused: the accumulator of the smallest tile takes more registers than a worker has."""
    call = wide.bind(*of_wide(64, 32, 1536))
    assert plan(call.kernel, call.dims, "h200").best.device.startswith("h200/spilled-")
    assert "#pragma unroll 1" in compiled(call)


@pytest.mark.clang
@pytest.mark.slow
def test_values_in_memory_on_the_cpu():
    given = of_wide(20, 24, 1024)
    call = wide.bind(*given)
    assert plan(call.kernel, call.dims, "a100").best.device.startswith("a100/spilled-")
    assert is_right_on_cpu(wide, *given)
