"""What calling a CUDA kernel from Python says when the kernel itself stops."""

from __future__ import annotations

import numpy as np
import pytest

from threadloom import cuda
from threadloom.errors import CompileError


@pytest.mark.clang
def test_a_trap_is_an_error_of_the_call() -> None:
    kernel = cuda.compile("__global__ void stops(int *x) { if (x[0] == 7) __trap(); }\n")["stops"]
    kernel(1, 1, np.zeros(1, np.int32))
    with pytest.raises(CompileError) as caught:
        kernel(1, 1, np.full(1, 7, np.int32))
    assert caught.value.slug == "cuda-launch-failed" and "stops" in caught.value.what
    kernel(1, 1, np.zeros(1, np.int32))
