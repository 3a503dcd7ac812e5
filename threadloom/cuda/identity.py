"""What code that is kept on disk was made by: all of the compiler that takes part, and what it was made for."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

from threadloom import env

PARTS = ("cuda", "par", "targets/cpu", "torch/headers")
SUFFIXES = (".py", ".h", ".cuh", ".def", ".cpp")


@lru_cache(maxsize=1)
def code_generator() -> str:
    """A digest of our sources and headers, the version of LLVM, the CPU, and the clang that LOOM_CLANG names. Another
    clang is not looked for: what is kept must load without one."""
    import llvmlite

    from threadloom.targets.cpu.host import target_cpu

    digest = hashlib.sha256(repr((llvmlite.__version__, target_cpu().target, env.read("LOOM_CLANG"))).encode())
    package = Path(__file__).parent.parent
    for part in PARTS:
        for path in sorted((package / part).rglob("*")):
            if path.suffix in SUFFIXES:
                digest.update(f"\0{path.relative_to(package)}\0".encode() + path.read_bytes())
    return digest.hexdigest()
