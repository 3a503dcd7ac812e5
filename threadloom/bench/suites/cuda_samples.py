"""NVIDIA's CUDA samples, 0_Introduction to 6_Performance."""

from __future__ import annotations

import json
import re
from functools import partial
from pathlib import Path

from threadloom.bench.suites.process import Outcome
from threadloom.bench.suites.program import (
    PASS,
    RAN,
    WAIVED,
    Edits,
    Program,
    judge_by_output,
    make_smaller,
    shown_edits,
)

ABOUT = (
    "The CUDA samples of `0_Introduction` to `6_Performance`: the sources that each "
    "`CMakeLists.txt` names, compiled by `loom-nvcc` with `Common` as include folder, run with the arguments of"
    " the repository's `test_args.json`. Where sizes are constants of the source, the copy that is built has smaller "
    "ones, and the row's command says which. Samples that need a window system, another vendor library or an "
    "operating system that is not Linux are listed as waived. Build times are CPU seconds, run times are of a "
    "shared machine, no measurement."
)
CHAPTERS = range(7)
_NEEDS = (
    (r"OpenGL|GLUT|GLEW|freeglut|GLFW", "OpenGL"),
    (r"[Vv]ulkan", "Vulkan"),
    (r"d3d\d|dxgi|D3D", "Direct3D"),
    (r"\bEGL|egl", "EGL"),
    (r"find_package\(MPI", "MPI"),
    (r"NvSci|nvsci", "NvSci"),
    (r"FreeImage|npp[a-z]*", "NPP and FreeImage"),
    (r"nvjpeg", "nvJPEG"),
    (r"cufft", "cuFFT"),
    (r"cusolver", "cuSOLVER"),
    (r"cusparse", "cuSPARSE"),
    (r"nvJitLink|nvptxcompiler", "nvJitLink"),
    (r"nvrtc", "NVRTC"),
)
# Smaller than a GPU needs: arguments of the program itself.
_ARGUMENTS = {
    "matrixMul": "-wA=128 -hA=128 -wB=128 -hB=128",
    "nbody": "-benchmark -compare -cpu -numbodies=1024 -i=2",
    "reduction": "--n=1048576",
    "FDTD3d": "--dimx=64 --dimy=64 --dimz=64 --timesteps=2",
    "transpose": "-dimX=256 -dimY=256",
    "alignedTypes": "",
    "simpleStreams": "",
}


# Problems that a GPU does in seconds; the tensor core samples get as many tiles as a block of them has.
SMALLER: dict[str, Edits] = {
    name: tuple((f"{name}.cu", f"{axis}_TILES {tiles}", f"{axis}_TILES {few}") for axis in "MNK")
    for name, tiles, few in (
        ("bf16TensorCoreGemm", 512, 8),
        ("cudaTensorCoreGemm", 256, 8),
        ("dmmaTensorCoreGemm", 1024, 16),
        ("immaTensorCoreGemm", 256, 8),
        ("tf32TensorCoreGemm", 512, 8),
    )
} | {
    "graphMemoryFootprint": (("graphMemoryFootprint.cu", "kernelTime            = 5", "kernelTime            = 0"),),
    "UnifiedMemoryPerf": (
        ("matrixMultiplyPerf.cu", "maxSampleSizeInMb = 64", "maxSampleSizeInMb = 1"),
        ("matrixMultiplyPerf.cu", "numKernelRuns     = 20", "numKernelRuns     = 2"),
    ),
    "convolutionTexture": (
        ("main.cpp", "imageW     = 3072", "imageW     = 768"),
        ("main.cpp", "imageH     = 3072 / 2", "imageH     = 384"),
    ),
}


def programs(checkout: Path) -> list[Program]:
    arguments = json.loads((checkout / "test_args.json").read_text())
    found = []
    for chapter in sorted((checkout / "Samples").iterdir()):
        if chapter.name[:1].isdigit() and int(chapter.name[0]) in CHAPTERS:
            found += [
                _program(s, checkout, arguments) for s in sorted(chapter.iterdir()) if (s / "CMakeLists.txt").exists()
            ]
    return found


