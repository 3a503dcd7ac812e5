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


@pytest.mark.clang
def test_an_array_that_may_not_be_written_fits_a_pointer_to_const_only() -> None:
    program = cuda.compile("""
        __global__ void copy(const int *x, int *y) { y[0] = x[0]; }
        __global__ void pick(const int **table, int *y) { y[0] = table[0][0]; }
    """)
    kept, out = np.array([7], np.int32), np.zeros(1, np.int32)
    kept.flags.writeable = False
    program["copy"](1, 1, kept, out)
    table = np.array([kept.ctypes.data], np.uint64)
    program["pick"](1, 1, table, out)
    with pytest.raises(CompileError, match="may be written") as caught:
        program["copy"](1, 1, out, kept)
    assert caught.value.slug == "cuda-launch-argument" and (kept, out) == (7, 7)
    table.flags.writeable = False
    with pytest.raises(CompileError, match="may be written"):
        program["pick"](1, 1, table, out)
