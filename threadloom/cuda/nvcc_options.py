"""nvcc's command line -> a plan of what to compile and link.

Every documented nvcc option is known: those that mean something here are honoured, those about GPU code generation are
accepted without effect (ACCEPTED), those whose output cannot exist (OptiX IR) are an error.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

from threadloom.errors import CompileError, slug

BAD_OPTION = slug("nvcc-option", "an option of nvcc is unknown, incomplete or asks for GPU output")
NO_INPUT = slug("nvcc-no-input", "no input file was given to loom cc")

# Long names, and the short ones they stand for.
_ALIASES = {
    "--output-file": "-o", "--compile": "-c", "--device-c": "-dc", "--device-w": "-dw", "--device-link": "-dlink",
    "--cuda": "-cuda", "--lib": "-lib", "--preprocess": "-E", "--include-path": "-I", "--system-include": "-isystem",
    "--define-macro": "-D", "--undefine-macro": "-U", "--pre-include": "-include", "--library": "-l",
    "--library-path": "-L", "--optimize": "-O", "--debug": "-g", "--device-debug": "-G", "--profile": "-pg",
    "--generate-line-info": "-lineinfo", "--std": "-std", "--relocatable-device-code": "-rdc",
    "--gpu-architecture": "-arch", "--gpu-code": "-code", "--generate-code": "-gencode",
    "--compiler-options": "-Xcompiler", "--linker-options": "-Xlinker", "--ptxas-options": "-Xptxas",
    "--nvlink-options": "-Xnvlink", "--archive-options": "-Xarchive", "--compiler-bindir": "-ccbin",
    "--use_fast_math": "-use_fast_math", "--disable-warnings": "-w", "--machine": "-m", "--verbose": "-v",
    "--dry-run": "-dryrun", "--dryrun": "-dryrun", "--version": "-V", "--help": "-h", "--cudart": "-cudart",
    "--maxrregcount": "-maxrregcount", "--shared": "-shared", "--x": "-x", "--language": "-x", "--ptx": "-ptx",
    "--cubin": "-cubin", "--fatbin": "-fatbin", "--run": "-run", "--threads": "-t", "--fmad": "-fmad", "--ftz": "-ftz",
    "--prec-div": "-prec-div", "--prec-sqrt": "-prec-sqrt", "--keep": "-keep", "--keep-dir": "-keep-dir",
    "--default-stream": "-default-stream", "--options-file": "-optf", "--output-directory": "-odir",
    "--resource-usage": "-res-usage", "--extra-device-vectorization": "-extra-device-vectorization",
    "--expt-relaxed-constexpr": "-expt-relaxed-constexpr", "--extended-lambda": "-extended-lambda",
    "--expt-extended-lambda": "-extended-lambda", "-expt-extended-lambda": "-extended-lambda",
    "--generate-dependencies": "-M", "--generate-nonsystem-dependencies": "-MM",
    "--generate-dependencies-with-compile": "-MD", "--generate-nonsystem-dependencies-with-compile": "-MMD",
    "--dependency-output": "-MF", "--dependency-target-name": "-MT", "--generate-dependency-targets": "-MP",
    "--forward-unknown-to-host-compiler": "-forward-unknown-to-host-compiler", "--Werror": "-Werror",
    "--diag-suppress": "-diag-suppress", "--display-error-number": "-err-no", "--cudafe-options": "-Xcudafe",
    "--no-fibers": "-no-fibers",
}  # fmt: skip
# Options that take a value, joined or as the next word.
_VALUED = frozenset(
    "-o -I -isystem -D -U -include -l -L -O -std -rdc -arch -code -gencode -Xcompiler -Xlinker -Xptxas -Xnvlink "
    "-Xarchive -Xcudafe -Xfatbin -ccbin -m -cudart -maxrregcount -x -t -fmad -ftz -prec-div -prec-sqrt -keep-dir "
    "-default-stream -optf -odir -MF -MT -MQ -Werror -diag-suppress -diag-warn -diag-error -dopt -split-compile "
    "-target-dir -idp -ddp -allow-unsupported-compiler -nvvmir-library-dir -without -launches".split()
)
_OPTIONAL_VALUE = frozenset({"-O", "-g", "-allow-unsupported-compiler", "-Werror"})  # value only when joined
# What has no meaning here: GPU code generation and nvcc's own housekeeping.
ACCEPTED = frozenset(
    "-code -Xptxas -Xnvlink -Xarchive -Xcudafe -Xfatbin -ccbin -cudart -maxrregcount -t -ftz -prec-div -prec-sqrt "
    "-keep -keep-dir -default-stream -Werror -diag-suppress -diag-warn -diag-error -dopt -split-compile "
    "-extra-device-vectorization -expt-relaxed-constexpr -extended-lambda -lineinfo -res-usage -use_fast_math -m -m64 "
    "-G -dlto -no-compress -err-no -forward-unknown-to-host-compiler -src-in-ptx -restrict -noeh -idp -ddp -target-dir "
    "-allow-unsupported-compiler -pg -forward-unknown-to-host-linker -forward-unknown-opts -nvvmir-library-dir "
    "-clean -no-align-double -Wno-deprecated-gpu-targets -Wreorder -Wdefault-stream-launch -Wmissing-launch-bounds "
    "-Wext-lambda-captures-this -compress-all -w".split()
)
MODULES = frozenset({"-ptx", "-cubin", "-fatbin"})  # what the driver API loads: runtime/modules.cpp
_GPU_OUTPUT = {"-optix-ir": "OptiX IR"}
SOURCES = {".cu": "cu", ".cuh": "cu", ".c": "c", ".cc": "c++", ".cpp": "c++", ".cxx": "c++", ".c++": "c++", ".C": "c++"}
OBJECTS = frozenset({".o", ".obj", ".a", ".so", ".lo"})


@dataclass
class NvccPlan:
    """What a command line asks for."""

    # link compile preprocess split-source dependencies device-link library version help, or module
    action: str = "link"
    module: str = ""  # -ptx, -cubin or -fatbin
    inputs: list[tuple[str, str]] = field(default_factory=list)  # (path, kind: cu c++ c object), in order
    output: str = ""
    includes: list[str] = field(default_factory=list)
    system_includes: list[str] = field(default_factory=list)
    defines: list[str] = field(default_factory=list)
    pre_includes: list[str] = field(default_factory=list)
    libraries: list[str] = field(default_factory=list)  # -lm -Lpath, in order
    link_flags: list[str] = field(default_factory=list)
    host_flags: list[str] = field(default_factory=list)  # of -Xcompiler
    standard: str = ""
    optimize: str = ""
    debug: bool = False
    debug_device: bool = False  # -G: kernels are not optimised, so that a debugger finds their variables
    shared: bool = False
    relocatable: bool = False
    contract: bool = True
    arch: int = 750
    verbose: bool = False
    dry_run: bool = False
    run: bool = False
    language: str = ""
    dependency_flags: list[str] = field(default_factory=list)
    output_directory: str = ""
    check: bool = False  # watch every access of kernels (loom check)
    without: tuple[str, ...] = ()  # passes that are left out, to see what each is worth
    fibers: bool = True  # False: kernels that may wait for other threads are an error
    launches: str = ""  # what a run under LOOM_PROFILE wrote: kernels get versions for its first launches


def parse(arguments: list[str]) -> NvccPlan:
    plan = NvccPlan()
    words = list(arguments)
    while words:
        word = words.pop(0)
        if word.startswith("@") and Path(word[1:]).is_file():
            words[:0] = shlex.split(Path(word[1:]).read_text())
        elif not word.startswith("-") or word == "-":
            _input(plan, word)
        else:
            _option(plan, *_split(word, words), words, word)
    return plan


def _input(plan: NvccPlan, path: str) -> None:
    suffix = Path(path).suffix
    if plan.language:
        kind = {"cu": "cu", "c++": "c++", "c": "c"}.get(plan.language, "cu")
    elif suffix in SOURCES:
        kind = SOURCES[suffix]
    elif suffix in OBJECTS or ".so." in Path(path).name:
        kind = "object"
    elif path == "__cmake_determine_cuda":  # CMake's question where the toolkit is; the answer is what -v prints
        kind = "cu"
    else:
        advice = "a name that ends in .cu .cpp .c .o .a or .so, or -x cu before it"
        if suffix == ".py":
            advice = "loom schedule, dump or run, which are for kernels in Python"
        raise CompileError(BAD_OPTION, f"{path}: what kind of file is this?", try_=advice)
    plan.inputs.append((path, kind))


def _split(word: str, words: list[str]) -> tuple[str, str]:
    """The option's short name and its value; takes the value from `words` where it is a word of its own."""
    name, equals, value = word.partition("=")
    name = _ALIASES.get(name, name)
    if name.startswith("--"):
        name = name[1:]
    if name in _VALUED or name in ACCEPTED or name in _GPU_OUTPUT or name in MODULES:
        if equals:
            return name, value
        if name not in _VALUED or name in _OPTIONAL_VALUE:
            return name, ""
        if not words:
            raise CompileError(BAD_OPTION, f"{word} needs a value behind it")
        return name, words.pop(0)
    for short in (
        "-isystem",
        "-include",
        "-Xcompiler",
        "-Xlinker",
        "-std",
        "-I",
        "-D",
        "-U",
        "-L",
        "-l",
        "-O",
        "-o",
        "-x",
        "-t",
    ):
        if word.startswith(short) and len(word) > len(short) and word not in _FLAGS:
            return short, word[len(short) :].removeprefix("=") if short in ("-std", "-Xcompiler", "-Xlinker") else word[
                len(short) :
            ]
    return name, value


