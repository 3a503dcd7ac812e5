"""Products with batch axes, of several axes, with vectors, of products, and of one tile both ways: compiled for sm_90a;
what the code for sm_80, which shares the planning and the code by lanes, computes on the CPU."""

from __future__ import annotations

import re

import numpy as np
import pytest
from quick import some

import threadloom as tl
from benchmarks.gpu_cases import gated_linear
from tests.unit.cuda_emit.test_forms import source_of
from tests.unit.cuda_sm80.emulation import run_on_cpu
from tests.unit.cuda_sm80.test_on_cpu import generated
from threadloom.comparison import compare
from threadloom.errors import CompileError
from threadloom.sched import search
from threadloom.targets.cuda import nvrtc
from threadloom.tile.ops import Access

rng = np.random.default_rng(0)


def numbers(*shape: int, dtype: type = np.float16) -> np.ndarray:
    return rng.standard_normal(shape).astype(dtype)


def is_right_on_cpu(kernel, *arguments) -> bool:
    call = kernel.bind(*arguments)
    arrays = {n: np.ascontiguousarray(a).copy() for n, a in call.arrays.items()}
    outputs = [t.name for t in call.kernel.tensors if t.access is not Access.IN]
    for name in outputs:
        arrays[name].view(np.uint8)[...] = 0xFF
    run_on_cpu(generated(call), call.kernel, arrays, call.dims, call.scalars)
    wanted = kernel.interpret(*arguments, exact=True)
    wanted = wanted if isinstance(wanted, tuple) else (wanted,)
    found = compare(call.kernel, call.dims, {n: arrays[n] for n in outputs}, dict(zip(outputs, wanted, strict=True)))
    return all(f.error <= f.bound for f in found)


def compiled(call) -> str:
    text = source_of(call)
    assert not nvrtc.compile_source(text, "sm_90a").spill_bytes
    return text


@tl.kernel
def heads(
    a: tl.Tensor["M", "H", "K", "T"], b: tl.Tensor["N", "H", "K", "T"]
) -> tl.Tensor["M", "H", "N", tl.f32]:
    for m, n in tl.grid("M", "N"):
        h = tl.axis("H")
        acc = tl.zeros(m, h, n)
        for k in tl.stream("K"):
            acc += tl.dot(a[m, h, k], b[n, h, k], over=k)
        out[m, h, n] = acc


def test_a_batch_axis_is_a_product_for_each_index():
    text = compiled(heads.bind(numbers(70, 3, 40), numbers(24, 3, 40)))
    product = next(line for line in text.splitlines() if "mma_m64" in line and "at_h" in line and "asm" not in line)
    wanted = r"\(acc \+ at_h \* \d+, smem_a_desc \+ \(at_h \* 64\) \* 8 .* smem_b_desc \+ \(at_h \* \d+\)"
    assert re.search(wanted, product)


@pytest.mark.clang
@pytest.mark.parametrize("dtype", some([np.float16, np.float32], []))
def test_a_batch_axis_on_the_cpu(dtype: type):
    assert is_right_on_cpu(heads, numbers(37, 2, 24, dtype=dtype), numbers(19, 2, 24, dtype=dtype))


@tl.kernel
def blocks(a: tl.Tensor["M", "J", "K", "T"], b: tl.Tensor["J", "K", "N", "T"]) -> tl.Tensor["M", "N", tl.f32]:
    for m, n in tl.grid("M", "N"):
        j, k = tl.axis("J"), tl.axis("K")
        out[m, n] = tl.dot(a[m, j, k], b[j, k, n], over=(j, k))


def test_several_summed_axes():
    text = compiled(blocks.bind(numbers(64, 3, 48), numbers(3, 48, 24)))
    assert "k > 0 || at_j > 0);" in text  # the first of all products overwrites


@pytest.mark.clang
@pytest.mark.parametrize("dtype", some([np.float16, np.float32], [np.float16]))
def test_several_summed_axes_on_the_cpu(dtype: type):
    assert is_right_on_cpu(blocks, numbers(37, 3, 20, dtype=dtype), numbers(3, 20, 19, dtype=dtype))


