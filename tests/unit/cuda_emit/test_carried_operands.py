"""Products of a tile that a loop carries to its next iteration: it lies in registers, and is copied for them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from quick import some

import threadloom as tl
from tests.unit.cuda_sm80.emulation import run_on_cpu
from threadloom.lang.bind import Call
from threadloom.launch import logical_arrays
from threadloom.machine.devices import device
from threadloom.sched.check import check
from threadloom.sched.search import plan
from threadloom.sched.simulate_tiles import simulate_tiles
from threadloom.targets.cuda.faults import fault_of
from threadloom.targets.cuda.launch import device_tensors, kernel_for
from threadloom.tolerance import bound, worst_error

pytest.importorskip("cuda.bindings.nvrtc")


@tl.kernel
def used_next(a: tl.Tensor["M", "K", "T"], b: tl.Tensor["C", "K", "N", "T"]) -> tl.Tensor["M", "N", tl.f32]:
    for m, n in tl.grid("M", "N"):
        k = tl.axis("K")
        acc = tl.zeros(m, n)
        staged = tl.cast(tl.zeros(k, n), a.dtype)
        for c in tl.stream(tl.each("C")):
            acc += tl.dot(a[m, k], staged)  # the tile that the iteration before made
            staged = tl.tanh(b[c, k, n]) * 2
        out[m, n] = acc + tl.dot(a[m, k], staged)


def call_of(count: int, dtype: type) -> tuple[Call, np.ndarray]:
    rng = np.random.default_rng(count)
    a, b = (rng.standard_normal(shape).astype(dtype) for shape in ((24, 32), (count, 32, 40)))
    made = (2 * np.tanh(b.astype(np.float64))).astype(dtype)  # rounded once more, as in the kernel
    return used_next.bind(a=a, b=b), a.astype(np.float64) @ made.astype(np.float64).sum(axis=0)


@pytest.mark.parametrize(
    ("name", "dtype"),
    some(itertools.product(("h200", "a100"), (np.float16, np.float32)), [("h200", np.float16), ("h200", np.float32)]),
)
def test_has_code(name: str, dtype: type):
    call, _ = call_of(5, dtype)
    made = kernel_for(call.kernel, call.dims, device_tensors(call.kernel, call.arrays), name)
    assert fault_of(made) == "" and any(t.name.startswith("copy_") for t in made.program.graph.tasks)


@pytest.mark.parametrize("count", [0, 1, 4])
def test_plans_give_the_right_values_in_the_worst_orders(count: int):
    call, want = call_of(count, np.float32)
    machine = device("h200")
    program = plan(call.kernel, {**call.dims, "C": max(1, count)}, machine, most=4, splits=False).best
    assert check(program, machine) == []
    start = {key: np.array(array) for key, array in logical_arrays(call).items()}
    for outcome, made in itertools.islice(simulate_tiles(program, start, {}, call.dims, machine, random_ones=1), 4):
        assert outcome.right, str(outcome)
        assert worst_error(made["out"], want) <= bound("f32", 32 * max(1, count), float(np.abs(want).max(initial=0)))


@pytest.mark.slow
@pytest.mark.clang
@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_sm80_code_run_on_the_cpu(count: int):
    call, want = call_of(count, np.float16)
    arrays = {n: np.ascontiguousarray(a).copy() for n, a in call.arrays.items()}
    made = kernel_for(call.kernel, call.dims, device_tensors(call.kernel, call.arrays), "a100", splits=False)
    run_on_cpu(made.source, call.kernel, arrays, call.dims, {})
    assert worst_error(arrays["out"], want) <= bound("f16", 32 * max(1, count), float(np.abs(want).max(initial=0)))
