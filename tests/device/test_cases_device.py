"""The kinds of input of tests/tile/test_cases.py on a real GPU: the same kernels and sizes, with tensors there."""

from __future__ import annotations

import numpy as np
import pytest

from tests.tile import test_cases as cases
from threadloom.lang.kernel import Kernel
from threadloom.tolerance import bound, worst_error

pytestmark = [pytest.mark.gpu, pytest.mark.torch]
torch = pytest.importorskip("torch")

test_a_tile_made_in_one_iteration_and_used_in_the_next = cases.test_a_tile_made_in_one_iteration_and_used_in_the_next
test_reduction_lengths = cases.test_reduction_lengths
test_sizes_that_are_no_powers_of_two = cases.test_sizes_that_are_no_powers_of_two
test_row_widths = cases.test_row_widths
test_attention_shapes = cases.test_attention_shapes
test_attention_head_dimensions = cases.test_attention_head_dimensions
test_packed_sequences = cases.test_packed_sequences
test_block_sparse = cases.test_block_sparse


def check_on_gpu(kernel: Kernel, want: np.ndarray, length: int, dtype: str = "f32", **arguments: object) -> None:
    """The call with copies of the arrays on the GPU lies within the tolerance."""
    given = {n: torch.from_numpy(a).cuda() if isinstance(a, np.ndarray) else a for n, a in arguments.items()}
    got = kernel(**given).cpu().numpy()
    assert worst_error(got, want) <= bound(dtype, length, float(np.abs(want).max(initial=0)))


@pytest.fixture(autouse=True)
def on_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cases, "check", check_on_gpu)


def test_order_of_independent_lines():
    x, y = cases.normal(20, 33), cases.normal(33, 9)
    e = np.exp(x.astype(np.float64))
    want = e @ y / e.sum(axis=1, keepdims=True)
    for kernel in (cases.sum_then_dot, cases.dot_then_sum):
        check_on_gpu(kernel, want, 33, x=x, y=y)


def test_more_than_two_to_the_31_elements():
    memory = torch.zeros(2**31 + 64, dtype=torch.float16, device="cuda")
    memory[-8:] = torch.arange(8)
    far = memory[48:].as_strided((2, 16), (2**31, 1))
    assert cases.far_rows(far)[1, -8:].tolist() == [n + 1.0 for n in range(8)]
    cases.far_rows(torch.ones(2, 16, dtype=torch.float16, device="cuda"), out=memory.as_strided((2, 16), (2**31, 1)))
    assert memory[2**31 : 2**31 + 16].tolist() == [2.0] * 16
    many = memory[: 2**31 + 64].view(-1, 64)  # every element, of two dimensions
    many.fill_(1)
    made = cases.far_rows(many)
    assert bool((made[-1] == 2).all()) and bool((made[0] == 2).all()) and bool((made[2**25 - 1 :] == 2).all())
