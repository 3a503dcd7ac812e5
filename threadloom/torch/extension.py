"""Builds a PyTorch extension with CUDA sources into a shared library for CPU tensors, and loads it."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shlex
import subprocess
import sys
import sysconfig
import tempfile
import types
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

from threadloom import env
from threadloom.cuda import clang, precompiled, runtime_library
from threadloom.cuda.build import CUDA_LIBRARIES, source_options
from threadloom.cuda.compile_unit import UnitOptions, compile_unit
from threadloom.cuda.front import HEADERS as CUDA_HEADERS
from threadloom.cuda.front import change_user_text, source_error
from threadloom.cuda.identity import code_generator
from threadloom.cuda.nvcc_options import NO_INPUT, parse
from threadloom.errors import CompileError, slug
from threadloom.torch.on_cpu import on_cpu

HEADERS = Path(__file__).parent / "headers"
NO_TORCH = slug("torch-not-installed", "a PyTorch extension was to be built where PyTorch is not installed")
LINK_ERROR = slug("torch-extension-link", "the linker failed on a PyTorch extension")
NOT_SUPPORTED = slug("torch-extension-option", "an option of cpp_extension that is not supported on the CPU")

_CUDA_SUFFIXES = (".cu", ".cuh")
_NOT_LINKED = CUDA_LIBRARIES | {"-lc10_cuda", "-ltorch_cuda"}  # what they have is in our runtime and headers
_NVCC_DEFAULTS = ("-D__CUDA_NO_HALF_OPERATORS__", "-D__CUDA_NO_HALF_CONVERSIONS__")


@dataclass(frozen=True, slots=True)
class _Extension:
    """What is built: everything that decides about the result, so that its repr is the key of the cache."""

    name: str
    sources: tuple[str, ...]
    cflags: tuple[str, ...] = ()
    cuda_cflags: tuple[str, ...] = ()
    ldflags: tuple[str, ...] = ()
    includes: tuple[str, ...] = ()
    verbose: bool = field(default=False, compare=False, repr=False)


def load(
    name: str,
    sources: str | list[str],
    extra_cflags: list[str] | None = None,
    extra_cuda_cflags: list[str] | None = None,
    extra_sycl_cflags: list[str] | None = None,
    extra_ldflags: list[str] | None = None,
    extra_include_paths: list[str] | None = None,
    build_directory: str | None = None,
    verbose: bool = False,
    with_cuda: bool | None = None,
    with_sycl: bool | None = None,
    is_python_module: bool = True,
    is_standalone: bool = False,
    keep_intermediates: bool = True,
) -> types.ModuleType | str:
    """torch.utils.cpp_extension.load for CPU tensors: the imported module, or with is_python_module=False the path of
    the library, its operators registered.

    Sources ending in .cu are compiled as CUDA, others as C++; flags are nvcc's and the host compiler's. `with_cuda`,
    `build_directory` and `keep_intermediates` need nothing here: the library is kept by its content in our cache
    (or in `build_directory`). Raises CompileError for errors in the sources, with file and line."""
    if with_sycl or extra_sycl_cflags or is_standalone:
        raise CompileError(NOT_SUPPORTED, "SYCL sources and standalone executables cannot be built",
                           try_="loom cc for an executable")  # fmt: skip
    paths = [sources] if isinstance(sources, str) else list(sources)
    made = _Extension(
        name,
        tuple(os.path.abspath(path) for path in paths),
        tuple(extra_cflags or ()),
        tuple(extra_cuda_cflags or ()),
        tuple(extra_ldflags or ()),
        tuple(os.path.abspath(path) for path in extra_include_paths or ()),
        verbose,
    )
    library = _built(made, Path(build_directory) if build_directory else None)
    return _imported(name, library) if is_python_module else _registered(library)


def load_inline(
    name: str,
    cpp_sources: str | Sequence[str],
    cuda_sources: str | Sequence[str] | None = None,
    sycl_sources: str | Sequence[str] | None = None,
    functions: str | Sequence[str] | dict[str, str] | None = None,
    extra_cflags: list[str] | None = None,
    extra_cuda_cflags: list[str] | None = None,
    extra_sycl_cflags: list[str] | None = None,
    extra_ldflags: list[str] | None = None,
    extra_include_paths: list[str] | None = None,
    build_directory: str | None = None,
    verbose: bool = False,
    with_cuda: bool | None = None,
    with_sycl: bool | None = None,
    is_python_module: bool = True,
    with_pytorch_error_handling: bool = True,
    keep_intermediates: bool = True,
    use_pch: bool = False,
    no_implicit_headers: bool = False,
) -> types.ModuleType | str:
    """torch.utils.cpp_extension.load_inline for CPU tensors: sources are strings; `functions` (names, or a dict of name
    to docstring) are bound into the module, which includes <torch/extension.h>; CUDA sources get torch/types.h."""
    if sycl_sources:
        raise CompileError(NOT_SUPPORTED, "SYCL sources cannot be built")
    cpp = [cpp_sources] if isinstance(cpp_sources, str) else list(cpp_sources)
    cuda = [cuda_sources] if isinstance(cuda_sources, str) else list(cuda_sources or ())
    if not no_implicit_headers:
        cpp.insert(0, "#include <torch/extension.h>")
        cuda = ["#include <torch/types.h>\n#include <cuda.h>\n#include <cuda_runtime.h>", *cuda] if cuda else []
    if functions is not None:
        cpp.append(_bindings(functions, with_pytorch_error_handling))
    folder = _folder(build_directory, hashlib.sha256("\0".join([name, *cpp, "", *cuda]).encode()).hexdigest())
    paths = [_kept(folder / "main.cpp", "\n".join(cpp))]
    if cuda:
        paths.append(_kept(folder / "cuda.cu", "\n".join(cuda)))
    return load(name, paths, extra_cflags, extra_cuda_cflags, extra_sycl_cflags, extra_ldflags, extra_include_paths,
                build_directory, verbose, with_cuda, with_sycl, is_python_module)  # fmt: skip


def _bindings(functions: str | Sequence[str] | dict[str, str], handled: bool) -> str:
    names = [functions] if isinstance(functions, str) else functions
    documented = names if isinstance(names, dict) else {one: one for one in names}
    wrapped = "torch::wrap_pybind_function({0})" if handled else "&{0}"
    lines = [f'm.def("{one}", {wrapped.format(one)}, R"doc({text})doc");' for one, text in documented.items()]
    return "PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {\n" + "\n".join(lines) + "\n}"


def _kept(path: Path, text: str) -> str:
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
    return str(path)


def _folder(build_directory: str | None, key: str) -> Path:
    if build_directory:
        path = Path(build_directory)
        path.mkdir(parents=True, exist_ok=True)
        return path
    base = env.cache_folder()
    path = base / "torch-extensions" / key[:20] if base else Path(tempfile.mkdtemp(prefix="loom-extension-"))
    env.make_private(path)
    return path


# ---------------------------------------------------------------- building


def _built(made: _Extension, build_directory: Path | None) -> Path:
    """The shared library of `made`, from the cache where nothing that it depends on has changed."""
    key = _key(made)
    folder = _folder(str(build_directory) if build_directory else None, key)
    library = folder / f"{made.name}.{key[:16]}.so"
    if library.exists():
        return library
    with tempfile.TemporaryDirectory(prefix="loom-") as scratch:
        jobs = [
            (source, Path(scratch) / f"{number}.o", library.with_suffix(f".{number}.kernels"))
            for number, source in enumerate(made.sources)
        ]
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(lambda job: _compile(made, *job), jobs))
        # Static constructors run in link order, and the last registration of an operator counts: kernels come last.
        objects = sorted((path for _, path, _ in jobs), key=lambda path: made.sources[int(path.stem)].endswith(".cu"))
        _link(made, objects, library)
    return library


def _key(made: _Extension) -> str:
    """Over flags, sources, what the sources include of the user's, PyTorch, our compiler and its headers."""
    import torch

    versions = (torch.__version__, sys.version, runtime_library.folder().name, code_generator())
    digest = hashlib.sha256(repr((made, versions)).encode())
    for path in [*made.sources, *_own_includes(made)]:
        digest.update(path.encode() + b"\0")
        digest.update(Path(path).read_bytes() if Path(path).is_file() else b"")
    return digest.hexdigest()


