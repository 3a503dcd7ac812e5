"""LOOM_PROFILE: a program's kernels are counted and timed, copies between them apart."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from threadloom.cuda import build, nvcc_options

pytestmark = pytest.mark.clang

SOURCE = """
__global__ void add(int* x) { x[threadIdx.x] += 1; }
__global__ void twice(int* x) { x[threadIdx.x] *= 2; }
int main() {
  int host[64] = {}, *x;
  cudaMalloc(&x, sizeof host);
  cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);
  for (int i = 0; i < 3; ++i) add<<<1, 64>>>(x);
  cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost);
  twice<<<1, 64>>>(x);
  cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost);
  return host[5] != 6;
}
"""


def test_kernels_are_counted_and_timed(tmp_path: Path) -> None:
    (tmp_path / "x.cu").write_text(SOURCE)
    assert build.run(nvcc_options.parse([str(tmp_path / "x.cu"), "-o", str(tmp_path / "x")])) == 0
    written = tmp_path / "times.json"
    done = subprocess.run([tmp_path / "x"], env={**os.environ, "LOOM_PROFILE": str(written)}, check=False)
    assert done.returncode == 0
    profile = json.loads(written.read_text())
    assert {kernel["name"]: kernel["calls"] for kernel in profile["kernels"]} == {"_Z3addPi": 3, "_Z5twicePi": 1}
    inside = sum(kernel["seconds"] for kernel in profile["kernels"]) + profile["copies_in_span_s"]
    assert 0 < inside <= profile["span_s"]
    assert 0 < profile["copies_in_span_s"] < profile["copies_s"]
