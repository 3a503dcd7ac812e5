"""Libraries of ours in a process that has NVIDIA's runtime as well, as that of PyTorch for GPUs has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from threadloom.cuda import clang

pytestmark = pytest.mark.clang

OTHER = """
int cudaMalloc(void **p, unsigned long n) { return 35; }  /* cudaErrorInsufficientDriver */
int cudaFree(void *p) { return 35; }
int cudaLaunchKernel(void) { return 35; }
int cudaGetLastError(void) { return 35; }
int cudaDeviceSynchronize(void) { return 35; }
"""
OURS = r"""
__global__ void fill(int *p) { p[threadIdx.x] = 7; }
extern "C" int *NAME_make() {
    int *p = nullptr;
    if (cudaMalloc(&p, 32 * sizeof(int))) return nullptr;
    fill<<<1, 32>>>(p);
    return cudaDeviceSynchronize() || cudaGetLastError() ? nullptr : p;
}
extern "C" int NAME_free(int *p) { return cudaFree(p); }
"""
USE = """
import ctypes, sys
other, first, second = (ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL) for path in sys.argv[1:])
first.first_make.restype = ctypes.POINTER(ctypes.c_int)
made = first.first_make()
print(made[31], second.second_free(made), second.second_free(made))
"""


def test_our_runtime_is_used_and_shared(tmp_path: Path):
    """Kernels run by ours, whatever else has functions of its names; memory of one library is freed by another."""
    (tmp_path / "other.c").write_text(OTHER)
    (tmp_path / "other.map").write_text("libcudart.so.13 { cuda*; };")
    script = f"-Wl,--version-script={tmp_path / 'other.map'}"
    libraries = [tmp_path / "other.so"]
    clang.find().run(["-x", "c", "-shared", "-nostdlib", "-fPIC", script, str(tmp_path / "other.c"),
                      "-o", str(libraries[0])])  # fmt: skip
    for name in ("first", "second"):
        source = tmp_path / f"{name}.cu"
        source.write_text(OURS.replace("NAME", name))
        libraries.append(source.with_suffix(".so"))
        command = ["-m", "threadloom", "cc", "-shared", "-Xcompiler", "-fPIC", str(source), "-o", str(libraries[-1])]
        subprocess.run([sys.executable, *command], check=True)
    done = subprocess.run([sys.executable, "-c", USE, *map(str, libraries)], capture_output=True, text=True)
    assert done.stdout.split() == ["7", "0", "1"], done.stderr  # freed once by the other library; not twice
