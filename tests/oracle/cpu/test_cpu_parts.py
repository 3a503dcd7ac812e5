"""Split reductions on this CPU: two programs one after the other compute what the kernel means, for all extents."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from threadloom.cli.inputs import bound_call, make_inputs
from threadloom.cli.kernel_argument import choose
from threadloom.comparison import tolerance
from threadloom.lang.bind import Call
from threadloom.launch import launch, logical_arrays
from threadloom.machine.cpu import host
from threadloom.sched import reuse
from threadloom.sched.ops import AxisTile, Partition, SProgram
from threadloom.sched.search import plan
from threadloom.targets.cpu.launch import forget
from threadloom.targets.cpu.time_plan import time_plan
from threadloom.tile.interp import interpret
from threadloom.tolerance import worst_error


def split(splits: int, order: str, **tiles: int) -> Partition:
    return Partition(tuple(AxisTile(a, e, e) for a, e in tiles.items()), (), tuple(order.split()), splits=splits)


CASES = {
    "matmul": ({"M": 5, "N": 37, "K": 1003}, split(3, "part m n", m=6, n=16, k=64)),
    "flash_attention": ({"B": 1, "H": 2, "HKV": 1, "SQ": 5, "SK": 301, "D": 24}, split(4, "part b h m", m=6, n=64)),
    "mla_decode": ({"B": 1, "H": 5, "S": 137, "D": 24, "R": 8}, split(2, "part b h", h=6, n=64)),
    "block_sparse_matmul": ({"M": 64, "K": 352, "N": 24}, split(3, "part i n", n=16)),
    "conv2d": ({"B": 1, "H": 5, "W": 6, "C": 70, "F": 8, "R": 2, "S": 3}, split(3, "part b i j f", j=6, f=8, c=16)),
}  # fmt: skip


def call_of(name: str, shape: dict[str, int]) -> Call:
    chosen = choose(name, {})
    return bound_call(chosen, make_inputs(chosen, "f32", shape))


def planned(call: Call, partition: Partition) -> SProgram:
    dims = {name: max(1, extent) for name, extent in call.dims.items()}
    return plan(call.kernel, dims, host(), only=partition).best


@pytest.fixture
def use(monkeypatch):
    """Have calls run this plan."""

    def chosen(program: SProgram) -> None:
        monkeypatch.setattr(reuse, "program_for", lambda *_: reuse.Chosen(program, reuse.Origin.MODEL))

    return chosen


def check(call: Call) -> None:
    wanted = logical_arrays(call, exact=True)
    interpret(call.kernel, wanted, call.scalars, call.dims, exact=True)
    out = next(t for t in call.kernel.tensors if t.name == "out")
    worst = worst_error(call.arrays["out"].astype(np.float64), wanted["out"])
    assert worst <= tolerance(call.kernel, call.dims, out.dtype, wanted["out"])


@pytest.mark.parametrize("name", CASES)
def test_two_programs_compute_the_kernel(name, use):
    shape, partition = CASES[name]
    call = call_of(name, shape)
    program = planned(call, partition)
    assert program.combine is not None
    use(program)
    launch(call)
    first = call.arrays["out"].copy()
    check(call)
    call.arrays["out"][...] = np.nan
    launch(call)  # with what lay between the programs last time
    np.testing.assert_array_equal(call.arrays["out"], first)
    forget(call.kernel)


@pytest.mark.parametrize("k", [0, 1, 15, 16, 17, 63, 64, 999])
def test_one_plan_serves_other_extents(k, use):
    use(planned(call_of("matmul", CASES["matmul"][0]), CASES["matmul"][1]))
    call = call_of("matmul", {"M": 4, "N": 23, "K": k})
    launch(call)
    check(call)
    forget(call.kernel)


def test_calls_at_once_do_not_share_what_lies_between(use):
    shape, partition = CASES["matmul"]
    calls = [call_of("matmul", shape) for _ in range(4)]
    for number, call in enumerate(calls):
        call.arrays["a"][...] = number + 1
    use(planned(calls[0], partition))
    launch(calls[0])
    threads = [threading.Thread(target=lambda c=c: [launch(c) for _ in range(20)]) for c in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for call in calls:
        check(call)
    forget(calls[0].kernel)


def test_a_split_plan_can_be_timed():
    shape, partition = CASES["matmul"]
    call = call_of("matmul", shape)
    program = planned(call, partition)
    assert time_plan(program, call.arrays, call.dims, call.scalars, host()) > 0
    check(call)
