"""Kernels that are compiled when they are first launched: each text is whole in itself, only what is launched is
compiled, once, and kept."""

from __future__ import annotations

import ctypes
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from threadloom.cuda import build, first_launch
from threadloom.cuda.compile_unit import UnitOptions, compile_unit, raise_device
from threadloom.cuda.front import SourceOptions, compile_source
from threadloom.cuda.host_stubs import find_stubs
from threadloom.cuda.nvcc_options import parse
from threadloom.cuda.separate import separate
from threadloom.par.ops import Module
from threadloom.par.text import print_module

pytestmark = pytest.mark.clang

SOURCE = r"""
__device__ __noinline__ float twice(float x) { return x * 2; }
template <int N> __global__ void reverse(float *x, float by) {
    __shared__ float tile[N];
    tile[threadIdx.x] = x[blockIdx.x * N + threadIdx.x];
    __syncthreads();
    x[blockIdx.x * N + threadIdx.x] = N > 16 ? twice(tile[N - 1 - threadIdx.x]) * by : tile[N - 1 - threadIdx.x] + by;
    if (x[0] < -1e30f) printf("never in %d\n", N);
}
template <class F> __global__ void apply(float *x, F f) { x[threadIdx.x] = f(x[threadIdx.x]); }
__global__ void wide(int *out) {
    extern __shared__ int all[];
    all[threadIdx.x] = threadIdx.x;
    out[threadIdx.x] = all[threadIdx.x];
}
#ifdef BROKEN
__device__ int deep(int n) { __shared__ int kept; return n ? deep(n - 1) + kept : 0; }
__global__ void broken(int *out) { out[0] = deep(out[0]); }
#endif
extern "C" int run(int which, float *x, float by) {
    if (which == 8) reverse<8><<<2, 8>>>(x, by);
    if (which == 32) reverse<32><<<2, 32>>>(x, by);
    if (which == 1) apply<<<1, 8>>>(x, [=] __device__(float v) { return v - by; });
    if (which == 2) wide<<<1, 8, 8 * sizeof(int)>>>((int *)x);
#ifdef BROKEN
    if (which == 3) broken<<<1, 1>>>((int *)x);
#endif
    cudaError_t launched = cudaGetLastError(), ran = cudaDeviceSynchronize();
    return launched ? launched : ran;
}
extern "C" int static_bytes() {
    cudaFuncAttributes attributes;
    cudaFuncGetAttributes(&attributes, reverse<32>);
    return attributes.sharedSizeBytes;
}
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    (tmp_path / "k.cu").write_text(SOURCE)
    return tmp_path / "k.cu"


def _library(source: Path, monkeypatch: pytest.MonkeyPatch, defines: tuple[str, ...] = ()) -> tuple[ctypes.CDLL, Path]:
    monkeypatch.setattr(first_launch, "FEWEST_KERNELS", 2)
    store, made = source.with_suffix(".kernels"), source.with_suffix(".so")
    options = UnitOptions(SourceOptions(defines=defines, extra=("-fPIC",)), store=store)
    source.with_suffix(".o").write_bytes(compile_unit(str(source), options))
    build.link([str(source.with_suffix(".o"))], str(made), parse(["-shared", "-o", str(made), str(source)]))
    first_launch.attach(made, [store])
    return ctypes.CDLL(str(made)), store


def _run(library: ctypes.CDLL, which: int, x: np.ndarray, by: float = 3) -> int:
    return library.run(which, ctypes.c_void_p(x.ctypes.data), ctypes.c_float(by))


def _compiled(store: Path) -> list[str]:
    return sorted(json.loads(one.read_text())["kernel"] for one in store.with_suffix("").glob("*.json"))


def _text(module: Module, kernel: str) -> str:
    """The kernel alone; shared arrays are numbered within their module."""
    own = replace(module, functions=tuple(one for one in module.functions if one.name == kernel), globals=())
    return re.sub(r"\.shared\.\d+", ".shared", print_module(own))


def test_each_text_holds_one_kernel_and_what_it_needs(source: Path):
    ir = compile_source(str(source), SourceOptions())
    kernels = tuple(stub.kernel for stub in find_stubs(ir.host))
    texts = dict(separate(ir.device, kernels))
    assert set(texts) == set(kernels)
    whole = raise_device([ir.device], kernels).module
    for kernel, text in texts.items():
        assert len(text) < 0.7 * len(ir.device)
        assert _text(raise_device([text], (kernel,)).module, kernel) == _text(whole, kernel)  # locations, too


def test_what_is_launched_is_compiled(source: Path, monkeypatch: pytest.MonkeyPatch):
    library, store = _library(source, monkeypatch)
    assert not _compiled(store)
    x = np.arange(64, dtype=np.float32)
    assert _run(library, 32, x) == 0
    assert (x == np.arange(64).reshape(2, 32)[:, ::-1].reshape(-1) * 6).all()
    assert [name[:15] for name in _compiled(store)] == ["_Z7reverseILi32"]
    y = np.arange(16, dtype=np.float32)
    assert _run(library, 8, y) == 0 and _run(library, 8, y) == 0
    assert (y == np.arange(16) + 6).all()
    assert _run(library, 1, y) == 0 and (y[:8] == np.arange(8) + 3).all()
    assert _run(library, 2, y) == 0 and (y[:8].view(np.int32) == np.arange(8)).all()
    assert len(_compiled(store)) == 4


def test_attributes_are_known_before_a_launch(source: Path, monkeypatch: pytest.MonkeyPatch):
    assert _library(source, monkeypatch)[0].static_bytes() == 32 * 4


def test_code_is_kept_and_taken_again(source: Path, monkeypatch: pytest.MonkeyPatch):
    library, store = _library(source, monkeypatch)
    y = np.arange(16, dtype=np.float32)
    assert _run(library, 8, y) == 0
    monkeypatch.setattr(first_launch.compile_unit, "raise_device", lambda *_: pytest.fail("compiled again"))
    again = first_launch.Kernels(source.with_suffix(".so"), [store])
    cell = (ctypes.c_int * 1)()
    assert again._entry(_compiled(store)[0].encode(), cell) and cell[0] == 8 * 4


def test_a_kernel_that_cannot_be_compiled_fails_its_launch_with_the_reason(source: Path, monkeypatch, capfd):
    library, _ = _library(source, monkeypatch, ("-DBROKEN",))
    x = np.zeros(64, np.float32)
    assert _run(library, 3, x) == 98  # cudaErrorInvalidDeviceFunction
    told = capfd.readouterr().err
    assert "kernel _Z6brokenPi cannot be compiled" in told and "k.cu:17" in told
    assert _run(library, 2, x) == 0


def test_variables_of_both_sides_are_compiled_at_once(source: Path, monkeypatch: pytest.MonkeyPatch):
    source.write_text(SOURCE + "__device__ int counter;\n")
    monkeypatch.setattr(first_launch, "FEWEST_KERNELS", 2)
    compile_unit(str(source), UnitOptions(SourceOptions(), store=source.with_suffix(".kernels")))
    assert not source.with_suffix(".kernels").exists()
