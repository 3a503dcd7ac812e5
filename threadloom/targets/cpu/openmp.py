"""The OpenMP runtime of this process: found once, and never a second one beside one that is loaded already.

Emitted code needs four entry points, which every runtime has: GOMP_parallel, omp_get_thread_num,
omp_get_num_threads and omp_get_max_threads. A runtime with only kmpc entry points gets a GOMP_parallel from
`KMPC_ADAPTER`; a machine without any runtime gets `SERIAL`.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path

from threadloom import env
from threadloom.errors import CompileError, slug

NOT_LOADABLE = slug(
    "openmp-not-loadable", "the OpenMP runtime named by LOOM_OPENMP cannot be loaded or lacks entry points"
)
ENTRY_POINTS = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads", "omp_get_max_threads")
_NAMES = ("libgomp", "libiomp5", "libomp")

SERIAL = """
define exported void @GOMP_parallel(ptr %work, ptr %context, i32 %threads, i32 %flags) {
  call void %work(ptr %context)
  return
}
define exported i32 @omp_get_thread_num() {
  return i32 0
}
define exported i32 @omp_get_num_threads() {
  return i32 1
}
define exported i32 @omp_get_max_threads() {
  return i32 1
}
"""

# __kmpc_fork_call(location, argc, microtask, ...) calls microtask(&global number, &bound number, arguments...).
KMPC_ADAPTER = """
@loom.source = internal constant [23 x i8] c";unknown;unknown;0;0;;\\00"
@loom.location = internal constant { i32, i32, i32, i32, ptr } { i32 0, i32 2, i32 0, i32 22, ptr @loom.source }
declare i32 @__kmpc_global_thread_num(ptr)
declare void @__kmpc_push_num_threads(ptr, i32, i32)
declare void @__kmpc_fork_call(ptr, i32, ptr, ...)
define void @loom.microtask(ptr %global, ptr %bound, ptr %work, ptr %context) {
  call void %work(ptr %context)
  return
}
define exported void @GOMP_parallel(ptr %work, ptr %context, i32 %threads, i32 %flags) {
  %self = call i32 @__kmpc_global_thread_num(ptr @loom.location)
  call void @__kmpc_push_num_threads(ptr @loom.location, i32 %self, i32 %threads)
  call void @__kmpc_fork_call(ptr @loom.location, i32 2, ptr @loom.microtask, ptr %work, ptr %context)
  return
}
"""


@dataclass(frozen=True, slots=True)
class Runtime:
    """`path` is empty for the serial stand-in; `adapter` is par text that supplies what the library lacks."""

    path: str
    addresses: tuple[tuple[str, int], ...]
    adapter: str = ""


@lru_cache(maxsize=1)
def runtime() -> Runtime:
    """The one runtime that this process uses."""
    if named := env.read("LOOM_OPENMP"):
        found = _open(named)
        if found is None:
            raise CompileError(NOT_LOADABLE, f"LOOM_OPENMP={named} is no usable OpenMP runtime",
                               why="it does not load, or has neither GOMP_parallel nor __kmpc_fork_call")  # fmt: skip
        return found
    for path in chain(loaded_libraries(), _installed_libraries()):
        if (found := _open(path)) is not None:
            return found
    return Runtime("", (), SERIAL)


def loaded_libraries() -> list[str]:
    """OpenMP runtimes already in this process, torch's for example, in the order they lie in memory."""
    try:
        maps = Path("/proc/self/maps").read_text()
    except OSError:
        return []
    paths = [line.split(maxsplit=5)[5] for line in maps.splitlines() if line.count(" ") >= 5 and "/" in line]
    return list(dict.fromkeys(path for path in paths if Path(path).name.startswith(_NAMES)))


def _installed_libraries() -> Iterator[str]:
    """cmeel-libomp's, then the system's; one by one, for `find_library` starts a linker (0.2 CPU seconds each)."""
    suffix = "dylib" if sys.platform == "darwin" else "so"
    wheels = (Path(folder) / "cmeel.prefix" / "lib" / f"libomp.{suffix}" for folder in sys.path if folder)
    yield from (str(path) for path in wheels if path.exists())
    named = (ctypes.util.find_library(name) for name in ("gomp", "omp", "iomp5"))
    yield from (name for name in named if name)
    yield from ("libgomp.so.1", "libomp.so.5")


def _open(path: str) -> Runtime | None:
    try:
        library = ctypes.CDLL(path)
    except OSError:
        return None
    addresses = {name: _address(library, name) for name in ENTRY_POINTS}
    if all(addresses.values()):
        return Runtime(path, tuple(addresses.items()))
    kmpc = {name: _address(library, name) for name in
            ("__kmpc_fork_call", "__kmpc_global_thread_num", "__kmpc_push_num_threads")}  # fmt: skip
    del addresses["GOMP_parallel"]
    if all(kmpc.values()) and all(addresses.values()):
        return Runtime(path, tuple((addresses | kmpc).items()), KMPC_ADAPTER)
    return None


def _address(library: ctypes.CDLL, name: str) -> int:
    try:
        return ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0
    except AttributeError:
        return 0


_limit: ctypes.c_int | None = None


def limit_cell() -> ctypes.c_int:
    """The word that emitted code reads before it forks; starts as LOOM_THREADS."""
    global _limit
    if _limit is None:
        _limit = ctypes.c_int(env.threads())
    return _limit


def set_threads(count: int) -> None:
    """Use at most `count` workers from the next launch on; 0: as many as the runtime offers."""
    limit_cell().value = max(0, count)


def threads() -> int:
    return limit_cell().value
