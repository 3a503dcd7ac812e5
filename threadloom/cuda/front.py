"""CUDA source -> host IR and device IR, both as LLVM assembly at the host triple.

clang runs twice, at the same time: once as host compiler, once in its CUDA device mode but still at the host's triple,
so that structures, `long double` and the C library are the host's. Both runs keep their output as clang made it
(-disable-llvm-passes): GPU semantics must be restored before any pass (semantics.py).
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from threadloom.cuda import clang, precompiled, precompiled_prelude
from threadloom.cuda.nvcc_options import NO_INPUT
from threadloom.errors import CompileError, slug
from threadloom.source import Loc

CXX_ERROR = slug("cuda-source", "clang found an error in the CUDA source")

DYNAMIC_PARALLELISM = slug("cuda-dynamic-parallelism", "a kernel launches another kernel")

NVRTC = slug("cuda-nvrtc", "a program compiles CUDA C++ at run time by NVRTC")

HEADERS = Path(__file__).parent / "headers"
PRELUDE = HEADERS / "loom" / "prelude.h"

_CUDA_MODE = (
    "-x", "cuda", "--cuda-host-only", "-nocudainc", "-nocudalib", "-Wno-unknown-cuda-version",
    "-Xclang", "-fcuda-allow-variadic-functions", "-Xclang", "-target-sdk-version=11.8",
    "-Wno-reserved-user-defined-literal", "-Wno-inline-new-delete", "-Wno-register",
)  # fmt: skip
_RAW_IR = ("-O1", "-Xclang", "-disable-llvm-passes", "-emit-llvm", "-S", "-fno-discard-value-names", "-o", "-")
# Missing returns are no undefined behaviour on the device, float to integer saturates, no errno.
_DEVICE = (
    "-DLOOM_DEVICE_PASS", "-Xclang", "-fcuda-is-device", "-fno-strict-return", "-fno-math-errno",
    "-fno-strict-float-cast-overflow", "-ffp-contract=fast-honor-pragmas", "-fno-strict-aliasing", "-w",
)  # fmt: skip


# Without -O nvcc does not optimise host code, so programs are used to getting away with overflow and aliasing there.
_HOST = ("-fwrapv", "-fno-strict-aliasing")


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What of a compiler's command line concerns one translation unit."""

    includes: tuple[str, ...] = ()
    defines: tuple[str, ...] = ()  # -DNAME=VALUE -UNAME, whole
    standard: str = "c++17"
    arch: int = 750  # __CUDA_ARCH__
    debug: bool = False
    contract: bool = True  # fuse a*b+c, nvcc's -fmad
    relocatable: bool = False  # -rdc: device functions and variables may be defined in other files
    warnings: tuple[str, ...] = ("-w",)
    extra: tuple[str, ...] = ()  # passed on: -fPIC -m... of -Xcompiler
    host_only: tuple[str, ...] = ()  # -fopenmp
    cwd: str | None = None
    user_text: Callable[[bytes], bytes] | None = None  # changes what the user's own files say, once preprocessed


@dataclass(frozen=True, slots=True)
class FrontIr:
    """Both sides of one translation unit, and what clang warned about."""

    source: str
    host: str
    device: str
    warnings: str = field(default="", compare=False)


def cuda_mode_flags(options: SourceOptions) -> list[str]:
    """What both passes, the preprocessor and the dependency scan have in common."""
    includes = [word for path in options.includes for word in ("-I", path)]
    ours = ["-include", str(PRELUDE), f"-DLOOM_CUDA_ARCH={options.arch}"]
    flags = [*options.defines, f"-std={options.standard}", *options.extra]
    return [*_CUDA_MODE, *ours, *includes, "-isystem", str(HEADERS), *_openmp_header(), *flags]


def _openmp_header() -> list[str]:
    """omp.h of the OpenMP wheel, for host code on machines without a system one."""
    from threadloom.targets.cpu.openmp import runtime

    include = Path(runtime().path).parent.parent / "include"
    return ["-idirafter", str(include)] if (include / "omp.h").exists() else []


def compile_source(path: str, options: SourceOptions) -> FrontIr:
    """Run clang's two passes over the CUDA file `path`; errors in the source are CompileErrors with its place."""
    if not (Path(options.cwd or "") / path).is_file():
        raise CompileError(NO_INPUT, f"{path}: no such file")
    with clang_readable(path) as (source, include):
        host = [*include, *_common(options), *_HOST, *options.host_only, *options.warnings, source]
        device = [*include, *_common(options), *_device(options), source]
        with ThreadPoolExecutor(2) as pool:
            sides = (host, device)
            runs = [pool.submit(_compile_side, arguments, options.cwd, options.user_text) for arguments in sides]
            _load_the_rest()
            host_run, device_run = (run.result() for run in runs)
    for run in (host_run, device_run):
        if run.returncode:
            raise source_error(run.stderr, path)
    return FrontIr(path, host_run.stdout, device_run.stdout, host_run.stderr)


