"""Exported kernels: a C program includes the header, gets a driver that records, and launches what a call would."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import threadloom as tl
from tests.unit.cuda_target.test_gpu_calls import scaled, summed

pytest.importorskip("cuda.bindings.nvrtc")
CC = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
needs_cc = pytest.mark.skipif(CC is None, reason="no C compiler")

# what the header uses of cuda.h, and a driver that prints what it is asked for
STUB = r"""
#include <stdio.h>
#include <string.h>
typedef enum { CUDA_SUCCESS = 0 } CUresult;
typedef unsigned long long CUdeviceptr, cuuint64_t; typedef unsigned cuuint32_t;
typedef struct CUmod_st *CUmodule; typedef struct CUfunc_st *CUfunction; typedef struct CUstream_st *CUstream;
typedef struct { cuuint64_t opaque[16]; } CUtensorMap;
typedef enum { CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8 } CUfunction_attribute;
typedef enum { CU_TENSOR_MAP_DATA_TYPE_FLOAT16 = 6, CU_TENSOR_MAP_DATA_TYPE_FLOAT32 = 7 } CUtensorMapDataType;
typedef enum { CU_TENSOR_MAP_INTERLEAVE_NONE } CUtensorMapInterleave;
typedef enum { CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_SWIZZLE_32B, CU_TENSOR_MAP_SWIZZLE_64B,
               CU_TENSOR_MAP_SWIZZLE_128B } CUtensorMapSwizzle;
typedef enum { CU_TENSOR_MAP_L2_PROMOTION_L2_128B = 2, CU_TENSOR_MAP_L2_PROMOTION_L2_256B } CUtensorMapL2promotion;
typedef enum { CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE } CUtensorMapFloatOOBfill;
typedef struct { int id; struct { struct { unsigned x, y, z; } clusterDim; } value; } CUlaunchAttribute;
typedef struct { unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
                 CUstream hStream; CUlaunchAttribute *attrs; unsigned numAttrs; } CUlaunchConfig;
