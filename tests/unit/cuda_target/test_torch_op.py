"""Kernels as PyTorch operators, on CPU tensors: eager, under torch.compile, with symbolic extents."""

from __future__ import annotations

import pytest

import threadloom as tl
from threadloom.errors import CompileError

pytestmark = pytest.mark.torch


@tl.kernel
def op_softmax(x: tl.Tensor["M", "N", "T"], scale: tl.f32 = 1.0) -> tl.Tensor["M", "N", "T"]:
    for m in tl.grid("M"):
        n = tl.axis("N")
        row = tl.cast(x[m, n], tl.f32) * scale
        p = tl.exp(row - tl.max(row, n))
        out[m, n] = p / tl.sum(p, n)


@tl.kernel
def op_joined(
    x: tl.Tensor["M", "N", tl.f32], y: tl.Tensor["N", "M", tl.f32], up: tl.Const[bool]
) -> tl.outputs(total=tl.Tensor["M", tl.f32], both=tl.Tensor["M", "N", tl.f32]):
    for m in tl.grid("M"):
        n = tl.axis("N")
        if up:
            tile = x[m, n] + y[n, m]
        else:
            tile = x[m, n] - y[n, m]
        both[m, n] = tile
        total[m] = tl.sum(tile, n)


@pytest.fixture(autouse=True, scope="module")
def with_torch():
    """Every worker collects this file; importing PyTorch takes seconds."""
    global torch, softmax_op, joined_op
    import torch

    softmax_op = op_softmax.torch_op("threadloom_tests::softmax")
    joined_op = op_joined.torch_op("threadloom_tests::joined", up=False)


def test_eager():
    x = torch.randn(5, 40)
    torch.testing.assert_close(softmax_op(x), torch.softmax(x, 1))
    torch.testing.assert_close(torch.ops.threadloom_tests.softmax(x, scale=0.5), torch.softmax(x / 2, 1))
    y = torch.randn(40, 5)
    total, both = joined_op(x, y)
    torch.testing.assert_close(both, x - y.T)
    torch.testing.assert_close(total, (x - y.T).sum(1))


def test_pytorchs_own_check():
    torch.library.opcheck(joined_op, (torch.randn(4, 16), torch.randn(16, 4)))


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_without_a_break(dynamic):
    def model(x):
        return softmax_op(x * 2) + 1

    compiled = torch.compile(model, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for rows in (3, 7):
        x = torch.randn(rows, 24)
        torch.testing.assert_close(compiled(x), torch.softmax(2 * x, 1) + 1)
    half = torch.randn(3, 24, dtype=torch.float16)
    assert compiled(half).dtype is torch.float16


@pytest.mark.filterwarnings("ignore:Dynamo")
def test_a_plain_call_under_compile_breaks_the_graph_and_works():
    def model(x):
        return op_softmax(x * 2) + 1

    x = torch.randn(3, 24)
    torch.testing.assert_close(torch.compile(model, backend="aot_eager")(x), torch.softmax(2 * x, 1) + 1)


def test_fakes_check_shapes():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        total, both = joined_op(torch.empty(4, 16), torch.empty(16, 4))
        assert total.shape == (4,) and both.shape == (4, 16)
        with pytest.raises(CompileError) as caught:
            joined_op(torch.empty(4, 16), torch.empty(15, 4))
    assert caught.value.slug == "arguments" and "dimension 0 of y is 15" in caught.value.what


def test_gradients_are_refused_not_lost():
    x = torch.randn(3, 8, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"no autograd formula|not register"):
        softmax_op(x).sum().backward()


def test_errors():
    for name, constants, words in (
        ("softmax", {}, "has no namespace"),
        ("threadloom_tests::other", {"down": 1}, "no compile-time constant down"),
        ("threadloom_tests::other", {}, "needs up"),
    ):
        with pytest.raises(CompileError) as caught:
            op_joined.torch_op(name, **constants)
        assert caught.value.slug == "no-operator" and words in caught.value.what
