"""Every environment variable of ours, with its meaning. No other one is read; another one that is set is an error.

At most ten: what a program needs to say often belongs in an argument.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from threadloom.errors import CompileError, InternalError, slug

PREFIX = "LOOM_"
UNKNOWN = slug("unknown-variable", "an environment variable starts with LOOM_ but is none of ours")
BAD_VALUE = slug("bad-variable", "an environment variable of ours has a value that it cannot have")

MOST_SECONDS = 1_000_000  # a wait that the system can make


@dataclass(frozen=True, slots=True)
class Variable:
    name: str
    default: str
    meaning: str


VARIABLES: dict[str, Variable] = {
    variable.name: variable
    for variable in (
        Variable("LOOM_THREADS", "0", "CPU workers per parallel region; 0: what OpenMP says (OMP_NUM_THREADS, cores)"),
        Variable(
            "LOOM_CACHE", "", "folder of compiled code and measurements; default ~/.cache/threadloom, `off`: none"
        ),
        Variable("LOOM_CLANG", "", "path of the clang that CUDA C++ is compiled with"),
        Variable("LOOM_DUMP", "", "folder that gets every stage of every compiled kernel, numbered"),
        Variable("LOOM_PROFILE", "", "file that a CUDA program writes its kernels' times to when it ends"),
        Variable("LOOM_DEBUG", "0", "1: show tracebacks of our errors too"),
        Variable("LOOM_COMPILE_SECONDS", "60", "seconds after which a call gives up waiting for its compiler; 0: none"),
        Variable("LOOM_OPENMP", "", "path of the OpenMP runtime to use instead of the one that is found"),
        Variable("LOOM_CPU", "", "LLVM's name of the CPU that CUDA programs are compiled for; default: this machine's"),
    )
}


def read(name: str) -> str:
    """The value of one of our variables, or its default. Complains about variables that look like ours but are not."""
    if name not in VARIABLES:
        raise InternalError(f"{name} is not in the registry of environment variables")
    check()
    return os.environ.get(name, VARIABLES[name].default)


def check() -> None:
    """Refuse unknown `LOOM_*` variables: a typing mistake must not silently mean the default."""
    for name in os.environ:
        if name.startswith(PREFIX) and name not in VARIABLES:
            known = ", ".join(VARIABLES)
            raise CompileError(UNKNOWN, f"unknown environment variable {name}", try_=f"one of: {known}")


def threads() -> int:
    """LOOM_THREADS as a number; 0 leaves the choice to the runtime."""
    text = read("LOOM_THREADS")
    if not text.isdecimal() or int(text) > 4096:
        raise CompileError(BAD_VALUE, f"LOOM_THREADS is {text!r}", why="it is a number of workers from 0 to 4096")
    return int(text)


def compile_seconds() -> float:
    """LOOM_COMPILE_SECONDS as a number; 0: no limit."""
    text = read("LOOM_COMPILE_SECONDS")
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= MOST_SECONDS:
        why = f"it is a number from 0 to {MOST_SECONDS}"
        raise CompileError(BAD_VALUE, f"LOOM_COMPILE_SECONDS is {text!r}", why=why)
    return seconds


def cache_folder() -> Path | None:
    """Where compiled code is kept between runs; None if that is switched off."""
    text = read("LOOM_CACHE")
    if text == "off":
        return None
    if text:
        return Path(text).expanduser()
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "threadloom"


def make_private(folder: Path) -> None:
    """Make `folder`, and the cache folder around it, closed to others: what lies there is run as code later."""
    base = cache_folder()
    if base is not None and base in (folder, *folder.parents):
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
