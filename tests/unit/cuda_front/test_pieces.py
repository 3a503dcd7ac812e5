"""Shares in pieces (runtime/parallel.cpp): workers that are done take what others have left, each block runs once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.clang

# The first piece of all ends when every other one has: with whole shares that would never be.
REGION = r"""
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <sched.h>
extern "C" void __loom_parallel(void (*work)(void*), void* context, unsigned threads, unsigned flags);
extern "C" int __loom_thread_num();
extern "C" int __loom_num_threads();
struct alignas(64) Context { long line[8]; long iterations; };
std::atomic<int> done, runs[64], shares;
static void work(void*) {
    int me = __loom_thread_num(), all = __loom_num_threads();
    shares = all;
    ++runs[me];
    while (me == 0 && all > 4 && done < all - 1) sched_yield();
    ++done;
}
int main(int argc, char** argv) {
    Context context{{0, sizeof(Context)}, atol(argv[1])};
    __loom_parallel(work, &context, 4, 0);
    bool once = true;
    for (int i = 0; i < shares; ++i) once = once && runs[i] == 1;
    printf("%d %d %d\n", (int)shares, (int)done, once);
}
__global__ void nothing() {}
"""
# Blocks with more and less to do, each writing what its neighbours read in the next launch.
STEPS = r"""
#include <cstdio>
#include <vector>
__host__ __device__ unsigned step(const unsigned* in, int b, int n) {
    unsigned x = in[b] + 3 * in[(b + n - 1) % n] + in[(b + 1) % n];
    for (int i = 0; i < (b % 64 == 0 ? 4000 : 20); ++i) x = x * 1664525u + 1013904223u;
    return x;
}
__global__ void steps(const unsigned* in, unsigned* out, int n) {
    int b = blockIdx.y * gridDim.x + blockIdx.x;
    if (threadIdx.x == 0) out[b] = step(in, b, n);
}
int main() {
    const int n = 16 * 40;
    unsigned *a, *b;
    cudaMalloc(&a, n * sizeof(unsigned)), cudaMalloc(&b, n * sizeof(unsigned));
    std::vector<unsigned> x(n, 1), y(n), found(n);
    cudaMemcpy(a, x.data(), n * sizeof(unsigned), cudaMemcpyHostToDevice);
    for (int k = 0; k < 50; ++k) {
        steps<<<dim3(16, 40), 32>>>(k % 2 ? b : a, k % 2 ? a : b, n);
        for (int i = 0; i < n; ++i) y[i] = step(x.data(), i, n);
        x.swap(y);
    }
    cudaMemcpy(found.data(), a, n * sizeof(unsigned), cudaMemcpyDeviceToHost);
    puts(found == x ? "same" : "different");
}
"""


def built(source: str, tmp_path: Path) -> Path:
    (tmp_path / "program.cu").write_text(source)
    command = [sys.executable, "-m", "threadloom", "cc", str(tmp_path / "program.cu"), "-o", str(tmp_path / "program")]
    subprocess.run(command, check=True)
    return tmp_path / "program"


def output(program: Path, *words: str) -> list[str]:
    four = {**os.environ, "OMP_NUM_THREADS": "4", "OMP_DYNAMIC": "false"}
    done = subprocess.run([str(program), *words], capture_output=True, text=True, timeout=60, env=four, check=True)
    return done.stdout.split()


def test_who_is_done_takes_pieces_of_others(tmp_path: Path) -> None:
    program = built(REGION, tmp_path)
    assert output(program, "31") == ["4", "4", "1"]  # few blocks: a share each
    assert output(program, "1000") == ["32", "32", "1"]


def test_uneven_blocks_of_launches_that_follow_one_another(tmp_path: Path) -> None:
    assert output(built(STEPS, tmp_path)) == ["same"]