_FLAGS = frozenset("-lineinfo -lib -dlink -dc -dw -dryrun -optf -odir -use_fast_math".split())

_ACTIONS = {
    "-dlink": "device-link",
    "-lib": "library",
    "-E": "preprocess",
    "-cuda": "split-source",  # nvcc's own intermediate file, which nobody can use here
    "-V": "version",
    "-h": "help",
}


def _option(plan: NvccPlan, name: str, value: str, words: list[str], word: str) -> None:
    """`name` and `value` of the option `word`; it may put `words` before those that follow."""
    match name:
        case "-o":
            plan.output = value
        case "-c" | "-dc" | "-dw":
            plan.action = "compile"
            plan.relocatable |= name == "-dc"
        case _ if name in _ACTIONS:
            plan.action = _ACTIONS[name]
        case "-M" | "-MM":
            plan.action = "dependencies"
            plan.dependency_flags.append(name)
        case "-MD" | "-MMD" | "-MP":
            plan.dependency_flags.append(name)
        case "-MF" | "-MT" | "-MQ":
            plan.dependency_flags += [name, value]
        case "-I":
            plan.includes += value.split(",")
        case "-isystem":
            plan.system_includes += value.split(",")
        case "-D" | "-U":
            plan.defines.append(name + value)
        case "-include":
            plan.pre_includes += value.split(",")
        case "-l" | "-L":
            plan.libraries += [name + part for part in value.split(",")]
        case "-Xlinker":
            plan.link_flags += [f"-Wl,{part}" for part in value.split(",")]
        case "-Xcompiler":
            for part in _host_options(value):
                _host_option(plan, part)
        case "-std":
            plan.standard = value
        case "-O":
            plan.optimize = value or "2"
        case "-g" | "-G":
            plan.debug = True
            plan.debug_device |= name == "-G"
        case "-arch" | "-gencode":
            plan.arch = max(_arch(value), plan.arch if plan.arch != 750 else 0) or plan.arch
        case "-rdc":
            plan.relocatable = value.lower() in ("true", "1", "yes")
        case "-fmad":
            plan.contract = value.lower() not in ("false", "0", "no")
        case "-shared":
            plan.shared = True
        case "-v":
            plan.verbose = True
        case "-dryrun":
            plan.dry_run = True
        case "-run":
            plan.run = True
        case "-x":
            plan.language = value
        case "-odir":
            plan.output_directory = value
        case "-without":
            plan.without = (*plan.without, *_optional_passes(value))
        case "-no-fibers":
            plan.fibers = False
        case "-launches":
            plan.launches = _readable(value)
        case "-optf":
            for file in value.split(","):
                words[:0] = shlex.split(Path(file).read_text())
        case _ if name in MODULES:
            plan.action, plan.module = "module", name
        case _ if name in _GPU_OUTPUT:
            raise CompileError(BAD_OPTION, f"{name} asks for {_GPU_OUTPUT[name]}", why="this compiler makes CPU code",
                               try_="-c for an object file, or `loom translate` for readable C++")  # fmt: skip
        case _ if name in ACCEPTED:
            pass
        case "-pthread" | "-fopenmp" | "-fPIC" | "-fpic" | "-static" | "-rdynamic":
            _host_option(plan, name)
        case _ if name.startswith(("-W", "-f", "-m")):
            _host_option(plan, name + (f"={value}" if value else ""))
        case _:
            unknown = word.partition("=")[0]
            raise CompileError(BAD_OPTION, f"unknown option {unknown}", try_="loom cc --help lists what is understood")


