"""Generated kernels as machine code, read back: compiled once in a process, disassembled by NVIDIA's package."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sysconfig
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from threadloom.dtypes import ALL, numpy_dtype
from threadloom.lang.bind import Call
from threadloom.targets.cuda.compile import CudaKernel
from threadloom.targets.cuda.launch import device_tensors, kernel_for

FOLDER = Path(__file__).parents[3] / "threadloom" / "examples"
NAMES = sorted(p.stem for p in FOLDER.glob("*.py") if not p.stem.startswith("_"))


@cache
def disassembler() -> str:
    """nvdisasm of the package nvidia-cuda-nvdisasm, or the one on the PATH."""
    packaged = sorted(Path(sysconfig.get_paths()["purelib"]).glob("nvidia/cu*/bin/nvdisasm"))
    return str(packaged[-1]) if packaged else shutil.which("nvdisasm") or ""


def example_call(name: str, shape: dict[str, int], dtype: str = "f16", **choices: object) -> Call:
    module = importlib.import_module(f"threadloom.examples.{name}")
    arguments = module.inputs(np.random.default_rng(0), **shape, dtype=numpy_dtype(ALL[dtype]))
    return getattr(module, name).bind(**arguments, **choices)


@cache
def example(name: str, which: str = "", dtype: str = "f16") -> CudaKernel:
    """The example's kernel for its SHAPE, or for its first small one (`which` "small")."""
    module = importlib.import_module(f"threadloom.examples.{name}")
    call = example_call(name, module.SHAPES[0] if which == "small" else module.SHAPE, dtype)
    return kernel_for(call.kernel, call.dims, device_tensors(call.kernel, call.arrays))


@dataclass(frozen=True, slots=True)
class Sass:
    """Instructions of a kernel: `count("HGMMA")`."""

    text: str

    def count(self, name: str) -> int:
        return len(re.findall(rf"^\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?{name}\b", self.text, re.M))

    def budgets(self) -> list[int]:
        """Registers that roles ask for (setmaxnreg), in the order of the code."""
        return [int(n, 16) for n in re.findall(r"USETMAXREG\.[\w.]+\s+(?:UP\d+,\s*)?0x([0-9a-f]+)", self.text)]


def sass(kernel: CudaKernel, tmp_path: Path) -> Sass:
    if not disassembler():
        pytest.skip("nvdisasm is not installed")
    file = tmp_path / "kernel.cubin"
    file.write_bytes(kernel.cubin.code)
    done = subprocess.run([disassembler(), "-c", str(file)], capture_output=True, text=True, check=True)
    return Sass(done.stdout)
