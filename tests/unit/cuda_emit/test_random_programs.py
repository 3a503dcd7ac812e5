"""The smallest programs of each kind of fault that random programs have found in the GPU generator."""

from __future__ import annotations

import numpy as np
import pytest

import threadloom as tl
from tests.unit.cuda_emit.test_forms import source_of
from threadloom.targets.cuda import nvrtc


def compiled(call) -> str:
    text = source_of(call)
    nvrtc.compile_source(text, "sm_90a")
    return text


@tl.kernel
def gathered(
    x: tl.Tensor["M", "N", tl.f32], index: tl.Tensor["N", tl.i32]
) -> tl.Tensor["M", "N", tl.f32]:
    for m in tl.grid("M"):
        n = tl.axis("N")
        out[m, n] = x[m, index[n]]


def test_indices_that_the_copy_engine_brings_are_read_from_shared_memory():
    text = compiled(gathered.bind(np.zeros((64, 64), np.float32), np.zeros(64, np.int32)))
    gather = text[text.index("// gather_x") :]
    assert "bulk_load(smem_index" in text
    assert gather.index("smem_index") < gather.index("x[(i64)(")
    release = gather.index("barrier_arrive(empty_index")
    assert "__syncwarp();" in gather[gather.index("x[(i64)(") : release]


@tl.kernel
def masked_twice(x: tl.Tensor["M", "N", tl.f32]) -> tl.Tensor["M", "N", tl.f32]:
    for m, n in tl.grid("M", "N"):
        below = n <= m
        out[m, n] = tl.where(below, x[m, n], 1.0) * x[m, n] + tl.where(below, tl.exp(x[m, n]), 0.5)


def test_a_condition_of_a_mask_and_of_elementwise_code():
    compiled(masked_twice.bind(np.zeros((64, 64), np.float32)))


@tl.kernel
def shifted(x: tl.Tensor["M", "N", tl.u8]) -> tl.Tensor["M", tl.i32]:
    for m in tl.grid("M"):
        n = tl.axis("N")
        out[m] = tl.sum((x[m, n] + 3) >> x[m, n], n)


@pytest.mark.parametrize("extent", [16, 2048])
def test_narrow_integers_in_pieces_of_shared_memory(extent: int):
    compiled(shifted.bind(np.zeros((32, extent), np.uint8)))
