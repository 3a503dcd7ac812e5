"""Which clang compiles CUDA C++, and how it is called.

Order of search: $LOOM_CLANG, clang++ of the karellen wheel in this environment, `zig clang` of the ziglang wheel,
clang++-N on PATH. A clang newer than llvmlite's LLVM writes assembly that llvmlite cannot read, so its major version
is limited.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from threadloom import env
from threadloom.errors import CompileError, slug

NO_CLANG = slug("cuda-no-clang", "no usable clang was found to compile CUDA C++")
BAD_CLANG = slug("cuda-bad-clang", "the clang that LOOM_CLANG names cannot be used")

OLDEST_MAJOR = 19
NEWEST_MAJOR = 22  # LLVM of llvmlite 0.50


@dataclass(frozen=True, slots=True)
class Compiler:
    """A clang driver: the command's first words, its major version, and the flags its kind always needs."""

    command: tuple[str, ...]
    major: int
    origin: str  # karellen, zig, system, LOOM_CLANG
    flags: tuple[str, ...] = ()

    def run(self, arguments: list[str], cwd: str | None = None) -> subprocess.CompletedProcess[str]:
        command = [*self.command, *self.flags, *arguments]
        return subprocess.run(command, capture_output=True, text=True, errors="replace", cwd=cwd, check=False)


@lru_cache(maxsize=1)
def find() -> Compiler:
    """The compiler to use here; CompileError `cuda-no-clang` says how to get one."""
    if named := env.read("LOOM_CLANG"):
        return _named(named)
    for candidate in (_karellen(), _zig(), *_system()):
        if candidate is not None and OLDEST_MAJOR <= candidate.major <= NEWEST_MAJOR:
            return candidate
    raise CompileError(NO_CLANG, "no clang that can compile CUDA C++ is installed",
                       try_="pip install 'threadloom[cuda-on-cpu]', or set LOOM_CLANG to a clang++ "
                            f"of version {OLDEST_MAJOR} to {NEWEST_MAJOR}")  # fmt: skip


def _named(command: str) -> Compiler:
    words = tuple(command.split())
    major = _major(words)
    if major is None:
        raise CompileError(BAD_CLANG, f"LOOM_CLANG={command} does not run or is no clang")
    if not OLDEST_MAJOR <= major <= NEWEST_MAJOR:
        raise CompileError(BAD_CLANG, f"LOOM_CLANG={command} is clang {major}",
                           why=f"its output must be readable by LLVM {NEWEST_MAJOR}",
                           try_=f"a clang of version {OLDEST_MAJOR} to {NEWEST_MAJOR}")  # fmt: skip
    return Compiler(words, major, "LOOM_CLANG", _host_library_flags())


def _major(command: tuple[str, ...]) -> int | None:
    try:
        run = subprocess.run([*command, "--version"], capture_output=True, text=True, check=False, timeout=60)
    except OSError:
        return None
    found = re.search(r"clang version (\d+)", run.stdout)
    return int(found[1]) if found else None


def _host_library_flags() -> tuple[str, ...]:
    return ("-stdlib=libstdc++",)


def _karellen() -> Compiler | None:
    """The wheel makes clang++ at the first start of Python after installation; its clang-22 is there at once."""
    folder = Path(sys.prefix) / "bin"
    path = folder / "clang++"
    if not path.exists():
        return None
    versioned = [int(p.name.removeprefix("clang-")) for p in folder.glob("clang-[0-9][0-9]")]
    major = versioned[0] if versioned else _major((str(path),))
    return Compiler((str(path),), major, "karellen", _host_library_flags()) if major else None


def _zig() -> Compiler | None:
    spec = importlib.util.find_spec("ziglang")
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(spec.submodule_search_locations[0])
    command = (str(folder / "zig"), "clang")
    major = _major(command)
    if major is None:
        return None
    machine = os.uname().machine
    libc = [f"{machine}-linux-gnu", "generic-glibc", f"{machine}-linux-any", "any-linux-any"]
    includes = ["libcxx/include", "libcxxabi/include", "include", *(f"libc/include/{name}" for name in libc)]
    flags = ["-nostdinc", "-nostdinc++", "-D_LIBCPP_ABI_VERSION=1", "-D_LIBCPP_ABI_NAMESPACE=__1",
             "-D_LIBCPP_HAS_LOCALIZATION=1", "-D_LIBCPP_HARDENING_MODE_DEFAULT=2"]  # fmt: skip
    for include in includes:
        flags += ["-isystem", str(folder / "lib" / include)]
    return Compiler(command, major, "zig", tuple(flags))


def _system() -> list[Compiler | None]:
    found = []
    for major in range(NEWEST_MAJOR, OLDEST_MAJOR - 1, -1):
        if path := shutil.which(f"clang++-{major}"):
            found.append(Compiler((path,), major, "system", _host_library_flags()))
    if (path := shutil.which("clang++")) and (major := _major((path,))):
        found.append(Compiler((path,), major, "system", _host_library_flags()))
    return found
