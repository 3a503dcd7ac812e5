"""Whole projects build unchanged: several files, separate compilation, Makefiles that link with g++, CMake."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from threadloom.cuda import build, nvcc_options
from threadloom.cuda.cuda_home import make

PROJECT = Path(__file__).parent / "project"


def loom_cc(*arguments: object) -> None:
    assert build.run(nvcc_options.parse([str(argument) for argument in arguments])) == 0


def assert_program_is_right(program: Path) -> None:
    done = subprocess.run([program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_one_command(tmp_path: Path) -> None:
    program = tmp_path / "program"
    files = [PROJECT / name for name in ("main.cu", "other.cu", "host.cpp")]
    loom_cc("-rdc=true", *files, "-o", program)
    assert_program_is_right(program)


@pytest.mark.slow
def test_objects_with_and_without_a_device_link(tmp_path: Path) -> None:
    for name in ("main", "other"):
        loom_cc("-dc", PROJECT / f"{name}.cu", "-o", tmp_path / f"{name}.o")
    loom_cc("-c", PROJECT / "host.cpp", "-o", tmp_path / "host.o")
    objects = [tmp_path / f"{name}.o" for name in ("main", "other", "host")]
    loom_cc(*objects, "-o", tmp_path / "direct")
    assert_program_is_right(tmp_path / "direct")
    loom_cc("-dlink", *objects[:2], "-o", tmp_path / "device.o")
    loom_cc(*objects, tmp_path / "device.o", "-o", tmp_path / "linked")
    assert_program_is_right(tmp_path / "linked")


@pytest.mark.slow
def test_makefile_that_links_with_gxx(tmp_path: Path) -> None:
    if shutil.which("make") is None or shutil.which("g++") is None:
        pytest.skip("needs make and g++")
    shutil.copytree(PROJECT, tmp_path / "project")
    command = ["make", "-s", f"CUDA_HOME={make()}"]
    subprocess.run(command, cwd=tmp_path / "project", check=True, capture_output=True, text=True, timeout=300)
    assert_program_is_right(tmp_path / "project" / "program")


@pytest.mark.slow
def test_cmake_project(tmp_path: Path) -> None:
    if shutil.which("cmake") is None:
        pytest.skip("needs cmake")
    home = make()
    configure = ["cmake", "-S", str(PROJECT), "-B", str(tmp_path), f"-DCMAKE_CUDA_COMPILER={home}/bin/nvcc",
                 f"-DCUDAToolkit_ROOT={home}"]  # the architecture is asked of the compiler  # fmt: skip
    for command in (configure, ["cmake", "--build", str(tmp_path)]):
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, env=dict(os.environ))
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert_program_is_right(tmp_path / "program")


@pytest.mark.slow
def test_shared_library_is_loaded_by_python(tmp_path: Path) -> None:
    import ctypes

    source = tmp_path / "scale.cu"
    source.write_text("""