def compile_device(path: str, options: SourceOptions) -> str:
    """The device IR alone."""
    with clang_readable(path) as (source, include):
        run = _compile_side([*include, *_common(options), *_device(options), source], options.cwd, options.user_text)
    if run.returncode:
        raise source_error(run.stderr, path)
    return run.stdout


def _common(options: SourceOptions) -> list[str]:
    return [*cuda_mode_flags(options), "-g" if options.debug else "-gline-tables-only", *_RAW_IR]


def _device(options: SourceOptions) -> tuple[str, ...]:
    return _DEVICE if options.contract else (*_DEVICE, "-ffp-contract=off")


def _load_the_rest() -> None:
    """What comes after clang takes half a second to import: as long as clang runs."""
    import llvmlite.binding  # noqa: F401

    from threadloom.cuda import compile_unit, link_host  # noqa: F401
    from threadloom.cuda.lower import pipeline  # noqa: F401
    from threadloom.cuda.optimize import pipeline as optimize  # noqa: F401
    from threadloom.targets.cpu import emit, jit  # noqa: F401


def _compile_side(
    arguments: list[str], cwd: str | None, user_text: Callable[[bytes], bytes] | None
) -> subprocess.CompletedProcess[str]:
    """One pass of clang. Where what clang cannot read stands in a header, the preprocessed text is changed instead;
    so it is where `user_text` changes something."""
    compiler = clang.find()
    run = None
    if user_text is None:
        run = precompiled_prelude.run(compiler, arguments, PRELUDE, cwd)
        if run.returncode == 0 or not (_UNREADABLE.search(run.stderr) or _MISSING_TEMPLATE.search(run.stderr)):
            return run
    *flags, source = arguments
    with tempfile.TemporaryDirectory(prefix="loom-") as folder:
        whole = Path(folder) / "whole.cu"
        options = [flag for flag in flags if flag not in ("-emit-llvm", "-S")]
        output = options.index("-o")
        done = compiler.run([*options[:output], "-E", "-o", str(whole), *options[output + 2 :], source], cwd)
        if done.returncode:
            return run or done
        text = whole.read_bytes()
        changed = _readable(text if user_text is None else change_user_text(text, user_text))
        prelude = options.index("-include")
        output = options.index("-o")
        plain = [*options[:prelude], *options[prelude + 2 : output], *options[output + 2 :], "-x", "cuda-cpp-output"]
        if user_text is not None:
            plain, changed = precompiled.use(compiler, plain, changed, HEADERS)
        for _ in range(_MOST_ROUNDS):
            changed = _with_template_keywords(changed, run.stderr if run else "")
            whole.write_bytes(changed)
            run = compiler.run([*plain, "-ferror-limit=0", "-emit-llvm", "-S", "-o", "-", str(whole)], cwd)
            if run.returncode == 0 or not _MISSING_TEMPLATE.search(run.stderr):
                break
        return run


# `vec_cast<T>::cast<n>(x)` in a template: nvcc reads it without the `template` that C++ wants before `cast`.
_MISSING_TEMPLATE = re.compile(
    r"^(.+?):(\d+):\d+: error: missing 'template' keyword prior to dependent template name '(\w+)'", re.MULTILINE
)
_MOST_ROUNDS = 5  # clang may see more of them once it knows that the first ones are templates


def _with_template_keywords(preprocessed: bytes, stderr: str) -> bytes:
    """`template` put before the names that clang's errors say, on the lines that line markers attribute to them."""
    wanted: dict[tuple[bytes, int], set[bytes]] = {}
    for file, line, name in _MISSING_TEMPLATE.findall(stderr):
        wanted.setdefault((file.encode(), int(line)), set()).add(name.encode())
    if not wanted:
        return preprocessed
    lines, file, number = preprocessed.split(b"\n"), b"", 0
    for index, line in enumerate(lines):
        if marker := _MARKED_LINE.match(line):
            file, number = marker[2], int(marker[1])
            continue
        for name in wanted.get((file, number), ()):
            lines[index] = re.sub(rb"(::|\.|->)\s*(" + name + rb"\s*<)", rb"\1template \2", lines[index])
        number += 1
    return b"\n".join(lines)


_MARKED_LINE = re.compile(rb'^# (\d+) "((?:[^"\\]|\\.)*)"')
_LINE_MARKER = re.compile(rb'^# \d+ "(?:[^"\\]|\\.)*"([ \d]*)$', re.MULTILINE)


def change_user_text(preprocessed: bytes, change: Callable[[bytes], bytes]) -> bytes:
    """`change` applied to what line markers attribute to the user's files, not to system headers (flag 3)."""
    parts, position, ours = [], 0, True
    for marker in _LINE_MARKER.finditer(preprocessed):
        piece = preprocessed[position : marker.start()]
        parts += [change(piece) if ours else piece, marker[0]]
        ours, position = b"3" not in marker[1].split(), marker.end()
    rest = preprocessed[position:]
    return b"".join([*parts, change(rest) if ours else rest])


