"""Generated sm_80 kernels run on the CPU, by threadloom's own CUDA front end and emulated instructions."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np

from threadloom.cuda.lower.pipeline import OPTIONAL
from threadloom.targets.cuda.emit import KernelSource
from threadloom.targets.cuda.nvrtc import header
from threadloom.tile import ops as tile

EMULATED = Path(__file__).parent / "emulated.cuh"
BLOCKS = 3  # of a launch: fewer than tiles, so that blocks walk over several


def run_on_cpu(
    source: KernelSource,
    kernel: tile.Kernel,
    arrays: dict[str, np.ndarray],
    dims: dict[str, int],
    scalars: dict[str, float],
    edit: Callable[[str], str] = str,
) -> None:
    """Launch with BLOCKS blocks; outputs are written to `arrays` (contiguous, as given). `edit`: of the text. Shared
    memory is full of NaNs at first."""
    from threadloom import cuda

    begin = "const u32 smem = smem_address(raw);"
    fill = f"for (u32 i = threadIdx.x; i < {source.shared_bytes}; i += blockDim.x) raw[i] = 0xff;\n__syncthreads();"
    text = re.sub(r"#pragma unroll.*", "", edit(source.text)).replace(begin, f"{begin}\n{fill}")
    text = text.replace('#include "sm80.cuh"', _headers())
    program = cuda.compile(text, ["-O0", f"--without={','.join(OPTIONAL)}"])  # 256 threads a block, each run once
    args: list[object] = []
    for name in source.direct:
        array = arrays[name]
        args.append(_bits(array))
        args += [s // array.itemsize for s in array.strides]
    args += [dims[d] for d in source.dims] + [scalars[name] for name, _ in source.scalars]
    program[kernel.name](BLOCKS, source.threads, *args, shared_bytes=source.shared_bytes)


def _bits(array: np.ndarray) -> np.ndarray:
    """The array as the kernel's memory type sees it."""
    if array.dtype in (np.float32, np.float64, np.int32, np.int64, np.int8, np.uint8):
        return array
    return array.view({1: np.uint8, 2: np.uint16}[array.itemsize])


def _headers() -> str:
    """common.cuh and sm80.cuh, with the emulated functions in place of their own."""
    emulated = EMULATED.read_text()
    text = header("common.cuh") + header("sm80.cuh")
    text = text.replace("#pragma once", "").replace('#include "common.cuh"', "")
    text = re.sub(r"#define LOOM_MMA.*?#undef LOOM_MMA\n", "", text, flags=re.DOTALL)
    for name in sorted(set(re.findall(r"LOOM_DEVICE [\w* ]*?[ *](\w+)\(", emulated))):
        text = _without(text, name)
    head, mark, rest = text.partition("// ---------------------------------------------------------------- addresses")
    return f"#include <cuda_fp16.h>\n#define LOOM_BLOCKS {BLOCKS}\n{head}{emulated}{mark}{rest}"


def _without(text: str, name: str) -> str:
    """`text` without the definition of function `name` (and its template head)."""
    found = re.search(rf"^(?:template <[^>]*> )?LOOM_DEVICE [\w* ]*?[ *]{name}\(", text, flags=re.MULTILINE)
    if found is None:
        return text
    depth = 0
    for at in range(text.index("{", found.start()), len(text)):
        depth += (text[at] == "{") - (text[at] == "}")
        if depth == 0:
            return text[: found.start()] + text[at + 1 :]
    raise AssertionError(name)