__global__ void scale(float* x, float factor, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) x[i] *= factor;
}
extern "C" int scale_on_device(float* x, float factor, int n) {
  scale<<<(n + 63) / 64, 64>>>(x, factor, n);
  return cudaDeviceSynchronize();
}
""")
    library = tmp_path / "libscale.so"
    loom_cc("-shared", "-Xcompiler", "-fPIC", source, "-o", library)
    values = (ctypes.c_float * 100)(*range(100))
    assert ctypes.CDLL(str(library)).scale_on_device(values, ctypes.c_float(2.0), 100) == 0
    assert list(values) == [2.0 * i for i in range(100)]


@pytest.mark.slow
def test_debugger_stops_at_a_line_of_a_kernel(tmp_path: Path) -> None:
    if shutil.which("gdb") is None:
        pytest.skip("needs gdb")
    source = PROJECT.parent / "vector_add.cu"
    number = next(n for n, line in enumerate(source.read_text().splitlines(), 1) if "a[i] + b[i]" in line)
    loom_cc("-g", source, "-o", tmp_path / "program")
    script = ["-ex", f"break {source.name}:{number}", "-ex", "run", "-ex", "backtrace 1"]
    done = subprocess.run(["gdb", "-batch", *script, str(tmp_path / "program")], capture_output=True, text=True,
                          timeout=120, check=False)  # fmt: skip
    assert f"{source.name}:{number}" in done.stdout.split("hit Breakpoint")[-1], done.stdout + done.stderr


MODULE = """
__device__ int offset = OFFSET;
struct Range { int from, to; };
extern "C" __global__ void shift(int* x, short by, Range range) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= range.from && i < range.to) x[i] += offset + by;
}
"""
LOADER = """
#include <cuda.h>
#include <cstdio>
#include <cstring>
#define DO(call) if (CUresult r = (call)) return printf("%s: %d\\n", #call, (int)r), 1
struct Range { int from, to; };
int main(int, char** files) {
  CUdevice device; CUcontext context; CUmodule modules[2];
  DO(cuInit(0)); DO(cuDeviceGet(&device, 0)); DO(cuCtxCreate(&context, 0, device));
  CUmemGenericAllocationHandle handle;
  CUmemAllocationProp properties = {};
  CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  size_t bytes;
  CUdeviceptr x;
  DO(cuMemGetAllocationGranularity(&bytes, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  DO(cuMemCreate(&handle, bytes, &properties, 0));
  DO(cuMemAddressReserve(&x, 2 * bytes, 0, 0, 0));
  for (int half = 0; half < 2; ++half) DO(cuMemMap(x + half * bytes, bytes, 0, handle, 0));
  DO(cuMemSetAccess(x, 2 * bytes, &access, 1));
  DO(cuMemRelease(handle));
  for (int i = 0; i < 2; ++i) {  // both modules have a kernel and a variable of the same names
    FILE* file = fopen(files[1 + i], "rb");
    static char image[1 << 22];
    image[fread(image, 1, sizeof image - 1, file)] = 0;
    CUlinkState state; void* linked; size_t size;
    DO(cuLinkCreate(0, nullptr, nullptr, &state));
    DO(cuLinkAddData(state, CU_JIT_INPUT_PTX, image, i ? strlen(image) + 1 : sizeof image, "it", 0, nullptr, nullptr));
    DO(cuLinkComplete(state, &linked, &size));
    DO(cuModuleLoadData(&modules[i], linked));
    DO(cuLinkDestroy(state));
  }
  for (int i = 0; i < 2; ++i) {
    CUfunction function; CUdeviceptr offset;
    DO(cuModuleGetFunction(&function, modules[i], "shift"));
    DO(cuModuleGetGlobal(&offset, &bytes, modules[i], "offset"));
    short by = 1; Range range = {2, 90};
    void* arguments[] = {&x, &by, &range};
    DO(cuLaunchKernel(function, 1, 1, 1, 100, 1, 1, 0, nullptr, arguments, nullptr));
    DO(cuMemsetD32(offset, 1000, 1));
    char buffer[24]; size_t used = 24;
    memcpy(buffer, &x, 8); memcpy(buffer + 8, &by, 2); memcpy(buffer + 16, &range, 8);
    void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &used, CU_LAUNCH_PARAM_END};
    DO(cuLaunchKernel(function, 1, 1, 1, 100, 1, 1, 0, nullptr, nullptr, extra));
  }
  int got[100];
  DO(cuMemcpyDtoH(got, x + (2u << 20), sizeof got));  // the same memory, mapped again
  int wanted = (3 + 1) + (5 + 1) + 2 * 1001;
  printf("%d %d %d %d\\n", got[1], got[2] - wanted, got[89] - wanted, got[90]);
  return got[1] || got[2] != wanted || got[89] != wanted || got[90];
}
"""


@pytest.mark.slow
def test_modules_are_loaded_by_the_driver_api(tmp_path: Path) -> None:
    (tmp_path / "module.cu").write_text(MODULE)
    (tmp_path / "loader.cpp").write_text(LOADER)
    loom_cc("-fatbin", "-DOFFSET=3", tmp_path / "module.cu", "-o", tmp_path / "three.fatbin")
    loom_cc("-ptx", "-DOFFSET=5", tmp_path / "module.cu", "-o", tmp_path / "five.ptx")
    loom_cc(tmp_path / "loader.cpp", "-o", tmp_path / "loader", "-lcuda")
    command = [tmp_path / "loader", tmp_path / "three.fatbin", tmp_path / "five.ptx"]
    done = subprocess.run(command, timeout=60, check=False)
    assert done.returncode == 0
