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
