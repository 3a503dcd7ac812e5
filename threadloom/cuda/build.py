"""Carries out an nvcc command line: compile each input, then link, as `loom cc`, `loom-nvcc` and tests call it."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from threadloom.cuda import clang, runtime_library
from threadloom.cuda.front import HEADERS, SourceOptions
from threadloom.cuda.nvcc_options import NO_INPUT, NvccPlan
from threadloom.errors import CompileError, slug

if TYPE_CHECKING:  # it is loaded while clang runs (front.py)
    from threadloom.cuda.compile_unit import UnitOptions

LINK_ERROR = slug("cuda-link", "the linker failed")
HOST_ERROR = slug("cuda-host-compiler", "the host compiler failed on a C or C++ file")


def source_options(plan: NvccPlan) -> SourceOptions:
    extra = [f"-isystem{path}" for path in plan.system_includes]
    extra += [word for path in plan.pre_includes for word in ("-include", path)]
    extra += [flag for flag in _clang_flags(plan.host_flags) if flag != "-fopenmp"]
    host_only = ("-fopenmp",) if "-fopenmp" in plan.host_flags else ()
    # nvcc hands -O2 on to the host's compiler, which takes it for leave to tell arrays apart by their types.
    if plan.optimize in ("2", "3") and "-fno-strict-aliasing" not in plan.host_flags:
        host_only += ("-fstrict-aliasing",)
    warnings = ("-w",)
    return SourceOptions(
        tuple(plan.includes),
        tuple(plan.defines),
        plan.standard or "c++17",
        plan.arch,
        plan.debug,
        plan.contract,
        plan.relocatable,
        warnings,
        tuple(extra),
        host_only,
    )


def _clang_flags(flags: list[str]) -> list[str]:
    """Host compiler flags without those that only gcc knows."""
    gcc_only = ("-fno-gnu-unique", "-fcx-limited-range", "-fno-tree", "-frounding-math", "-mno-avx256")
    return [flag for flag in flags if not flag.startswith(gcc_only)]


def unit_options(plan: NvccPlan) -> UnitOptions:
    from threadloom.cuda.compile_unit import UnitOptions

    level = min(int(plan.optimize), 3) if plan.optimize.isdigit() else 3
    variables = plan.debug_device or (plan.debug and plan.optimize in ("", "0"))
    variables = variables and not plan.check
    return UnitOptions(source_options(plan), optimize=0 if variables else level, check=plan.check, without=plan.without,
                       launches=plan.launches, fibers=plan.fibers, variables=variables)  # fmt: skip


def run(plan: NvccPlan) -> int:
    """The exit status of what `plan` asks for."""
    if plan.verbose:
        _tell(plan)
    if not plan.inputs:
        raise CompileError(NO_INPUT, "no input files", try_="loom cc prog.cu -o prog")
    match plan.action:
        case "preprocess":
            return _preprocess(plan, ["-E"])
        case "split-source":
            return 0
        case "dependencies":
            return _preprocess(plan, [*plan.dependency_flags, "-E"])
        case "device-link":
            return _device_link_only(plan)
    with tempfile.TemporaryDirectory(prefix="loom-") as scratch:
        objects = _compile_all(plan, Path(scratch))
        if plan.action == "compile":
            return 0
        if plan.action == "library":
            return _library(plan, objects)
        if plan.action == "module":
            return _module(plan, objects[0], Path(scratch))
        output = plan.output or "a.out"
        link([*objects, *_device_link(objects, plan, Path(scratch))], output, plan)
        return subprocess.call([os.path.abspath(output)]) if plan.run else 0


def _tell(plan: NvccPlan) -> None:
    """What `nvcc -v` prints: CMake reads the toolkit's place, its folders and the host's link line from it."""
    from threadloom.cuda.cuda_home import make

    root = make()
    folder = f'"-L{root}/lib64"'
    lines = [
        f"TOP={root}",
        f"PATH={os.environ.get('PATH', '')}",
        f"LIBRARIES=  {folder}",
        f'INCLUDES="-I{root}/include"',
    ]
    if any(kind == "cu" for _, kind in plan.inputs):
        lines.append(f"cicc -arch compute_{plan.arch // 10}")
    if plan.action == "link":
        inputs = " ".join(f'"{path}"' for path, _ in plan.inputs)
        host = shutil.which("g++") or clang.find().command[0]
        lines.append(f'{host} -o "{plan.output or "a.out"}" {inputs} {folder} -lcudart_static -lpthread -ldl')
    # CMake takes "#$ " off lines that follow another one, so something has to stand first.
    print("\n".join(["threadloom compiles for this CPU", *(f"#$ {line}" for line in lines)]), file=sys.stderr)


def _compile_all(plan: NvccPlan, scratch: Path) -> list[str]:
    """Compile every source; objects pass through. The list keeps the order of the command line."""
    targets = [_object_path(plan, index, path, kind, scratch) for index, (path, kind) in enumerate(plan.inputs)]
    jobs = [(path, kind, target) for (path, kind), target in zip(plan.inputs, targets, strict=True) if kind != "object"]
    if len(jobs) <= 1:
        for job in jobs:
            _compile(plan, *job)
    else:
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda job: _compile(plan, *job), jobs))
    return targets


def _object_path(plan: NvccPlan, index: int, path: str, kind: str, scratch: Path) -> str:
    if kind == "object":
        return path
    if plan.action != "compile":
        return str(scratch / f"{index}.{Path(path).stem}.o")
    if plan.output:
        return plan.output
    return str(Path(plan.output_directory or ".") / (Path(path).stem + ".o"))


def _compile(plan: NvccPlan, path: str, kind: str, target: str) -> None:
    if not Path(path).exists():
        raise CompileError(NO_INPUT, f"{path}: no such file")
    if kind == "cu":
        from threadloom.cuda.compile_unit import compile_unit

        data = compile_unit(path, unit_options(plan), _dump_for(path))
        Path(target).write_bytes(data)
        if any(flag in ("-MD", "-MMD") for flag in plan.dependency_flags):
            _write_dependencies(plan, path, target)
    else:
        _compile_host(plan, path, kind, target)


def _dump_for(path: str) -> Callable[[str, str], None]:
    """With LOOM_DUMP, each stage of a unit goes to a numbered file of that folder."""
    from threadloom import env
    from threadloom.cuda.compile_unit import no_dump

    folder = env.read("LOOM_DUMP")
    if not folder:
        return no_dump
    place = Path(folder) / Path(path).stem
    place.mkdir(parents=True, exist_ok=True)
    count = iter(range(1000))

    def dump(name: str, text: str) -> None:
        (place / f"{next(count):02}-{name}").write_text(text)

    return dump


def _host_compiler(kind: str) -> list[str]:
    """gcc or g++ where they are installed (as nvcc does), else our clang; with zig everything must use its library."""
    compiler = clang.find()
    named = shutil.which("gcc" if kind == "c" else "g++")
    if named and compiler.origin != "zig":
        return [named]
    permissive = (
        ["-Wno-implicit-function-declaration", "-Wno-implicit-int", "-Wno-int-conversion"] if kind == "c" else []
    )
    return [*compiler.command, *compiler.flags, "-x", kind, *permissive]


def _compile_host(plan: NvccPlan, path: str, kind: str, target: str) -> None:
    command = [*_host_compiler(kind), "-c", path, "-o", target, "-fPIC", "-w", f"-O{plan.optimize or 2}"]
    command += [word for include in plan.includes for word in ("-I", include)]
    command += [f"-isystem{include}" for include in plan.system_includes] + ["-isystem", str(HEADERS)]
    command += [*plan.defines, *plan.host_flags, *plan.dependency_flags]
    command += [word for include in plan.pre_includes for word in ("-include", include)]
    if plan.standard and kind == "c++":
        command.append(f"-std={plan.standard}")
    if plan.debug:
        command.append("-g")
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        raise CompileError(HOST_ERROR, f"{Path(command[0]).name} failed on {path}\n{done.stderr.strip()[:4000]}")


def link(objects: list[str], output: str, plan: NvccPlan) -> None:
    """An executable or shared library from objects, our runtime and the OpenMP runtime."""
    compiler = clang.find()
    shared = ["-shared", *runtime_library.shared_flags()]
    kind = shared if plan.shared else [f"-Wl,--export-dynamic-symbol={name}" for name in _FOR_MODULES]
    command = [*kind, "-o", output, *objects, str(runtime_library.static_object()),
               *plan.link_flags, *_libraries(plan), "-lm", "-lpthread", "-ldl", "-lstdc++",
               *runtime_library.link_flags(compiler)]  # fmt: skip
    command += [flag for flag in plan.host_flags if flag in ("-pthread", "-m64")]
    done = compiler.run(command)
    if done.returncode:
        raise CompileError(LINK_ERROR, f"linking {output} failed\n{done.stderr.strip()[:4000]}")


# What modules that a program loads find in it.
_FOR_MODULES = ("__loom_*", "cuda*", "__cuda*")


def _module(plan: NvccPlan, compiled: str, scratch: Path) -> int:
    """-cubin, -fatbin: a shared library that uses the runtime of the program that loads it (runtime/modules.cpp).
    -ptx: the same as text, since programs read PTX as a string."""
    (source, _), *more = plan.inputs
    if more:
        raise CompileError(LINK_ERROR, f"{plan.module} makes one module of one file, and there are {len(plan.inputs)}")
    output = Path(plan.output or Path(source).stem + plan.module.replace("-", "."))
    library = scratch / "module.so"
    compiler = clang.find()
    own = "-Wl,-Bsymbolic"  # its kernels and variables are its own, whatever the program and other modules call theirs
    libraries = ["-lm", "-lstdc++", *runtime_library.link_flags(compiler)]
    done = compiler.run(["-shared", own, "-o", str(library), compiled, *libraries])
    if done.returncode:
        raise CompileError(LINK_ERROR, f"linking {output} failed\n{done.stderr.strip()[:4000]}")
    data = library.read_bytes()
    output.write_bytes(_MODULE_TEXT + base64.encodebytes(data) if plan.module == "-ptx" else data)
    return 0


_MODULE_TEXT = b"// threadloom module, base64\n"

# Libraries of CUDA whose functions are in our runtime, or that are not there: linking them is asked for out of habit.
CUDA_LIBRARIES = frozenset(
    {"-lcudart", "-lcudart_static", "-lcuda", "-lcudadevrt", "-lnvToolsExt", "-lcurand", "-lcublas", "-lnvidia-ml"}
)


def _libraries(plan: NvccPlan) -> list[str]:
    """The user's libraries. Host OpenMP is served by the runtime that kernels use, which has gcc's entry points too."""
    kept = [library for library in plan.libraries if library not in CUDA_LIBRARIES]
    wants_openmp = "-fopenmp" in plan.host_flags or {"-lgomp", "-lomp", "-liomp5"} & set(kept)
    kept = [library for library in kept if library not in ("-lgomp", "-lomp", "-liomp5")]
    return kept + (_openmp_flags() if wants_openmp else [])


def _openmp_flags() -> list[str]:
    from threadloom.targets.cpu.openmp import runtime

    path = runtime().path
    return [path, f"-Wl,-rpath,{Path(path).parent}"] if "/" in path else ["-lgomp"]


def _preprocess(plan: NvccPlan, flags: list[str]) -> int:
    from threadloom.cuda.front import cuda_mode_flags

    done = None
    for path, kind in plan.inputs:
        mode = cuda_mode_flags(source_options(plan)) if kind == "cu" else ["-isystem", str(HEADERS)]
        output = ["-o", plan.output] if plan.output else []
        done = clang.find().run([*mode, *flags, *output, path])
        sys.stdout.write(done.stdout)
        if done.returncode:
            from threadloom.cuda.front import source_error

            raise source_error(done.stderr, path)
    return 0


def _write_dependencies(plan: NvccPlan, path: str, target: str) -> None:
    from threadloom.cuda.front import cuda_mode_flags

    flags = [flag.replace("-MD", "-M").replace("-MMD", "-MM") for flag in plan.dependency_flags]
    if "-MF" not in flags:
        flags += ["-MF", str(Path(target).with_suffix(".d"))]
    if "-MT" not in flags and "-MQ" not in flags:
        flags += ["-MT", target]
    clang.find().run([*cuda_mode_flags(source_options(plan)), *flags, path])


def _library(plan: NvccPlan, objects: list[str]) -> int:
    archiver = shutil.which("ar") or shutil.which("llvm-ar")
    if archiver is None:
        raise CompileError(LINK_ERROR, "no archiver (ar) is installed for -lib")
    return subprocess.call([archiver, "rcs", plan.output or "a.a", *objects])


def _device_link(objects: list[str], plan: NvccPlan, folder: Path) -> list[str]:
    """The object with the device code of relocatable objects, where there are any (relocatable.py)."""
    from threadloom.cuda import relocatable

    archives = [str(path) for library in plan.libraries if (path := _static_library(library, plan))]
    parts = relocatable.device_parts([*objects, *archives])
    if not parts:
        return []
    target = folder / "device-linked.o"
    target.write_bytes(relocatable.link_device(parts, unit_options(plan), _dump_for("device-link")))
    return [str(target)]


def _static_library(library: str, plan: NvccPlan) -> Path | None:
    """The archive that `-lname` means, if it is one."""
    folders = [Path(flag[2:]) for flag in plan.libraries if flag.startswith("-L")]
    found = (folder / f"lib{library[2:]}.a" for folder in folders if library.startswith("-l"))
    return next((path for path in found if path.exists()), None)


def _device_link_only(plan: NvccPlan) -> int:
    """-dlink: an object with the device code of all inputs; an empty one where none is relocatable."""
    output = plan.output or "a_dlink.o"
    with tempfile.TemporaryDirectory(prefix="loom-") as scratch:
        made = _device_link([path for path, _ in plan.inputs], plan, Path(scratch))
        if made:
            shutil.copyfile(made[0], output)
            return 0
        source = Path(scratch) / "empty.c"
        source.write_text("")
        _compile_host(replace(plan, dependency_flags=[]), str(source), "c", output)
    return 0
