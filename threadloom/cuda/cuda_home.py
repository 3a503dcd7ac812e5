"""A directory that looks like a CUDA toolkit to Makefiles and CMake, made of links to what we have."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import tempfile
from pathlib import Path

from threadloom import env
from threadloom.cuda import runtime_library
from threadloom.cuda.front import HEADERS

VERSION = "12.8"
# Libraries whose functions are in libcudart here; build systems name them out of habit.
_STAND_INS = ("cuda", "cudadevrt", "nvToolsExt", "curand", "cublas", "cufft", "nvidia-ml", "nvrtc")


def make(force: bool = False) -> Path:
    """The root, made where it is not there yet."""
    runtime = runtime_library.folder()
    parts = f"{sys.executable} {HEADERS} {runtime} {VERSION}".encode() + Path(__file__).read_bytes()
    key = hashlib.sha256(parts).hexdigest()[:16]
    base = env.cache_folder() or Path(tempfile.mkdtemp(prefix="loom-"))
    root = base / "cuda-home" / key
    if root.exists() and not force:
        return root
    env.make_private(root.parent)
    work = Path(tempfile.mkdtemp(dir=root.parent, prefix="making-"))
    _fill(work, runtime)
    work.chmod(0o755)
    shutil.rmtree(root, ignore_errors=True)
    os.replace(work, root)
    return root


def _fill(root: Path, runtime: Path) -> None:
    (root / "bin").mkdir()
    nvcc = root / "bin" / "nvcc"
    package = Path(__file__).parent.parent.parent
    nvcc.write_text(
        "#!/bin/sh\n"
        f'PYTHONPATH="{package}${{PYTHONPATH:+:$PYTHONPATH}}" exec "{sys.executable}" -m threadloom.cli.nvcc "$@"\n'
    )
    nvcc.chmod(0o755)
    (root / "include").symlink_to(HEADERS)
    (root / "lib64").mkdir()
    # Linker scripts: what is linked then records the library's own path, so programs run without LD_LIBRARY_PATH.
    for name in ("cudart", *_STAND_INS):
        (root / "lib64" / f"lib{name}.so").write_text(f"INPUT({runtime / 'libcudart.so'})\n")
    if (runtime / "libcudart_static.a").exists():
        (root / "lib64" / "libcudart_static.a").symlink_to(runtime / "libcudart_static.a")
    (root / "lib").symlink_to("lib64")
    (root / "nvvm" / "libdevice").mkdir(parents=True)  # CMake takes the folder that has it for the library root
    (root / "bin" / "crt").mkdir()
    (root / "bin" / "crt" / "link.stub").touch()
    (root / "version.txt").write_text(f"CUDA Version {VERSION}\n")
    (root / "version.json").write_text(f'{{"cuda": {{"name": "CUDA SDK", "version": "{VERSION}.0"}}}}\n')
