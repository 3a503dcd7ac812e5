"""Kernels called from Python whose threads and blocks wait for later ones."""

from __future__ import annotations

import numpy as np
import pytest

from threadloom import cuda

pytestmark = pytest.mark.clang

SOURCE = """
__global__ void chain(volatile int* ready, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n)
    while (!ready[i + 1]) {
    }
  ready[i] = i < n ? ready[i + 1] + 1 : 1;
}
"""


def test_threads_and_blocks_wait_for_later_ones() -> None:
    chain = cuda.compile(SOURCE)["chain"]
    for grid, block in ((1, 100), (6, 16)):
        ready = np.zeros(grid * block, np.int32)
        chain(grid, block, ready, grid * block - 1)
        assert (ready == np.arange(grid * block, 0, -1)).all()
