"""Sums that a loop accumulates are added over lanes once, after it, where nothing in the loop looks at them."""

from __future__ import annotations

import re

import pytest
from quick import some

import threadloom as tl
from threadloom.examples.flash_attention import flash_attention
from threadloom.sched.search import plan
from threadloom.targets.cuda.compile import DeviceTensor, facts_of, packed
from threadloom.targets.cuda.emit import emit
from threadloom.targets.cuda.kernel_plan import KernelPlan
from threadloom.targets.cuda.lane_parts import lane_parts
from threadloom.targets.cuda.layout import Layout
from threadloom.targets.cuda.time_plan import packed_facts

DIMS = {"M": 512, "N": 1024, "D": 64}


@tl.kernel
def weighed(
    q: tl.Tensor["M", "D", tl.bf16], k: tl.Tensor["N", "D", tl.bf16], mode: tl.Const[int] = 0
) -> tl.Tensor["M", tl.f32]:
    """mode: 0 sums, 1 sums from 1 on, 2 maxima, 3 the sum is looked at."""
    for m in tl.grid("M"):
        d = tl.axis("D")
        total = tl.full(1.0, m) if mode == 1 else tl.zeros(m)
        weight = tl.full(1.0, m)
        for n in tl.stream("N"):
            s = tl.dot(q[m, d], k[n, d])
            if mode == 2:
                total = tl.maximum(total, tl.max(s, n))
            elif mode == 3:
                total = total * 0.5 + tl.sum(s, n)
                weight = weight + total
            else:
                total = total * weight + tl.sum(s, n)
                weight = weight * 0.5
        out[m] = total + weight


def text_of(kernel, dims: dict[str, int]) -> str:
    program = plan(kernel, dims, "h200", most=1).best
    shapes = {t.name: tuple(dims[d] for d in t.dims) for t in kernel.tensors}
    facts = {t.name: facts_of(t, DeviceTensor(1024, shapes[t.name], packed(shapes[t.name]))) for t in kernel.tensors}
    return emit(program, facts, dims).text


def shuffled(text: str) -> list[str]:
    """The arrays whose lanes are combined, in the order of the text."""
    return re.findall(r"__shfl_xor_sync\(0xffffffffu, (\w+)\[", text)


@pytest.mark.parametrize("mode", some([0, 2], [0]))
def test_lanes_are_joined_after_the_loop(mode: int):
    text = text_of(weighed.tile(mode=mode), DIMS)
    assert len(shuffled(text)) == 2 and set(shuffled(text)) == {"total_2"}
    assert text.rindex("mma_commit") < text.index("__shfl_xor_sync")


@pytest.mark.parametrize("mode", some([1, 3], [3]))
def test_what_the_loop_needs_whole_is_joined_in_it(mode: int):
    text = text_of(weighed.tile(mode=mode), DIMS)
    assert set(shuffled(text)) == {"sum_2"} and text.index("__shfl_xor_sync") < text.rindex("mma_commit")


@pytest.mark.slow
def test_an_online_softmax_joins_maxima_in_its_loop_and_sums_after_it():
    dims = {"B": 2, "H": 4, "HKV": 4, "SQ": 512, "SK": 512, "D": 64}
    text = text_of(flash_attention.tile(T=tl.bf16, causal=False), dims)
    assert set(shuffled(text)) == {"max_2", "row_sum"} and shuffled(text)[-2:] == ["row_sum", "row_sum"]


@tl.kernel
def in_two_loops(
    x: tl.Tensor["M", "K", tl.f32], y: tl.Tensor["M", "J", tl.f32]
) -> tl.Tensor["M", tl.f32]:
    for m in tl.grid("M"):
        total = tl.zeros(m)
        for k in tl.stream("K"):
            total += tl.sum(x[m, k], k)
        for j in tl.stream("J"):
            total += tl.sum(y[m, j], j)
        out[m] = total


def test_lanes_are_joined_before_the_next_loop_and_not_in_its_body():
    text = text_of(in_two_loops.tile(), {"M": 200, "K": 3000, "J": 5000})
    loops = [m.start() for m in re.finditer(r"for \(i32 t_\d+ = 0", text[text.index("// worker0") :])]
    joined = [m.start() for m in re.finditer(r"shfl\w+\(0xffffffffu, total_2", text[text.index("// worker0") :])]
    assert joined and loops[0] < joined[0] <= joined[-1] < loops[1]


@tl.kernel
def inside(x: tl.Tensor["M", "C", "K", tl.f32]) -> tl.outputs(
    most=tl.Tensor["M", tl.f32], y=tl.Tensor["M", "C", tl.f32]
):
    for m in tl.grid("M"):
        highest = tl.full(-100.0, m)
        for c in tl.stream(tl.each("C")):
            y[m, c] = highest
            for k in tl.stream("K"):
                highest = tl.maximum(highest, tl.max(x[m, c, k], k))
        most[m] = highest


def test_lanes_are_joined_where_the_pass_around_the_loop_ends():
    text = text_of(inside.tile(), {"M": 200, "C": 4, "K": 5000})
    lines = text[text.index("// worker0") :].splitlines()
    joined = [line for line in lines if "0xffffffffu, highest" in line]
    around = next(line for line in lines if "for (i32 t_2 = 0" in line)
    depth = len(around) - len(around.lstrip())
    assert joined and all(len(line) - len(line.lstrip()) == depth + 2 for line in joined)


def test_no_parts_are_kept_where_what_is_carried_lies_otherwise():
    """One lane would hand on its own part for all (wrong on an H200 for one query and two keys)."""
    kernel = flash_attention.tile(T=tl.f16)
    dims = {"B": 1, "H": 1, "HKV": 1, "SQ": 256, "SK": 512, "D": 64}
    made = KernelPlan(plan(kernel, dims, "h200", most=1).best, packed_facts(kernel, dims), dims)
    loop = made.program.graph.loops[1]
    (part, *_) = lane_parts(made, loop)
    carried = next(new for *_, new, result in loop.carried if result.name == part.result.name)
    made.layouts[carried.name] = Layout(())
    assert part not in lane_parts(made, loop)