def _program(sample: Path, checkout: Path, arguments: dict) -> Program:
    rules = re.sub(r"#.*", "", (sample / "CMakeLists.txt").read_text())
    folder = str(sample.relative_to(checkout))
    added = re.findall(r"add_executable\(\s*(\S+)\s+([^)]*)\)", rules)
    if not added:
        return Program(sample.name, folder, (), (), left_out="builds no program here")
    if need := next((what for pattern, what in _NEEDS if re.search(pattern, rules)), None):
        return Program(sample.name, folder, (), (), left_out=f"needs {need}")
    name, sources = added[0]
    files = [word for word in sources.replace('"', " ").split() if word.endswith((".cu", ".cpp", ".c", ".cc"))]
    listed = re.findall(r"set\((\w+)\s+([^)]*)\)", rules)
    for variable, value in listed:
        if f"${{{variable}}}" in sources:
            files += [word for word in value.split() if word.endswith((".cu", ".cpp", ".c", ".cc"))]
    relocatable = (
        "-rdc=true"
        if "CUDA_SEPARABLE_COMPILATION ON" in rules and len([f for f in files if f.endswith(".cu")]) > 1
        else ""
    )
    openmp = "-Xcompiler -fopenmp" if "OpenMP" in rules else ""
    blas = "-lcublas" if "cublas" in rules else ""
    flags = f"-std=c++17 -arch=sm_80 --extended-lambda {relocatable} {openmp} -I../../../Common -I. -Iinc"
    checked = "-DCPU_DEBUG=1" if "TensorCoreGemm" in sample.name else ""  # those compare with the host only then
    builds = [f"loom-nvcc {flags} {checked} {' '.join(files)} -o {name} {blas}"]
    for kind, image in re.findall(r"set\(CUDA_(FATBIN|PTX)_FILE \S*/([^/\"\s]+)\"?\)", rules):
        source = re.search(r"set\(CUDA_KERNEL_SOURCE \S*/([^/\"\s]+)\"?\)", rules)[1]
        builds.append(f"loom-nvcc -{kind.lower()} -I../../../Common {source} -o {image}")
    edits = SMALLER.get(sample.name, ())
    return Program(
        sample.name,
        folder,
        tuple(" ".join(build.split()) for build in builds),
        _runs(name, sample.name, arguments),
        _judge,
        partial(make_smaller, edits),
        changed=shown_edits(edits),
    )


def _runs(name: str, sample: str, arguments: dict) -> tuple[str, ...]:
    if sample in _ARGUMENTS:
        return (f"./{name} {_ARGUMENTS[sample]}".strip(),)
    given = arguments.get(sample, {})
    runs = given.get("runs", [given]) if isinstance(given, dict) else [{}]
    return tuple(f"./{name} {' '.join(run.get('args', []))}".strip() for run in runs)


EXIT_WAIVED = 2
# The outcome of a comparison as exit status: exit(same ? EXIT_SUCCESS : EXIT_FAILURE).
_VERDICT = re.compile(r"\?\s*EXIT_SUCCESS\s*:\s*EXIT_FAILURE")

# They compare, and print only what differs (or a process of theirs fails).
_SILENT = r"MC_\w+|memMapIPCDrv|simpleIPC|streamOrderedAllocationIPC|\w+TensorCoreGemm"


def _judge(folder: Path, outcomes: list[Outcome]) -> tuple[str, str]:
    last = outcomes[-1]
    if last.status == EXIT_WAIVED and not last.stopped:
        lines = [line.strip() for line in last.output.splitlines() if line.strip()]
        return WAIVED, lines[-1][:160] if lines else "exit status 2"
    result, cause = judge_by_output(folder, outcomes)
    if result == RAN and re.fullmatch(_SILENT, folder.name):
        return PASS, "it says what is wrong, or ends with a failure, and does not"
    sources = [path for path in folder.rglob("*") if path.suffix in (".cu", ".cpp")]
    if result == RAN and any(_VERDICT.search(path.read_text(errors="replace")) for path in sources):
        return PASS, "its comparison is its exit status, 0"
    return result, cause
