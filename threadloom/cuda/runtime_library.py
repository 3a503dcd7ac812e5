"""Our CUDA runtime as a library: C++ sources in the package, compiled once per compiler into the user's cache.

cudart.o              what `loom cc` links into executables and shared libraries
libcudart_static.a    the same, for build systems (where an archiver is installed)
libcudart.so          for build systems that say -lcudart
symbols.map           the version of our functions' names in shared libraries
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from pathlib import Path

from threadloom import env
from threadloom.cuda import clang
from threadloom.cuda.front import HEADERS
from threadloom.errors import InternalError

SOURCES = Path(__file__).parent / "runtime"
# In a process into which something else brought NVIDIA's runtime (PyTorch for GPUs does), its functions would be taken
# for ours of the same names; those of a version are not. Libraries of ours still share one runtime.
_SYMBOLS = "THREADLOOM {\n  cu[A-Z]*; cuda*; cublas*; curand*; __cuda*; __loom_*;\n};\n"
_FLAGS = ("-std=c++17", "-O2", "-fPIC", "-fvisibility=default", "-w", "-I", str(HEADERS))


@lru_cache(maxsize=1)
def folder() -> Path:
    """The folder that holds the built libraries, building them where they are not there yet."""
    compiler = clang.find()
    base = env.cache_folder()
    parent = base / "cuda-runtime" if base else Path(tempfile.mkdtemp(prefix="loom-runtime-"))
    built = parent / _key(compiler)
    if not (built / "libcudart.so").exists():
        _build(built, compiler)
    return built


def static_object() -> Path:
    return folder() / "cudart.o"


def shared_flags() -> list[str]:
    """What the link of a shared library takes that has our runtime in it."""
    return [f"-Wl,--version-script={folder() / 'symbols.map'}"]


def _key(compiler: clang.Compiler) -> str:
    digest = hashlib.sha256(repr((compiler, _FLAGS, _SYMBOLS, _openmp_path())).encode())
    for path in sorted([*SOURCES.iterdir(), *(HEADERS / "loom").iterdir()]):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()[:20]


def _build(built: Path, compiler: clang.Compiler) -> None:
    """Compile beside the place and rename, so that two builders at once do no harm."""
    env.make_private(built.parent)
    work = Path(tempfile.mkdtemp(dir=built.parent, prefix="building-"))
    try:
        with ThreadPoolExecutor(2) as pool:
            objects = list(pool.map(lambda unit: _object(unit, work, compiler), _units(work)))
        whole = work / "cudart.o"
        _run(compiler, ["-r", "-nostdlib", "-o", str(whole), *map(str, objects), *link_flags(compiler)])
        _archive(work / "libcudart_static.a", whole)
        (work / "symbols.map").write_text(_SYMBOLS)
        shared = ["-shared", f"-Wl,--version-script={work / 'symbols.map'}", "-o", str(work / "libcudart.so")]
        _run(compiler, [*shared, str(whole), "-lm", "-lpthread", "-ldl", *link_flags(compiler)])
        os.replace(work, built)
    except OSError:
        if not (built / "libcudart.so").exists():
            raise
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _openmp_path() -> str:
    """The runtime that programs fall back to (see runtime/parallel.cpp)."""
    from threadloom.targets.cpu.openmp import runtime

    return runtime().path


def link_flags(compiler: clang.Compiler) -> list[str]:
    """What libstdc++ stands on, which clang of the karellen wheel would not take by itself, wherever it lies (it would
    leave programs that miss libunwind); a linker beside clang is its own."""
    if compiler.origin == "zig":
        return []
    command = shutil.which(compiler.command[0])
    linker = ["-fuse-ld=lld"] if command and (Path(command).parent / "ld.lld").exists() else []
    return [*linker, "-rtlib=libgcc", "-unwindlib=libgcc"]


def _units(work: Path) -> list[Path]:
    """The sources as three files: the headers of the standard library, which each file takes, cost most of the time.
    What checks a program uses names of its own."""
    sources = sorted(SOURCES.glob("*.cpp"))
    checking = [path for path in sources if path.stem.startswith("check")]
    others = [path for path in sources if path not in checking]
    units = []
    for name, part in (("first", others[::2]), ("second", others[1::2]), ("checking", checking)):
        units.append(work / f"{name}.cpp")
        units[-1].write_text("".join(f'#include "{path}"\n' for path in part))
    return units


def _object(source: Path, work: Path, compiler: clang.Compiler) -> Path:
    target = work / (source.stem + ".o")
    _run(compiler, [*_FLAGS, f'-DLOOM_OPENMP_PATH="{_openmp_path()}"', "-c", str(source), "-o", str(target)])
    return target


def _run(compiler: clang.Compiler, arguments: list[str]) -> None:
    run = compiler.run(arguments)
    if run.returncode:
        raise InternalError(f"our CUDA runtime does not build: {run.stderr[:2000]}")


def _archive(path: Path, member: Path) -> None:
    """For build systems that say -lcudart_static; `loom cc` links the object itself and needs no archiver."""
    if archiver := shutil.which("ar") or shutil.which("llvm-ar"):
        subprocess.run([archiver, "rcs", str(path), str(member)], check=True, capture_output=True)
