"""CUDA kernels called from Python: arguments of every kind, templates, variables, the disk cache, wrong calls."""

from __future__ import annotations

import ctypes
import threading
from pathlib import Path

import numpy as np
import pytest

import threadloom.cuda as cuda
from threadloom.cuda import program as program_module
from threadloom.errors import CompileError

SOURCE = """
__constant__ float offset[2];
__global__ void saxpy(float* y, const float* x, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i] + offset[1];
}
__device__ int filled;
template <class T, int N> __global__ void fill(T* p, T value) {
  if (threadIdx.x < N) p[threadIdx.x] = value;
  if (threadIdx.x == 0) filled += N;
}
struct Mixed { float a; int b; double c; };
__global__ void sum(double* out, Mixed m, bool flag, unsigned char byte, long long wide) {
  out[0] = m.a + m.b + m.c + flag + byte + wide;
}
__global__ void __launch_bounds__(256) reverse(const int* in, int* out) {
  extern __shared__ int tile[];
  tile[threadIdx.x] = in[blockIdx.y * blockDim.x + threadIdx.x];
  __syncthreads();
  out[blockIdx.y * blockDim.x + threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}
"""


@pytest.fixture(scope="module")
def compiled() -> cuda.Program:
    return cuda.compile(SOURCE)


def test_arrays_scalars_and_constants(compiled: cuda.Program) -> None:
    x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
    compiled.symbol("offset", np.float32)[:] = [100, 5]
    compiled["saxpy"](4, 256, y, x, 2, np.int64(1000))
    np.testing.assert_array_equal(y, 2 * x + 6)


def test_variables_have_their_own_shape(compiled: cuda.Program) -> None:
    offset = compiled.symbol("offset")
    assert offset.dtype == np.float32 and offset.shape == (2,)


@pytest.mark.slow
def test_instances_of_templates_share_the_variables(compiled: cuda.Program) -> None:
    filled, out = compiled.symbol("filled"), np.zeros(4, np.int32)
    filled[...] = 10
    compiled["fill<int, 2>"](1, 4, out, 1)
    compiled["fill<int, 3>"](1, 4, out, 1)
    assert filled == 15 and compiled.symbol("filled") == 15


@pytest.mark.slow
def test_a_list_that_changes_is_read_again(compiled: cuda.Program) -> None:
    block, out = [1], np.zeros(4, np.float32)
    fill = compiled["fill<float, 4>"]
    fill(1, block, out, 1.0)
    block[0] = 3
    fill(1, block, out, 2.0)
    np.testing.assert_array_equal(out, [2, 2, 2, 0])


FAILING = """
#include <cstdio>
#include <cassert>
__global__ void checked(int* out, int limit) {
  printf("thread %d\\n", threadIdx.x);
  assert(out[threadIdx.x] < limit);
  out[threadIdx.x] += 1;
}
"""


def test_asserts_raise_and_prints_are_shown(capfd: pytest.CaptureFixture[str]) -> None:
    checked = cuda.compile(FAILING)["checked"]
    out = np.arange(2, dtype=np.int32)
    checked(1, 2, out, 5)
    assert sorted(capfd.readouterr().out.splitlines()) == ["thread 0", "thread 1"]
    with pytest.raises(CompileError, match="cuda-launch-failed"):
        checked(1, 2, out, 2)
    assert "Assertion `out[threadIdx.x] < limit` failed" in capfd.readouterr().err
    checked(1, 2, out, 50)  # the device works again
    assert out[0] == 3


@pytest.mark.slow
def test_the_example_of_the_page_runs() -> None:
    page = (Path(__file__).parents[3] / "docs" / "cuda.md").read_text()
    example = page.partition("```python\n")[2].partition("```")[0]
    assert "tl.cuda.compile" in example
    exec(compile(example, "cuda.md", "exec"), {})


def test_overlapping_arrays(compiled: cuda.Program) -> None:
    compiled.symbol("offset", np.float32)[:] = 0
    memory = np.arange(101, dtype=np.float32)
    for i in range(100):  # one element at a time: the arrays overlap, but the launch is ordered
        compiled["saxpy"](1, 1, memory[i + 1 :], memory[i:], 1.0, 1)
    np.testing.assert_array_equal(memory, np.cumsum(np.arange(101)))


def test_a_launch_of_distinct_arrays_waits_for_those_of_overlapping_ones_to_say_so(compiled: cuda.Program) -> None:
    """Threads launch at the same time, and kernels ask after they have started."""
    compiled.symbol("offset", np.float32)[:] = 0
    memory = np.zeros(20000, np.float32)
    kernel = compiled["saxpy"]
    for _ in range(2):  # its version is settled then
        kernel(1, 1, memory[:1], memory[1:2], 1.0, 1)
    answers, version = [], kernel._version
    entry = version.entry

    def start(pointers: object, geometry: object) -> None:
        if not answers:  # while the first launch starts, another thread launches
            answers.append(version.distinct.value)
            other = threading.Thread(target=kernel, args=(1, 1, memory[:1], memory[1:2], 1.0, 1))
            other.start()
            other.join()
            answers.append(version.distinct.value)
        entry(pointers, geometry)

    version.entry = start
    try:
        kernel(1, 1, memory[1:], memory, 1.0, 1)
        kernel(1, 1, memory[:1], memory[1:2], 1.0, 1)
    finally:
        version.entry = entry
    assert answers == [0, 0] and version.distinct.value == 1


