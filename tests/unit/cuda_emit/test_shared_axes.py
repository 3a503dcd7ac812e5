"""Axes that several workers share: reductions along them, and additions of what each worker has the whole of."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

import threadloom as tl
from benchmarks.gpu_cases import column_totals
from tests.unit.cuda_emit.test_forms import source_of
from threadloom.examples.flash_attention import flash_attention
from threadloom.sched.ops import AxisTile, Partition, Wait, Why
from threadloom.sched.search import plan
from threadloom.sched.turns import workers_meet
from threadloom.targets.cuda import nvrtc
from threadloom.targets.cuda.across import WORKERS_BARRIER

TWO = Partition(
    (AxisTile("m", 128, 64), AxisTile("n", 64, 64)), order=("m", "n"), workers=2, persistent=True
)  # fmt: skip


def test_workers_exchange_their_parts_of_a_sum():
    given = column_totals.inputs(np.random.default_rng(0), 256, 128, 64, np.float16)
    text = source_of(column_totals.column_totals.bind(**given), only=TWO)
    nvrtc.compile_source(text, "sm_90a")
    sums = text[text.index("// vector_") : text.index("// atomic_sums")]
    meet = f"group_sync({WORKERS_BARRIER}, 256);"
    assert sums.count(meet) == 2 * sums.count("(smem_between, worker * 4 + warp_in_group, ")
    assert "for (int q = 1; q < 2; q++) all = " in sums


def test_what_each_worker_has_the_whole_of_is_added_once():
    given = column_totals.inputs(np.random.default_rng(0), 256, 128, 64, np.float16)
    text = source_of(column_totals.column_totals.bind(**given), only=TWO)
    for name in ("sums", "above", "times"):
        added = text[text.index(f"// atomic_{name}") :]
        assert added.splitlines()[1].strip() == "if (worker == 0) {"


@tl.kernel
def each_adds_its_part(
    a: tl.Tensor["M", "K", tl.f16], b: tl.Tensor["K", "N", tl.f16], at: tl.Tensor["M", tl.i32]
) -> tl.Tensor["B", "N", tl.f32]:
    for m, n in tl.grid("M", "N"):
        k = tl.axis("K")
        tl.atomic_add(out[at[m], n], tl.dot(a[m, k], b[k, n]))


def test_what_workers_share_out_all_of_them_add():
    x = np.zeros((256, 64), np.float16)
    call = each_adds_its_part.bind(x, x[:64], np.zeros(256, np.int32), out=np.zeros((8, 64), np.float32))
    assert "worker == 0" not in source_of(call, only=TWO)


@tl.kernel
def running_columns(a: tl.Tensor["M", "K", tl.f16], b: tl.Tensor["K", "N", tl.f16]) -> tl.Tensor["M", "N", tl.f32]:
    for n in tl.grid("N"):
        m, k = tl.axis("M"), tl.axis("K")
        out[m, n] = tl.cumsum(tl.dot(a[m, k], b[k, n]), m)


def test_workers_exchange_the_totals_of_their_parts_of_a_scan():
    x = np.zeros((128, 64), np.float16)
    text = source_of(running_columns.bind(x, x[:64]), only=replace(TWO, order=("n",)))
    nvrtc.compile_source(text, "sm_90a")
    after = text[text.index("smem_between, worker * 4") :]
    assert re.search(r"for \(int q = 0; q < 2; q\+\+\) if \(q < worker\) before = ", after)


@tl.kernel
def sums_from_below(a: tl.Tensor["M", "K", tl.f16], b: tl.Tensor["K", "N", tl.f16]) -> tl.Tensor["M", "N", tl.f32]:
    for n in tl.grid("N"):
        m, k = tl.axis("M"), tl.axis("K")
        out[m, n] = tl.cumsum(tl.dot(a[m, k], b[k, n]), m, reverse=True)


def test_of_an_axis_that_does_not_come_out_even_the_last_worker_has_less():
    """Two of 64 rows share 100: they were taken for one, so neither saw the other's total (wrong on an H200)."""
    two = Partition((AxisTile("m", 128, 64), AxisTile("n", 64, 64)), order=("n",), workers=2, persistent=True)
    text = source_of(sums_from_below.bind(np.zeros((100, 48), np.float16), np.zeros((48, 72), np.float16)), only=two)
    nvrtc.compile_source(text, "sm_90a")
    assert "slots of 128 x 48 f16" in text
    scan = text[text.index("// vector_cumsum") :]
    assert ">= 100) cumsum[i] = 0;" in scan and "if (q > worker) before = " in scan


def test_workers_that_meet_in_a_loop_take_no_turns_there():
    """They would wait for each other for ever: one for its turn, the other where they meet."""
    given = column_totals.inputs(np.random.default_rng(0), 256, 128, 64, np.float16)
    program = plan(
        column_totals.column_totals.bind(**given).kernel, {"M": 256, "N": 128, "K": 64}, "h200", only=TWO
    ).best
    loops = {s.loop for s in program.sections for i in s.instrs if isinstance(i, Wait) and i.reason.why is Why.ORDER}
    assert workers_meet(program.graph, program.partition, 0) and not any(
        workers_meet(program.graph, program.partition, loop) for loop in loops
    )


def test_workers_that_share_the_columns_of_a_product_multiply_their_own():
    """f32 keeps the other operand in registers: each worker once made all columns, the second from beyond the tile."""
    q, k = np.zeros((1, 2, 19, 256), np.float32), np.zeros((1, 1, 23, 256), np.float32)
    text = source_of(flash_attention.bind(q=q, k=k, v=k, scale=0.0625, causal=True))
    assert "tiles: d 256," in text and "2 workers" in text
    loop = text[text.index("// dot_acc") :]
    count = re.search(r"from_columns\[(\d+)\]", loop)[1]
    column = re.search(r"at_column = (worker .*);", loop)[1].replace("/", "//")
    read = [
        {eval(column, {"worker": worker, "lane": lane, "i": i}) for lane in range(32) for i in range(int(count))}
        for worker in range(2)
    ]
    assert read == [set(range(128)), set(range(128, 256))]