def _own_includes(made: _Extension) -> list[str]:
    """Headers beside the sources and in extra_include_paths: those that a user edits."""
    folders = {os.path.dirname(source) for source in made.sources} | set(made.includes)
    return sorted(str(one) for folder in folders if os.path.isdir(folder) for one in Path(folder).iterdir()
                  if one.suffix in (".h", ".hpp", ".cuh", ".inc"))  # fmt: skip


def _compile(made: _Extension, source: str, target: Path, store: Path) -> None:
    if made.verbose:
        print(f"threadloom: {source}", file=sys.stderr)
    if not Path(source).exists():
        raise CompileError(NO_INPUT, f"{source}: no such file")
    if source.endswith(_CUDA_SUFFIXES):
        target.write_bytes(compile_unit(source, _unit_options(made, source, store)))
    else:
        _compile_cpp(made, source, target)


def _common_flags(made: _Extension) -> tuple[str, ...]:
    import torch

    abi = int(torch._C._GLIBCXX_USE_CXX11_ABI)
    return (f"-DTORCH_EXTENSION_NAME={made.name}", "-DTORCH_API_INCLUDE_EXTENSION_H", f"-D_GLIBCXX_USE_CXX11_ABI={abi}")


def _system_includes() -> list[str]:
    """Ours first: <c10/cuda/...> and <ATen/cuda/...> must be found here, not in PyTorch's folder."""
    try:
        import torch
    except ImportError as error:
        raise CompileError(NO_TORCH, "PyTorch is not installed", try_="pip install 'threadloom[torch]'") from error

    include = Path(torch.__file__).parent / "include"
    python = sysconfig.get_paths()["include"]
    return [str(HEADERS), str(include), str(include / "torch" / "csrc" / "api" / "include"), python]