def test_struct_bool_and_wide_values(compiled: cuda.Program) -> None:
    class Mixed(ctypes.Structure):
        _fields_ = [("a", ctypes.c_float), ("b", ctypes.c_int), ("c", ctypes.c_double)]

    record = np.array([(1.5, -2, 3.25)], dtype=[("a", "f4"), ("b", "i4"), ("c", "f8")])
    for value in (Mixed(1.5, -2, 3.25), record, bytes(Mixed(1.5, -2, 3.25))):
        out = np.zeros(1)
        compiled["sum"](1, 1, out, value, True, 200, -(2**40))
        assert out[0] == 2.75 + 1 + 200 - 2**40


def test_template_is_compiled_when_asked_for(compiled: cuda.Program) -> None:
    out = np.zeros(10, np.int32)
    compiled["fill<int, 7>"](1, 32, out, -3)
    assert out.tolist() == [-3] * 7 + [0] * 3


def test_dynamic_shared_memory_and_grids(compiled: cuda.Program) -> None:
    values = np.arange(96, dtype=np.int32)
    out = np.zeros_like(values)
    compiled["reverse"]((1, 3), 32, values, out, shared_bytes=128)
    np.testing.assert_array_equal(out.reshape(3, 32), values.reshape(3, 32)[:, ::-1])


@pytest.mark.torch
def test_torch_tensors(compiled: cuda.Program) -> None:
    torch = pytest.importorskip("torch")
    compiled.symbol("offset", np.float32)[:] = 0
    x, y = torch.arange(100, dtype=torch.float32), torch.zeros(100)
    compiled["saxpy"](1, 128, y, x, 3.0, 100)
    assert torch.equal(y, 3 * x)


def test_file_and_its_includes_are_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOM_CACHE", str(tmp_path / "cache"))
    (tmp_path / "step.h").write_text("inline __device__ int step(int x) { return x + 1; }\n")
    source = tmp_path / "apply.cu"
    source.write_text('#include "step.h"\n__global__ void apply(int* p) { p[0] = step(p[0]); }\n')
    value = np.array([5], np.int32)
    cuda.compile(source)["apply"](1, 1, value)
    assert value[0] == 6

    read = []
    original = program_module._read
    monkeypatch.setattr(program_module, "_read", lambda *args: read.append(args) or original(*args))
    cuda.compile(source)["apply"](1, 1, value)
    assert (value[0], read) == (7, [])  # from the disk
    (tmp_path / "step.h").write_text("inline __device__ int step(int x) { return x * 10; }\n")
    cuda.compile(source)["apply"](1, 1, value)
    assert (value[0], len(read)) == (70, 1)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("no array", np.zeros(1, np.float32), 1.0, 1), "argument 1"),
        ((np.zeros(4), np.zeros(4, np.float32), 1.0, 1), "float64"),
        ((np.zeros(8, np.float32)[::2], np.zeros(4, np.float32), 1.0, 1), "contiguous"),
        ((np.zeros(4, np.float32), np.zeros(4, np.float32), 1.0, 1.5), "argument 4"),
        ((np.zeros(4, np.float32), np.zeros(4, np.float32), "x", 1), "argument 3"),
        ((np.zeros(4, np.float32), np.zeros(4, np.float32), 1e40, 1), "does not fit"),
        ((np.zeros(4, np.float32), np.zeros(4, np.float32), 1.0, 2**32), "argument 4"),
        ((np.zeros(4, np.float32), np.zeros(4, np.float32), 1.0, -(2**31) - 1), "argument 4"),
        ((np.zeros(4, np.float32), np.zeros(4, np.float32), 1.0), "4 arguments"),
    ],
)
def test_wrong_arguments(compiled: cuda.Program, arguments: tuple, part: str) -> None:
    with pytest.raises(CompileError) as caught:
        compiled["saxpy"](1, 1, *arguments)
    assert part in str(caught.value)
    assert caught.value.slug == "cuda-launch-argument"


@pytest.mark.parametrize(
    ("grid", "block", "shared"),
    [(0, 1, 0), (1, 2048, 0), (1, 257, 0), ((1, 70000), 1, 0), (1, 1, 10**6), (1, (1, 1, 1, 1), 0)],
)
def test_wrong_geometry(compiled: cuda.Program, grid: object, block: object, shared: int) -> None:
    values = np.zeros(4, np.int32)
    with pytest.raises(CompileError) as caught:
        compiled["reverse"](grid, block, values, values, shared_bytes=shared)
    assert caught.value.slug == "cuda-launch-geometry"


def test_unknown_names(compiled: cuda.Program) -> None:
    for ask in (lambda: compiled["sxapy"], lambda: compiled.symbol("ofset", np.float32)):
        with pytest.raises(CompileError) as caught:
            ask()
        assert caught.value.slug == "cuda-no-such-kernel"
        assert "saxpy" in str(caught.value) or "offset" in str(caught.value)


@pytest.mark.slow
def test_what_only_inline_ptx_calls_is_declared() -> None:
    program = cuda.compile("""
__global__ void next(int *x, int n) {
    __shared__ int all[32];
    all[threadIdx.x] = x[threadIdx.x];
    asm volatile("bar.warp.sync 0xffffffff;" ::: "memory");
    if (n != 32) asm("trap;");
    x[threadIdx.x] = all[(threadIdx.x + 1) % 32];
}
""")
    x = np.arange(32, dtype=np.int32)
    program["next"](1, 32, x, 32)
    assert (x == np.roll(np.arange(32), -1)).all()


def test_passes_can_be_left_out(compiled: cuda.Program) -> None:
    quick = cuda.compile(SOURCE, ["-O0", "--without=vectorize-threads"])
    assert "x float>" in compiled.emitted.llvm and "x float>" not in quick.emitted.llvm
    x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
    quick["saxpy"](4, 256, y, x, 2, 1000)
    np.testing.assert_array_equal(y, 2 * x + 1)


def test_a_text_on_one_long_line_is_no_path():
    assert program_module._content("x" * 5000) == "x" * 5000