def _readable(path: str) -> str:
    if not Path(path).is_file():
        raise CompileError(BAD_OPTION, f"--launches={path}: no such file",
                           try_="LOOM_PROFILE=FILE ./program writes one")  # fmt: skip
    return path


def _optional_passes(value: str) -> list[str]:
    from threadloom.cuda.lower.pipeline import OPTIONAL

    names = [name for name in value.split(",") if name]
    if unknown := [name for name in names if name not in OPTIONAL]:
        raise CompileError(BAD_OPTION, f"--without={unknown[0]}: no pass of that name can be left out",
                           try_=f"one of {', '.join(OPTIONAL)}")  # fmt: skip
    return names


def _host_options(value: str) -> list[str]:
    """-Xcompiler takes a list with commas, possibly with quoted blanks inside."""
    text = value.strip("\"'")
    if text.startswith(("-Wl,", "-Wa,", "-Wp,")):
        return [text]
    return [part for word in text.split() for part in ([word] if word.startswith("-Wl,") else word.split(","))]


def _host_option(plan: NvccPlan, option: str) -> None:
    """An option for the host compiler: some are our business, the rest is passed on."""
    if option.startswith("-Wl,") or option in ("-static", "-rdynamic"):
        plan.link_flags.append(option)
    elif option.startswith(("-l", "-L")):
        plan.libraries.append(option)
    elif option.startswith("-O"):
        plan.optimize = plan.optimize or option[2:] or "2"
    elif option.startswith(("-D", "-U")):
        plan.defines.append(option)
    elif option.startswith("-std="):
        plan.standard = plan.standard or option[5:]
    elif option == "-g":
        plan.debug = True
    elif option and not option.startswith("/"):  # MSVC's
        plan.host_flags.append(option)


def _arch(value: str) -> int:
    """`sm_86`, `compute_80`, `arch=compute_70,code=sm_70`, `native`, `all` -> __CUDA_ARCH__ (0: as it was)."""
    numbers = [int(number) for number in re.findall(r"(?:sm|compute|lto)_(\d+)[af]?", value)]
    return max(numbers, default=0) * 10
