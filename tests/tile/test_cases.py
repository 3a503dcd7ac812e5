"""Kinds of input on which compilers of tile kernels have failed in public, each with its right value.

Kernels are called as users call them, so whatever executes calls on this machine is tested; the definition in NumPy is
tested beside it, with ragged tiles.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from quick import slow, some

import threadloom as tl
from threadloom.arrays import wrap
from threadloom.examples.block_sparse_matmul import block_sparse_matmul
from threadloom.examples.block_sparse_matmul import reference as block_sparse_reference
from threadloom.examples.flash_attention import flash_attention
from threadloom.examples.flash_attention import reference as attention_reference
from threadloom.examples.flash_attention_varlen import flash_attention_varlen
from threadloom.examples.flash_attention_varlen import reference as varlen_reference
from threadloom.examples.flash_decoding import attend
from threadloom.examples.matmul import matmul
from threadloom.examples.softmax import reference as softmax_reference
from threadloom.examples.softmax import softmax
from threadloom.lang.kernel import Kernel
from threadloom.tolerance import bound, worst_error

RNG = np.random.default_rng(7)


def normal(*shape: int, dtype: object = np.float32) -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


def check(kernel: Kernel, want: np.ndarray, length: int, dtype: str = "f32", **arguments: object) -> None:
    """The call, and the definition under two cuts, lie within the tolerance."""
    limit = bound(dtype, length, float(np.abs(want).max(initial=0)))
    assert worst_error(kernel(**arguments), want) <= limit
    for seed in (1, 2):  # of the tile sizes
        assert worst_error(kernel.interpret(**arguments, tiles=seed), want) <= limit


# ---------------------------------------------------------------- 1: reuse of a buffer under pipelining


@tl.kernel
def transformed_then_used_next(
    a: tl.Tensor["M", "K", tl.f32], b: tl.Tensor["C", "K", "N", tl.f32]
) -> tl.Tensor["M", "N", tl.f32]:
    for m, n in tl.grid("M", "N"):
        k = tl.axis("K")
        acc = tl.zeros(m, n)
        staged = tl.zeros(k, n)
        for c in tl.stream(tl.each("C")):
            acc += tl.dot(a[m, k], staged)  # the tile that the iteration before made
            staged = tl.tanh(b[c, k, n]) * 2
        out[m, n] = acc + tl.dot(a[m, k], staged)


@pytest.mark.parametrize("count", [0, 1, 2, 3, 9])
def test_a_tile_made_in_one_iteration_and_used_in_the_next(count: int):
    a, b = normal(20, 12), normal(count, 12, 17)
    want = a.astype(np.float64) @ (2 * np.tanh(b.astype(np.float64))).sum(axis=0)
    check(transformed_then_used_next, want, 12 * max(1, count), a=a, b=b)


# ---------------------------------------------------------------- 2, 3, 10: short loops, tails, odd sizes


def linear(x: object) -> object:
    return x


def check_matmul(M: int, N: int, K: int, dtype: str = "f32", numpy: object = np.float32) -> None:
    a, b, bias = normal(M, K, dtype=numpy), normal(K, N, dtype=numpy), normal(N)
    want = a.astype(np.float64) @ b.astype(np.float64) + bias
    check(matmul, want, K, dtype, a=a, b=b, bias=bias, act=linear)


@pytest.mark.parametrize("K", some([0, 1, 2, 8, 17, 20, 24, 40, 100], [0, 1, 17, 24]))
def test_reduction_lengths(K: int):
    check_matmul(64, 64, K)
    check_matmul(64, 64, K, "f16", np.float16)


@pytest.mark.parametrize(("M", "N"), [(257, 257), (33, 64), (1, 7), (1, 1), (0, 5), (5, 0)])
def test_sizes_that_are_no_powers_of_two(M: int, N: int):
    check_matmul(M, N, 24)


# ---------------------------------------------------------------- 4: widths that fit no thread count


@tl.kernel
def row_sum(x: tl.Tensor["M", "N", tl.f32]) -> tl.Tensor["M", tl.f32]:
    for m in tl.grid("M"):
        n = tl.axis("N")
        out[m] = tl.sum(x[m, n], n)


@tl.kernel
def row_sum_streamed(x: tl.Tensor["M", "N", tl.f32]) -> tl.Tensor["M", tl.f32]:
    for m in tl.grid("M"):
        total = tl.zeros(m)
        for n in tl.stream("N"):
            total += tl.sum(x[m, n], n)
        out[m] = total


@pytest.mark.parametrize("N", some([192, 229, 257], [192, 257]))
@pytest.mark.parametrize("M", some([16, 3], [3]))
def test_row_widths(M: int, N: int):
    x = normal(M, N)
    check(softmax, softmax_reference(x), N, x=x)
    for kernel in (row_sum, row_sum_streamed):
        check(kernel, x.astype(np.float64).sum(axis=1), N, x=x)


# ---------------------------------------------------------------- 5: more than 2^31 elements


@tl.kernel
def last_elements(x: tl.Tensor["N", tl.f16]) -> tl.Tensor[8, tl.f16]:
    for j in tl.grid(8):
        out[j] = x[tl.dim("N") - 8 + j] + 1


@tl.kernel
def far_rows(x: tl.Tensor["M", "N", tl.f16]) -> tl.Tensor["M", "N", tl.f16]:
    for m, n in tl.grid("M", "N"):
        out[m, n] = x[m, n] + 1


def test_more_than_two_to_the_31_elements():
    memory = np.zeros(2**31 + 64, np.float16)  # pages that are never touched take no memory
    memory[-8:] = np.arange(8)
    np.testing.assert_array_equal(last_elements(memory), np.arange(8) + 1.0)
    rows = np.lib.stride_tricks.as_strided(memory[48:], (2, 16), (2**32, 2))
    np.testing.assert_array_equal(far_rows(rows)[1, -8:], np.arange(8) + 1.0)
    out = np.lib.stride_tricks.as_strided(memory, (2, 16), (2**32, 2))
    far_rows(np.ones((2, 16), np.float16), out=out)
    assert memory[2**31 : 2**31 + 16].tolist() == [2.0] * 16


# ---------------------------------------------------------------- 6: attention that is not square


TYPICAL = [(2, 2, 40, 16, 8), (1, 1, 250, 250, 8), (1, 1, 5, 0, 4)]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("H", "HKV", "SQ", "SK", "D"),
    some([*TYPICAL, (2, 2, 16, 40, 8), (8, 2, 9, 9, 16), (1, 1, 1, 33, 16)], TYPICAL),
)
def test_attention_shapes(H: int, HKV: int, SQ: int, SK: int, D: int, causal: bool):
    check_attention(H, HKV, SQ, SK, D, causal)


@pytest.mark.parametrize("D", some([80, 96, 192, 256], [80, 256]))
def test_attention_head_dimensions(D: int):
    check_attention(2, 1, 19, 23, D, True)


def check_attention(H: int, HKV: int, SQ: int, SK: int, D: int, causal: bool) -> None:
    q, k, v = normal(1, H, SQ, D), normal(1, HKV, SK, D), normal(1, HKV, SK, D)
    scale = D**-0.5
    want = attention_reference(q, k, v, scale, causal)
    check(flash_attention, want, max(SK, D), q=q, k=k, v=v, scale=scale, causal=causal)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "lengths", [slow(([0, 7, 1, 20], [0, 7, 1, 20])), ([3, 0, 9], [8, 5, 2]), slow(([1], [1])), ([4], [0])]
)
def test_packed_sequences(lengths: tuple[list[int], list[int]], causal: bool):
    starts_q, starts_k = (np.cumsum([0, *x]).astype(np.int32) for x in lengths)
    q, k, v = (normal(int(n), 2, 16) for n in (starts_q[-1], starts_k[-1], starts_k[-1]))
    arguments = {"q": q, "k": k, "v": v, "starts_q": starts_q, "starts_k": starts_k, "scale": 0.25, "causal": causal}
    check(flash_attention_varlen, varlen_reference(**arguments), 20, **arguments)


def test_decoding_in_parts_is_attention():
    q, k, v = normal(2, 2, 4, 16), normal(2, 2, 50, 16), normal(2, 2, 50, 16)
    want = attention_reference(q, k, v, 0.25)
    for splits in (1, 4, 64):  # 64: most parts are empty
        assert worst_error(attend(q, k, v, 0.25, splits), want) <= bound("f32", 50, 1.0)


# ---------------------------------------------------------------- 11: order of lines


@tl.kernel
def sum_then_dot(x: tl.Tensor["M", "K", tl.f32], y: tl.Tensor["K", "N", tl.f32]) -> tl.Tensor["M", "N", tl.f32]:
    for m, n in tl.grid("M", "N"):
        acc, norm = tl.zeros(m, n), tl.zeros(m)
        for k in tl.stream("K"):
            tile = tl.exp(x[m, k])
            norm += tl.sum(tile, k)
            acc += tl.dot(tile, y[k, n])
        out[m, n] = acc / norm


@tl.kernel
def dot_then_sum(x: tl.Tensor["M", "K", tl.f32], y: tl.Tensor["K", "N", tl.f32]) -> tl.Tensor["M", "N", tl.f32]:
    for m, n in tl.grid("M", "N"):
        norm, acc = tl.zeros(m), tl.zeros(m, n)
        for k in tl.stream("K"):
            tile = tl.exp(x[m, k])
            acc += tl.dot(tile, y[k, n])
            norm += tl.sum(tile, k)
        out[m, n] = acc / norm


def test_order_of_independent_lines():
    x, y = normal(20, 33), normal(33, 9)
    e = np.exp(x.astype(np.float64))
    want = e @ y / e.sum(axis=1, keepdims=True)
    check(sum_then_dot, want, 33, x=x, y=y)
    check(dot_then_sum, want, 33, x=x, y=y)
    tiles = {"m": 6, "n": 4, "k": 8}
    results = [k.interpret(x, y, tiles=tiles, exact=True) for k in (sum_then_dot, dot_then_sum)]
    np.testing.assert_allclose(*results, rtol=1e-14)


# ---------------------------------------------------------------- 12: a copy under a condition


@pytest.mark.parametrize("density", [0.0, 0.3, 1.0])
def test_block_sparse(density: float):
    a, b = normal(70, 100), normal(100, 33)
    mask = RNG.random((3, 4)) < density
    mask[1] = False
    check(block_sparse_matmul, block_sparse_reference(a, b, mask), 100, a=a, b=b, mask=mask)


# ---------------------------------------------------------------- strides, dtypes, frameworks


def test_strided_and_transposed_arrays():
    a, b, bias = normal(24, 9).T, normal(48, 34)[::2, 1::2], normal(17)
    want = np.maximum(a.astype(np.float64) @ b + bias, 0)
    out = np.full((17, 18), np.nan, np.float32).T[::2]
    assert matmul(a, b, bias, out=out) is out
    assert worst_error(out, want) <= bound("f32", 24, 20.0)
    backwards = matmul(a[::-1], b, bias)
    assert worst_error(backwards, want[::-1]) <= bound("f32", 24, 20.0)


@pytest.mark.torch
def test_torch_tensors_are_used_in_place():
    import torch

    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.float8_e5m2):
        a, b = torch.randn(9, 24).to(dtype), torch.randn(24, 17).to(dtype)
        bias = torch.randn(17)
        got = matmul(a, b, bias)
        assert got.dtype == dtype and isinstance(got, torch.Tensor)
        want = torch.relu(a.double() @ b.double() + bias)
        limit = {torch.float8_e5m2: 3.0}.get(dtype, 0.2)
        assert float((got.double() - want).abs().max()) < limit
    out = torch.zeros(9, 17)
    assert matmul(torch.ones(9, 24), torch.ones(24, 17), torch.zeros(17), out=out) is out
    assert float(out[3, 4]) == 24
    with pytest.raises(tl.CompileError, match="requires a gradient"):
        matmul(torch.ones(9, 24, requires_grad=True), torch.ones(24, 17), torch.zeros(17))


def test_anything_with_dlpack():
    class Holder:
        def __init__(self, array: np.ndarray):
            self.array = array

        def __dlpack__(self, **kwargs: object) -> object:
            return self.array.__dlpack__(**kwargs)

        def __dlpack_device__(self) -> tuple[int, int]:
            return self.array.__dlpack_device__()

    a, b, bias = normal(9, 24), normal(24, 17), normal(17)
    got = matmul(Holder(a), Holder(b), bias)
    np.testing.assert_array_equal(got, matmul(a, b, bias))


@pytest.mark.torch
def test_dlpack_of_narrow_floats():
    import torch

    class Holder:
        def __init__(self, tensor: torch.Tensor):
            self.tensor = tensor

        def __dlpack__(self, **kwargs: object) -> object:
            return self.tensor.__dlpack__()

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    for dtype in (torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2):
        x = torch.arange(12).reshape(3, 4).to(dtype)
        view = wrap(Holder(x.T), "x")
        assert view.array.astype(float).tolist() == x.T.double().tolist()
        view.array[1, 2] = 1
        assert float(x[2, 1]) == 1  # the same memory


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.float64, np.int64, np.int32, np.int8, np.uint8, np.bool_])
@pytest.mark.parametrize("versions", [True, False], ids=["1.0", "before"])
def test_dlpack_of_every_version_can_be_written(dtype: type, versions: bool) -> None:
    class Holder:
        def __init__(self, array: np.ndarray):
            self.array = array

        def __dlpack__(self, **kwargs: object) -> object:
            if kwargs and not versions:
                raise TypeError("no such argument")
            return self.array.__dlpack__(**kwargs)

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    x = np.arange(12).reshape(3, 4).astype(dtype)
    view = wrap(Holder(x[:, ::2]), "x")
    assert view.writable and view.array.dtype == x.dtype and (view.array == x[:, ::2]).all()
    view.array[1, 1] = 0
    assert x[1, 2] == 0  # the same memory
    x.flags.writeable = False
    if versions:
        assert not wrap(Holder(x), "x").writable
    else:
        with pytest.raises(tl.CompileError, match="cannot be used in place"):
            wrap(Holder(x), "x")


def test_infinities_and_nan_go_where_numpy_sends_them():
    x = np.array([[1.0, -math.inf, math.inf, math.nan]], np.float32)
    got = far_clip(x)
    np.testing.assert_array_equal(got, np.minimum(np.maximum(x, 0), 6))


@tl.kernel
def far_clip(x: tl.Tensor["M", "N", tl.f32]) -> tl.Tensor["M", "N", tl.f32]:
    for m, n in tl.grid("M", "N"):
        out[m, n] = tl.minimum(tl.maximum(x[m, n], 0), 6)
