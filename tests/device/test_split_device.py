"""Split reductions on a real GPU: right, the same in every run, on several streams and in CUDA graphs."""

from __future__ import annotations

import pytest

import threadloom as tl
from threadloom.targets.cuda import launch

pytestmark = [pytest.mark.gpu, pytest.mark.torch]
torch = pytest.importorskip("torch")

from tests.device.test_gpu_calls_device import is_product, normal, product  # noqa: E402 (without torch it has no names)

SHAPES = [(16, 4096, 4096), (1, 4096, 14336), (32, 1024, 8192), (3, 250, 9000)]  # M, N, K


def operands(m: int, n: int, k: int):
    return normal(m, k), normal(k, n)


def combined() -> list[launch.CudaKernel]:
    made = launch._known_of(product.tile(T=tl.f16)).compiled.values()
    return [k for k in made if k.combine is not None]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_short_products_are_split_right_and_the_same_each_time(shape):
    a, b = operands(*shape)
    first = product(a, b)
    assert combined(), "the model is expected to split these"
    assert is_product(first, a, b)
    for _ in range(20):
        assert torch.equal(product(a, b), first)


def test_streams_do_not_share_what_lies_between():
    pairs = [operands(16, 4096, 4096) for _ in range(4)]
    wanted = [product(a, b) for a, b in pairs]
    torch.cuda.synchronize()
    streams = [torch.cuda.Stream() for _ in pairs]
    found: list[list] = [[] for _ in pairs]
    for _ in range(10):
        for at, (stream, (a, b)) in enumerate(zip(streams, pairs, strict=True)):
            with torch.cuda.stream(stream):
                found[at].append(product(a, b))
    torch.cuda.synchronize()
    assert all(torch.equal(x, want) for want, made in zip(wanted, found, strict=True) for x in made)


def test_a_graph_holds_both_kernels():
    a, b = operands(16, 4096, 4096)
    out = torch.empty(16, 4096, device="cuda", dtype=a.dtype)
    product(a, b, out=out)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        product(a, b, out=out)
    for _ in range(3):
        a.copy_(normal(16, 4096))
        graph.replay()
        torch.cuda.synchronize()
        assert is_product(out, a, b)
