"""CUDA C++ text to machine code by NVRTC, with what its assembler says: registers, spills, warnings.

Works with no GPU and no driver. Results are cached by content.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources

from threadloom.errors import CompileError, InternalError, slug
from threadloom.targets.cuda.source_size import is_too_wide

NO_NVRTC = slug("no-nvrtc", "GPU code is asked for but NVRTC (extra `gpu`) is not installed")

# ptxas' words for "the products of this kernel run one by one": a plan that gets one of these is not what was planned.
SERIALISED = ("C7510", "C7511", "C7512", "C7514", "C7520")


@dataclass(frozen=True, slots=True)
class Cubin:
    """Machine code of one kernel. `registers` per thread at entry; `spill_bytes` loads plus stores."""

    code: bytes
    arch: str
    registers: int
    spill_bytes: int
    stack_bytes: int
    shared_bytes: int
    log: str

    @property
    def serialised(self) -> bool:
        """Whether ptxas serialised wgmma instructions."""
        return any(code in self.log for code in SERIALISED) or "serialized" in self.log


def header(name: str) -> str:
    """Text of one of our device headers."""
    return resources.files("threadloom.targets.cuda").joinpath("headers", name).read_text(encoding="utf-8")


@lru_cache(maxsize=8)
def functions_of(header_name: str) -> frozenset[str]:
    """Names of the device functions that a header and common.cuh define: generated code calls nothing else by them."""
    texts = header(header_name) + header("common.cuh")
    return frozenset(re.findall(r"(?:LOOM_DEVICE [\w ]*?[ *](?=\w+\()|LOOM_MMA\()(\w+)", texts))


def _headers_of(source: str) -> list[str]:
    """Names of our headers that `source` includes, and of what they include."""
    return ["common.cuh", *(h for h in ("sm90.cuh", "sm80.cuh") if f'"{h}"' in source)]


def _bindings():
    try:
        from cuda.bindings import nvrtc
    except ImportError as e:
        raise CompileError(
            NO_NVRTC, "compiling for a GPU needs NVRTC", why=str(e), try_="pip install 'threadloom[gpu]'"
        ) from e
    return nvrtc


@lru_cache(maxsize=1)
def version() -> tuple[int, int]:
    """NVRTC's version (major, minor); CompileError where it is not installed."""
    nvrtc = _bindings()
    try:
        _, major, minor = nvrtc.nvrtcVersion()
    except RuntimeError as e:  # the bindings are there but the library is not
        raise CompileError(
            NO_NVRTC, "NVRTC's library was not found", why=str(e), try_="pip install 'threadloom[gpu]'"
        ) from e
    return major, minor


def compile_source(source: str, arch: str, name: str = "kernel.cu", defines: tuple[str, ...] = ()) -> Cubin:
    """Compile `source` (which may include our headers by name) for `arch` ("sm_90a", "sm_80").

    A failure is ours, not the user's: InternalError with the compiler's log.
    """
    made = _compile(source, arch, name, defines)
    if made.registers:
        return made
    # NVRTC kept machine code of an earlier process and ran no assembler, so nothing was said of spills and serialised
    # products. (A comment more is no other text to it.)
    return _compile(source, arch, name, defines, ("--no-cache",))


def _compile(source: str, arch: str, name: str, defines: tuple[str, ...], more: tuple[str, ...] = ()) -> Cubin:
    version()
    nvrtc = _bindings()
    headers = _headers_of(source)
    texts = [header(h).encode() for h in headers]
    names = [h.encode() for h in headers]
    _, program = nvrtc.nvrtcCreateProgram(source.encode(), name.encode(), len(texts), texts, names)
    options = [f"--gpu-architecture={arch}", "-std=c++17", "--ptxas-options=-v", "-lineinfo"]
    options.append("--diag-suppress=177")  # a variable that is never read: the compiler removes it
    options.append("--diag-suppress=780")  # a parameter called like a loop variable before it, which is over
    if is_too_wide(source):
        options.append("--Ofast-compile=mid")
    options += [*(f"-D{d}" for d in defines), *more]
    (result,) = nvrtc.nvrtcCompileProgram(program, len(options), [o.encode() for o in options])
    log = _log(nvrtc, program)
    if result != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise InternalError(f"generated CUDA code does not compile:\n{log}")
    _, size = nvrtc.nvrtcGetCUBINSize(program)
    code = bytearray(size)
    buffer = bytes(code)
    nvrtc.nvrtcGetCUBIN(program, buffer)
    nvrtc.nvrtcDestroyProgram(program)
    return Cubin(buffer, arch, *_resources(log), log)


def _log(nvrtc, program) -> str:
    _, size = nvrtc.nvrtcGetProgramLogSize(program)
    text = bytes(size + 2)  # written in place, so never one of Python's shared objects, which b" " is
    nvrtc.nvrtcGetProgramLog(program, text)
    return text.rstrip(b"\x00 ").decode(errors="replace")


def _resources(log: str) -> tuple[int, int, int, int]:
    def number(pattern: str) -> int:
        return sum(int(x) for x in re.findall(pattern, log))

    spills = number(r"(\d+) bytes spill stores") + number(r"(\d+) bytes spill loads")
    return number(r"Used (\d+) registers"), spills, number(r"(\d+) bytes stack frame"), number(r"(\d+) bytes smem")
