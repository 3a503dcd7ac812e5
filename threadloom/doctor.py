"""What this machine has, and what each missing piece would enable. Facts only; `loom doctor` prints them."""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass

from threadloom import env
from threadloom.errors import CompileError
from threadloom.machine.cpu import usable_cores


@dataclass(frozen=True, slots=True)
class Finding:
    """One piece: `detail` says what was found (or why not), `enables` what works with it, `get` how to have it.

    `required`: without it nothing works, so `loom doctor` fails.
    """

    name: str
    found: bool
    detail: str
    enables: str
    get: str
    required: bool = False


def examine() -> list[Finding]:
    """Look for every piece, in the order of the compiler's picture."""
    probes: tuple[Callable[[], Finding], ...] = (
        _python, _llvm, _openmp, _clang, _host_cxx, _islpy, _ortools, _torch, gpu_and_driver, _nvrtc, _store,
    )  # fmt: skip
    return [probe() for probe in probes]


# ---------------------------------------------------------------- what everything needs


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    return Finding("Python", True, f"{version}, {usable_cores()} cores usable", "everything", "", required=True)


def _llvm() -> Finding:
    enables, get = "code for this CPU", "pip install llvmlite==0.50.0"
    try:
        import llvmlite
        import llvmlite.binding as llvm
    except ImportError as error:
        return Finding("LLVM", False, str(error), enables, get, required=True)
    version = ".".join(map(str, llvm.llvm_version_info))
    features = llvm.get_host_cpu_features()
    simd = next((shown for key, shown in SIMD if features.get(key)), "no SIMD known here")
    detail = f"LLVM {version} in llvmlite {llvmlite.__version__}; {llvm.get_host_cpu_name()}, {simd}"
    return Finding("LLVM", True, detail, enables, get, required=True)


# LLVM's name of a feature -> what we say; the widest first.
SIMD = (
    ("amx-tile", "AMX and AVX-512"),
    ("avx512f", "AVX-512"),
    ("avx2", "AVX2"),
    ("sve", "SVE"),
    ("neon", "NEON"),
    ("sse2", "SSE2"),
)


def _openmp() -> Finding:
    from threadloom.targets.cpu import openmp

    enables, get = "all cores (without it kernels run on one)", "pip install cmeel-libomp"
    try:
        path = openmp.runtime().path
    except CompileError as error:
        return Finding("OpenMP", False, error.what, enables, get)
    return Finding("OpenMP", path != "", path or "no libomp, libiomp5 or libgomp loads", enables, get)


# ---------------------------------------------------------------- CUDA on the CPU


def _clang() -> Finding:
    from threadloom.cuda.clang import find

    enables, get = "CUDA C++ on the CPU", "pip install 'threadloom[cuda-on-cpu]'"
    try:
        compiler = find()
    except CompileError as error:
        return Finding("clang", False, error.what, enables, error.try_ or get)
    detail = f"{' '.join(compiler.command)}: clang {compiler.major} ({compiler.origin})"
    return Finding("clang", True, detail, enables, get)


def _host_cxx() -> Finding:
    enables = "the host side of CUDA programs (C and C++ headers, start files)"
    get = "apt install g++, or pip install ziglang"
    if (path := shutil.which("g++")) is not None:
        return Finding("C++ headers", True, f"{path}: {_first_line([path, '--version'])}", enables, get)
    if importlib.util.find_spec("ziglang") is not None:
        return Finding("C++ headers", True, f"ziglang {importlib.metadata.version('ziglang')}", enables, get)
    return Finding("C++ headers", False, "no g++ and no ziglang", enables, get)


def _islpy() -> Finding:
    return _package("islpy", "barrier elimination in CUDA kernels", "cuda-on-cpu")


def _ortools() -> Finding:
    return _package("ortools", "the `optimal` policy: proofs of how far greedy is from the best schedule", "optimal")


def _torch() -> Finding:
    return _package("torch", "kernels as PyTorch operators; comparisons in `loom bench`", "torch")


def _package(name: str, enables: str, extra: str) -> Finding:
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return Finding(name, False, "not installed", enables, f"pip install 'threadloom[{extra}]'")
    return Finding(name, True, version, enables, f"pip install 'threadloom[{extra}]'")


# ---------------------------------------------------------------- GPU


def gpu_and_driver() -> Finding:
    """Ask the driver itself, by its C interface: no package is needed for that."""
    enables, get = "kernels on an NVIDIA GPU", "an NVIDIA GPU and its driver"
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return Finding("GPU and driver", False, "no libcuda.so.1 (no NVIDIA driver)", enables, get)
    count, version = ctypes.c_int(), ctypes.c_int()
    if (status := driver.cuInit(0)) != 0 or (status := driver.cuDeviceGetCount(ctypes.byref(count))) != 0:
        return Finding("GPU and driver", False, f"the driver answers error {status}", enables, get)
    driver.cuDriverGetVersion(ctypes.byref(version))
    names = ", ".join(_gpu_name(driver, i) for i in range(count.value))
    cuda = f"{version.value // 1000}.{version.value % 1000 // 10}"
    return Finding("GPU and driver", count.value > 0, f"{names or 'no GPU'}; driver for CUDA {cuda}", enables, get)


def _gpu_name(driver: ctypes.CDLL, index: int) -> str:
    device, name = ctypes.c_int(), ctypes.create_string_buffer(128)
    driver.cuDeviceGet(ctypes.byref(device), index)
    driver.cuDeviceGetName(name, len(name), device)
    return name.value.decode()


def _nvrtc() -> Finding:
    enables, get = "compiling for a GPU (checked without one, run with one)", "pip install 'threadloom[gpu]'"
    try:
        version = importlib.metadata.version("nvidia-cuda-nvrtc")
    except importlib.metadata.PackageNotFoundError:
        path = next((p for p in ("libnvrtc.so.13", "libnvrtc.so.12") if _loads(p)), None)
        return Finding("NVRTC", path is not None, path or "not installed", enables, get)
    return Finding("NVRTC", True, version, enables, get)


# ---------------------------------------------------------------- what is stored


def _store() -> Finding:
    folder = env.cache_folder()
    enables, get = "tuned plans and compiled kernels kept between runs", "a writable folder; LOOM_CACHE names another"
    if folder is None:
        return Finding("store", False, "switched off by LOOM_CACHE=off", enables, "LOOM_CACHE unset")
    if not folder.exists():
        parent = next(p for p in folder.parents if p.exists())
        return Finding("store", os.access(parent, os.W_OK), f"{folder} (nothing stored yet)", enables, get)
    if not folder.is_dir():
        return Finding("store", False, f"{folder} is no folder", enables, get)
    size_bytes = sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())
    mode = folder.stat().st_mode & 0o777
    detail = f"{folder}, {size_bytes / 1e6:.1f} MB, mode {mode:04o}"
    return Finding("store", os.access(folder, os.W_OK), detail, enables, get)


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def _first_line(command: list[str]) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.partition("\n")[0] if done.returncode == 0 else None