@tl.kernel
def by_vector(a: tl.Tensor["M", "K", "T"], x: tl.Tensor["K", "T"]) -> tl.outputs(
    y=tl.Tensor["M", tl.f32], z=tl.Tensor["M", tl.f32]
):
    for m in tl.grid("M"):
        k = tl.axis("K")
        y[m] = tl.dot(a[m, k], x[k])
        z[m] = tl.dot(tl.exp(x[k]), a[m, k])


def test_a_vector_is_multiplied_by_lanes():
    """A tensor core would want eight columns, and memory holds one."""
    assert "mma_m64" not in compiled(by_vector.bind(numbers(200, 64), numbers(64)))


@pytest.mark.clang
def test_a_vector_on_the_cpu():
    assert is_right_on_cpu(by_vector, numbers(37, 40), numbers(40))


@tl.kernel
def bilinear(x: tl.Tensor["M", "D", "T"], w: tl.Tensor["D", "D", "T"]) -> tl.Tensor["M", tl.f32]:
    for m in tl.grid("M"):
        i, j = tl.axis("D"), tl.axis("D")
        out[m] = tl.dot(tl.dot(x[m, i], w[i, j]), tl.cast(x[m, j], tl.f32), over=j)


def test_a_product_row_by_row_of_a_products_result_has_code():
    compiled(bilinear.bind(numbers(33, 48), numbers(48, 48)))


@tl.kernel
def both_ways(
    q: tl.Tensor["G", "M", "D", "T"], k: tl.Tensor["G", "N", "D", "T"], v: tl.Tensor["G", "N", "E", "T"],
    w: tl.Tensor["G", "M", "E", "T"], narrow: tl.Const[bool],
) -> tl.outputs(y=tl.Tensor["G", "M", "E", tl.f32], z=tl.Tensor["G", "N", "E", tl.f32]):
    for g in tl.grid(tl.each("G")):
        m, n, d, e = tl.axis("M"), tl.axis("N"), tl.axis("D"), tl.axis("E")
        s = tl.dot(q[g, m, d], k[g, n, d])
        if narrow:
            s = tl.cast(s, q.dtype)
        y[g, m, e] = tl.dot(s, v[g, n, e])
        z[g, n, e] = tl.dot(s, w[g, m, e])


def of_both_ways(dtype: type) -> tuple:
    shapes = ((2, 70, 32), (2, 40, 32), (2, 40, 16), (2, 70, 16))
    return *(numbers(*shape, dtype=dtype) / 4 for shape in shapes), dtype is np.float16


def test_a_tile_that_products_read_both_ways_goes_through_shared_memory():
    text = compiled(both_ways.bind(*of_both_ways(np.float16)))
    assert "(dot_1, smem_s_1_desc + k * 2," in text and "(dot_2, smem_s_1_desc_across + k * 128," in text
    assert "constexpr i32 valid = 40;" in text  # of the 48 positions of the depth that products read


@pytest.mark.clang
@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_a_tile_both_ways_on_the_cpu(dtype: type):
    """In f32 nothing is between the products: what one makes is copied to be another's operand."""
    assert is_right_on_cpu(both_ways, *of_both_ways(dtype))


@tl.kernel
def chain(a: tl.Tensor["M", "K", "T"], b: tl.Tensor["K", "N", "T"], c: tl.Tensor["L", "M", "T"]) -> tl.Tensor[
    "L", "N", tl.f32
]:
    for row, n in tl.grid("L", "N"):
        m, k = tl.axis("M"), tl.axis("K")
        out[row, n] = tl.dot(c[row, m], tl.dot(a[m, k], b[k, n]))


@pytest.mark.slow
@pytest.mark.clang
def test_a_product_as_the_right_operand_of_another():
    call = chain.bind(*(numbers(24, 24, dtype=np.float32) for _ in range(3)))
    compiled(call)
    assert is_right_on_cpu(chain, *(numbers(24, 24, dtype=np.float32) for _ in range(3)))


def test_a_product_added_to_what_lies_elsewhere_is_refused(monkeypatch: pytest.MonkeyPatch):
    """`add_apart` leaves no such sTask: without it the product was added to what the place held before."""
    monkeypatch.setattr(search, "add_apart", lambda graph: graph)
    given = gated_linear.inputs(np.random.default_rng(0), **gated_linear.SHAPES[0], dtype=np.float16)
    with pytest.raises(CompileError) as caught:
        source_of(gated_linear.gated_linear.bind(**given))
    assert caught.value.slug == "gpu-no-code" and "which is kept apart" in caught.value.why