def _unit_options(made: _Extension, source: str, store: Path) -> UnitOptions:
    plan = parse([*_NVCC_DEFAULTS, *made.cuda_cflags, "-c", source])
    options = source_options(plan)
    includes = [f"-isystem{path}" for path in _system_includes()]
    source_set = replace(
        options,
        includes=(*made.includes, *options.includes),
        defines=(*options.defines, *_common_flags(made)),
        standard=plan.standard if plan.standard not in ("", "c++11", "c++14") else _standard(),
        extra=(*options.extra, *includes, "-fPIC", "-fvisibility=default"),
        user_text=on_cpu,
    )
    return UnitOptions(source_set, store=store)


def _standard() -> str:
    """PyTorch's headers ask for C++20 from 2.10 on."""
    import torch

    major, minor = (int(part) for part in torch.__version__.split(".")[:2])
    return "c++20" if (major, minor) >= (2, 10) else "c++17"


def _compile_cpp(made: _Extension, source: str, target: Path) -> None:
    compiler = clang.find()
    standard = () if any(flag.startswith("-std=") for flag in made.cflags) else (f"-std={_standard()}",)
    includes = [word for path in made.includes for word in ("-I", path)]
    includes += [f"-isystem{path}" for path in (*_system_includes(), str(CUDA_HEADERS))]
    flags = [*standard, *_common_flags(made), *made.cflags]
    done = compiler.run(["-E", "-x", "c++", *includes, *flags, source])
    if done.returncode:
        raise source_error(done.stderr, source)
    text = change_user_text(done.stdout.encode(), on_cpu)
    level = () if any(flag.startswith("-O") for flag in made.cflags) else ("-O1",)
    plain = ["-x", "c++-cpp-output", *standard, *level, *made.cflags, "-fPIC", "-w"]
    plain, text = precompiled.use(compiler, plain, text, CUDA_HEADERS)
    whole = target.with_suffix(".ii")
    whole.write_bytes(text)
    done = compiler.run([*plain, "-c", str(whole), "-o", str(target)])
    if done.returncode:
        raise source_error(done.stderr, source)


def _link(made: _Extension, objects: list[Path], library: Path) -> None:
    import torch

    compiler = clang.find()
    lib = Path(torch.__file__).parent / "lib"
    words = [word for flag in made.ldflags for word in shlex.split(flag) if word not in _NOT_LINKED]
    part = library.with_suffix(f".{os.getpid()}.part")
    command = ["-shared", *runtime_library.shared_flags(), "-o", str(part), *map(str, objects),
               str(runtime_library.static_object()), f"-L{lib}",
               "-lc10", "-ltorch_cpu", "-ltorch", "-ltorch_python", f"-Wl,-rpath,{lib}", *words, "-lm", "-lpthread",
               "-ldl", "-lstdc++", *runtime_library.link_flags(compiler)]  # fmt: skip
    done: subprocess.CompletedProcess[str] = compiler.run(command)
    if done.returncode:
        raise CompileError(LINK_ERROR, f"linking {made.name} failed\n{done.stderr.strip()[:4000]}")
    os.replace(part, library)


# ---------------------------------------------------------------- loading


def _imported(name: str, library: Path) -> types.ModuleType:
    import torch  # noqa: F401  (its libraries must be in the process before the extension)

    _attach(library)
    spec = importlib.util.spec_from_file_location(name, library)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _registered(library: Path) -> str:
    import torch

    torch.ops.load_library(str(library))
    _attach(library)
    return str(library)


def _attach(library: Path) -> None:
    """Compile kernels that were kept when they are first launched."""
    from threadloom.cuda import first_launch

    first_launch.attach(library, sorted(library.parent.glob(f"{library.stem}.*.kernels")))
