"""Sums that a loop accumulates are added over lanes once, after it, where nothing in the loop looks at them."""

from __future__ import annotations

import re

import pytest

import threadloom as tl
from threadloom.examples.flash_attention import flash_attention
from threadloom.sched.search import plan
from threadloom.targets.cuda.compile import DeviceTensor, facts_of, packed
from threadloom.targets.cuda.emit import emit

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


@pytest.mark.parametrize("mode", [0, 2])
def test_lanes_are_joined_after_the_loop(mode: int):
    text = text_of(weighed.tile(mode=mode), DIMS)
    assert len(shuffled(text)) == 2 and set(shuffled(text)) == {"total_2"}
    assert text.rindex("mma_commit") < text.index("__shfl_xor_sync")


@pytest.mark.parametrize("mode", [1, 3])
def test_what_the_loop_needs_whole_is_joined_in_it(mode: int):
    text = text_of(weighed.tile(mode=mode), DIMS)
    assert set(shuffled(text)) == {"sum_2"} and text.index("__shfl_xor_sync") < text.rindex("mma_commit")


def test_an_online_softmax_joins_maxima_in_its_loop_and_sums_after_it():
    dims = {"B": 2, "H": 4, "HKV": 4, "SQ": 512, "SK": 512, "D": 64}
    text = text_of(flash_attention.tile(T=tl.bf16, causal=False), dims)
    assert set(shuffled(text)) == {"max_2", "row_sum"} and shuffled(text)[-2:] == ["row_sum", "row_sum"]