_UNREADABLE = re.compile(r"invalid (?:output|input) constraint|expected expression|invalid % escape in inline assembly")
_FLOAT_CONSTRAINT = re.compile(rb'"([=+]?)[fd]"(?=\s*\()')
_SHORT_CONSTRAINT = re.compile(rb'"([=+]?)h"(?=\s*\()')
_ASM_STRINGS = re.compile(rb'\basm\s*(?:(?:__)?volatile(?:__)?\s*)?\(\s*(?:"(?:[^"\\\n]|\\.)*"\s*)+')
_SPECIAL_REGISTER = re.compile(rb"(?<!%)%(?=[a-z_]{2})")  # `%globaltimer`, where others write `%%globaltimer`
_SPACED_LAUNCH = re.compile(rb"<<[ \t]+<(?!<)|<[ \t]+<<|>>[ \t]+>(?!>)|>[ \t]+>>")
_SPACED_LAUNCH_OR_TEXT = re.compile(  # the latter stays: strings, characters (not 1'000), comments
    rb"(?=[<>R\"'/])(?:(?P<launch>" + _SPACED_LAUNCH.pattern + rb")"
    rb"""|R"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)"|"(?:[^"\\\n]|\\.)*"|(?<!\w)'(?:[^'\\\n]|\\.)*'|//[^\n]*|/\*.*?\*/)""",
    re.DOTALL,
)


def _without_spaces(match: re.Match[bytes]) -> bytes:
    return match[0].replace(b" ", b"").replace(b"\t", b"") if match["launch"] else match[0]


def _readable(text: bytes) -> bytes:
    fixed = _SPACED_LAUNCH_OR_TEXT.sub(_without_spaces, text) if _SPACED_LAUNCH.search(text) else text
    if b"asm" not in text:
        return fixed
    fixed = _ASM_STRINGS.sub(lambda match: _SPECIAL_REGISTER.sub(b"%%", match[0]), fixed)
    return _SHORT_CONSTRAINT.sub(rb'"\1r"', _FLOAT_CONSTRAINT.sub(rb'"\1x"', fixed))


@contextmanager
def clang_readable(path: str) -> Iterator[tuple[str, list[str]]]:
    """nvcc reads `<< <` as `<<<`, and `%clock` in PTX as `%%clock`, clang does not; PTX's constraints "f", "d", "h" are
    other registers here ("x", "r"). A source that has any of these is compiled as a copy with that changed.

    Yields the file to compile and the flags that keep its #includes and line numbers right.
    """
    try:
        text = Path(path).read_bytes()
    except OSError:
        text = b""  # clang says it better
    fixed = _readable(text)
    if fixed == text:
        yield path, []
        return
    with tempfile.TemporaryDirectory(prefix="loom-") as folder:
        copy = Path(folder) / Path(path).name
        copy.write_bytes(f'#line 1 "{path}"\n'.encode() + fixed)
        yield str(copy), ["-iquote", str(Path(path).parent)]


_DIAGNOSTIC = re.compile(r"^(.+?):(\d+):(\d+): (?:fatal )?error: (.*)$", re.MULTILINE)


def source_error(stderr: str, path: str) -> CompileError:
    """clang's first error as ours, the rest of its text behind it."""
    found = _DIAGNOSTIC.search(stderr)
    if found and "kernel launch from __device__" in found[4]:
        return CompileError(
            DYNAMIC_PARALLELISM,
            "a kernel is launched from device code",
            why="dynamic parallelism is not supported on this CPU",
            try_="launch it from the host, or call its body as a device function",
            loc=Loc(found[1], int(found[2]), int(found[3])),
        )
    if found and "NVRTC is not supported" in found[4]:
        place = re.search(r"^In file included from (.+):(\d+):$", stderr, re.MULTILINE)
        return CompileError(
            NVRTC,
            "nvrtc.h is included",
            why="there is no compiler at run time that a C++ program could call",
            try_="compile the kernel with the program, or call it from Python by threadloom.cuda.compile",
            loc=Loc(place[1], int(place[2])) if place else Loc(found[1], int(found[2]), int(found[3])),
        )
    if found is None:
        return CompileError(CXX_ERROR, f"clang failed on {path}: {stderr.strip()[:2000]}")
    others = len(_DIAGNOSTIC.findall(stderr)) - 1
    more = f" (and {others} more)" if others else ""
    loc = Loc(found[1], int(found[2]), int(found[3]))
    return CompileError(CXX_ERROR, found[4] + more, loc=loc, why=_notes(stderr))


def _notes(stderr: str) -> str:
    lines = [line for line in stderr.splitlines() if line.strip()]
    return "clang says\n" + "\n".join("    " + line for line in lines[:40])