static CUresult cuModuleLoad(CUmodule *m, const char *path) { printf("load %s\n", path); return 0; }
static CUresult cuModuleLoadData(CUmodule *m, const void *image) { return 0; }
static CUresult cuModuleGetFunction(CUfunction *f, CUmodule m, const char *name) { printf("get %s\n", name); return 0; }
static CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute a, int n) { printf("shared %d\n", n); return 0; }
static CUresult cuMemsetD8Async(CUdeviceptr p, unsigned char b, size_t n, CUstream s)
{ printf("clear %llu %zu\n", p, n); return 0; }
static CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank, void *address,
    const cuuint64_t *extents, const cuuint64_t *strides, const cuuint32_t *box, const cuuint32_t *steps,
    CUtensorMapInterleave i, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l, CUtensorMapFloatOOBfill o) {
  printf("map %llu type %d swizzle %d fetch %d:", (CUdeviceptr)address, type, swizzle, l == 2 ? 128 : 256);
  for (unsigned d = 0; d < rank; d++) printf(" %llu/%llu/%u", extents[d], d ? strides[d - 1] : 0, box[d]);
  printf("\n");
  map->opaque[0] = (CUdeviceptr)address;
  return 0;
}
static CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **parameters, void **extra) {
  printf("launch %u x %u, %u bytes, stream %llu:", c->gridDimX, c->blockDimX, c->sharedMemBytes,
         (CUdeviceptr)c->hStream);
  for (int k = 0; k < PARAMETERS; k++) { cuuint64_t word = 0; memcpy(&word, parameters[k], 4); printf(" %llu", word); }
  printf("\n");
  return 0;
}
"""

HOST = r"""
#include "{name}.h"
int main(void) {{
  CUmodule module; CUfunction function = 0;
  if ({name}_load(&module, &function, "{name}.cubin") != CUDA_SUCCESS) return 1;
  return {name}_launch(function, {arguments}, (CUstream)77, 132) != CUDA_SUCCESS;
}}
"""


def run(folder: Path, name: str, arguments: str, parameters: int) -> list[str]:
    """Lines that the program prints; warnings are errors."""
    (folder / "cuda.h").write_text(STUB.replace("PARAMETERS", str(parameters)))
    (folder / "main.c").write_text(HOST.format(name=name, arguments=arguments))
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-Wno-unused-function"]
    subprocess.run([CC, *flags, "-I", str(folder), "main.c", "-o", "main"], cwd=folder, check=True)
    return subprocess.run([folder / "main"], cwd=folder, capture_output=True, text=True, check=True).stdout.splitlines()


@tl.kernel
def product(a: tl.Tensor["M", "K", tl.f16], b: tl.Tensor["K", "N", tl.f16]) -> tl.Tensor["M", "N", tl.f16]:
    for m, n in tl.grid("M", "N"):
        acc = tl.zeros(m, n, dtype=tl.f32)
        for k in tl.stream("K"):
            acc += tl.dot(a[m, k], b[k, n])
        out[m, n] = tl.cast(acc, tl.f16)


@needs_cc
def test_a_c_program_launches_what_a_call_would(tmp_path, gpu):
    from threadloom.targets.cuda import launch

    shapes = {"a": (256, 512), "b": (512, 384), "out": (256, 384)}
    made = product.export(tmp_path, *(np.zeros(shapes[n], np.float16) for n in "ab"))
    assert made.cubin.read_bytes()[:4] == b"\x7fELF" and "bulk_load" in made.source.read_text()
    (kernel,) = launch._known_of(product.tile()).compiled.values()
    source = kernel.source
    count = len(source.maps) + sum(1 + len(shapes[n]) for n in source.direct) + len(source.dims)
    lines = run(tmp_path, "product", "4096, 8192, 16384", count)
    assert lines[:3] == ["load product.cubin", "get product", f"shared {source.shared_bytes}"]
    # the same through the launcher of calls, whose driver records too
    pointers = {"a": 4096, "b": 8192, "out": 16384}
    given = {n: launch.DeviceTensor(p, shapes[n], (shapes[n][1], 1)) for n, p in pointers.items()}
    kernel.launch(given, {"M": 256, "N": 384, "K": 512}, {}, stream=77)
    entry = gpu.launches[-1]
    assert (entry.threads, entry.shared_bytes, entry.stream) == (source.threads, source.shared_bytes, 77)
    words = " ".join(str(w & 0xFFFFFFFF) for w in entry.words)
    assert lines[-1] == f"launch {entry.blocks} x {entry.threads}, {entry.shared_bytes} bytes, stream 77: {words}"
    maps = [line for line in lines if line.startswith("map ")]
    assert len(maps) == len(source.maps)
    for line, (_, spec) in zip(maps, source.maps, strict=True):
        rows, columns = shapes[spec.tensor]
        swizzle = {0: 0, 32: 1, 64: 2, 128: 3}[spec.swizzle_bytes]
        boxes = f"{columns}/0/{spec.box[0]} {rows}/{2 * columns}/{spec.box[1]}"
        wanted = f"type 6 swizzle {swizzle} fetch {spec.fetch_bytes}: {boxes}"
        assert line == f"map {given[spec.tensor].pointer} {wanted}"


@needs_cc
def test_scalars_and_targets_of_atomics(tmp_path):
    x = np.zeros((64, 128), np.float32)
    scaled.export(tmp_path / "scaled", x, 2.0)
    header = (tmp_path / "scaled" / "scaled.h").read_text()
    assert "float by" in header and "x: f32[64, 128] (M, N), strides 128, 1, read" in header
    summed.export(tmp_path / "summed", x)
    from threadloom.targets.cuda import launch

    source = list(launch._known_of(summed.tile()).compiled.values())[-1].source
    count = len(source.maps) + sum(1 + (2 if n == "x" else 1) for n in source.direct) + len(source.dims)
    lines = run(tmp_path / "summed", "summed", "4096, 8192", count)
    assert "clear 8192 512" in lines


@needs_cc
def test_headers_compile_with_nvidias_cuda_h(tmp_path):
    places = [*Path("/usr/local").glob("cuda*/include"), *Path(np.__file__).parents[1].glob("nvidia/*/include")]
    include = next((p for p in places if (p / "cuda.h").exists()), None)
    if include is None:
        pytest.skip("no cuda.h here")
    product.export(tmp_path, np.zeros((256, 512), np.float16), np.zeros((512, 384), np.float16))
    (tmp_path / "main.c").write_text(HOST.format(name="product", arguments="0, 0, 0"))
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-I", str(include), "-I", str(tmp_path)]
    subprocess.run([CC, *flags, "-c", "main.c"], cwd=tmp_path, check=True)


@pytest.mark.slow
def test_from_the_command_line(tmp_path, capsys, monkeypatch):
    from threadloom import cli

    monkeypatch.chdir(tmp_path)
    assert cli.main(["export", "softmax", "--shape", "M=256,N=512", "--dtype", "bf16", "--to", "here"]) == 0
    names = [Path(line).name for line in capsys.readouterr().out.splitlines()]
    assert names == ["softmax.cubin", "softmax.h", "softmax.cu"]
    assert "bf16[256, 512]" in (tmp_path / "here" / "softmax.h").read_text()
    assert cli.main(["export", "softmax", "--device", "mi300x"]) == 1
