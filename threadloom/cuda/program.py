"""CUDA kernels called from Python, on NumPy arrays and torch CPU tensors, without copies.

    program = tl.cuda.compile("scale.cu")            # or the source itself
    program["scale"]((n + 255) // 256, 256, x, 2.0, n)

Only the device side is compiled and loaded into this process; a launch calls the kernel's entry (entry.py) directly.
The first launch of a kernel tells block extents and integer arguments, for which it gets a version that is chosen by a
test at each launch (optimize/specialize_launch.py); where the second launch has others, the version is made anew for
what both have. The emitted code is kept on disk under the content of the source, the files it includes and our own
version.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from threadloom import env
from threadloom.cuda.arguments import Signature
from threadloom.cuda.identity import code_generator
from threadloom.cuda.kernel import LAUNCHED
from threadloom.cuda.nvcc_options import NO_INPUT
from threadloom.errors import CompileError, slug

if TYPE_CHECKING:
    import numpy as np

    from threadloom.cuda.arguments import Launch
    from threadloom.cuda.compile_unit import DeviceUnit
    from threadloom.cuda.front import FrontIr
    from threadloom.cuda.host_stubs import Stub
    from threadloom.par.ops import Type
    from threadloom.targets.cpu.jit import Code

LAUNCH_FAILED = slug("cuda-launch-failed", "a CUDA kernel called from Python stopped at an assert or a trap")
NO_KERNEL = slug("cuda-no-such-kernel", "a CUDA program has no kernel or variable of the name asked for")

DISTINCT = """
@loom.distinct = global i32 0
define i32 @__loom_distinct(ptr %pointers, i32 %written, i32 %count) {
  %answer = load i32, ptr @loom.distinct
  ret i32 %answer
}
"""
_HIDDEN_VARIABLE = re.compile(r"^@(?!loom\.)[^=\n]+ = internal [a-z_ ]*global ", re.MULTILINE)
_DECLARED_DISTINCT = "declare i32 @__loom_distinct(ptr, i32, i32)"


@dataclass(frozen=True, slots=True)
class Emitted:
    """A compiled device side, as it lies on disk."""

    llvm: str
    signatures: tuple[Signature, ...]
    variables: tuple[tuple[str, str, int, str, tuple[int, ...]], ...]  # (name, symbol, bytes, dtype, shape)
    files: tuple[tuple[str, str], ...] = ()  # (path, digest) of the source's includes


@dataclass(frozen=True, slots=True)
class Sides:
    """What clang made of a source."""

    ir: FrontIr
    files: tuple[tuple[str, str], ...]  # as in Emitted


@dataclass
class Program:
    """A compiled CUDA source; `program["name"]` is a kernel, by its C++ name or as `name<type>` for a template."""

    source: str
    options: tuple[str, ...]
    emitted: Emitted
    instantiated: tuple[str, ...] = ()
    _content: str = field(default="", repr=False)  # of the source when it was compiled
    _sides: Sides | None = field(default=None, repr=False)
    _variables_of: Program | None = field(default=None, repr=False)  # that has the variables which this one uses
    _code: Code | None = field(default=None, repr=False)
    _lock: threading.RLock = field(default_factory=threading.RLock, repr=False)
    _overlapping: int = field(default=0, repr=False)  # launches that run now and whose arrays are not distinct
    _kernels: dict[str, Kernel] = field(default_factory=dict, repr=False)
    _versions: dict[tuple[str, ...], Program] = field(default_factory=dict, repr=False)  # symbol, first launch -> it

    def __getitem__(self, name: str) -> Kernel:
        if name not in self._kernels:
            self._kernels[name] = self._kernel(name)
        return self._kernels[name]

    @property
    def kernels(self) -> tuple[str, ...]:
        """The names of the kernels that are compiled."""
        return tuple(signature.name for signature in self.emitted.signatures)

    def symbol(self, name: str, dtype: object = None) -> np.ndarray:
        """A `__device__` or `__constant__` variable as an array; writing to it is cudaMemcpyToSymbol. Without `dtype`
        it has the variable's own shape; its numbers are signed then, and structures are bytes."""
        import ctypes

        import numpy as np

        found = next((v for v in self.emitted.variables if v[0] == name), None)
        if found is None:
            known = ", ".join(v[0] for v in self.emitted.variables) or "none"
            raise CompileError(NO_KERNEL, f"no device variable {name!r}", try_=f"variables that kernels use: {known}")
        memory = (ctypes.c_char * found[2]).from_address(self._loaded().addresses[found[1]])
        if dtype is not None:
            return np.frombuffer(memory, dtype=dtype)
        return np.frombuffer(memory, dtype=found[3]).reshape(found[4])

    def _kernel(self, name: str) -> Kernel:
        wanted = name.replace(" ", "")
        for signature in self.emitted.signatures:
            if wanted in (signature.name.replace(" ", ""), signature.symbol):
                return Kernel(signature, self)
        if "<" in name and name not in self.instantiated:
            more = _compiled(self.source, self.options, (*self.instantiated, name), own_variables=False)
            more._variables_of = self._variables_of or self
            return more[name]
        known = ", ".join(self.kernels) or "none"
        raise CompileError(NO_KERNEL, f"no kernel {name!r}", why=f"the program has: {known}",
                           try_="a template needs its arguments: program['name<float>']")  # fmt: skip

    def _for_launch(self, symbol: str, first: tuple[str, ...]) -> Program:
        """The program with a version of the kernel `symbol` for launches like `first`, and no other kernel; this one
        where there can be none: sources have changed since, or variables that only the device knows lie in it."""
        changed = self._content != _content(self.source)
        changed |= any(_digest(path) != before for path, before in self.emitted.files)
        if changed or not any(first) or _HIDDEN_VARIABLE.search(self.emitted.llvm):
            return self
        key = (symbol, *first)
        if key not in self._versions:
            made = _compiled(self.source, self.options, self.instantiated, own_variables=False, first=key,
                             sides=self._sides)  # fmt: skip
            made._variables_of = self._variables_of or self
            self._versions[key] = made
        return self._versions[key]

    def _loaded(self) -> Code:
        with self._lock:  # loaded twice, its variables would be there twice
            if self._code is None:
                self._code = self._load()
            return self._code

    def _load(self) -> Code:
        from threadloom.targets.cpu import jit

        exports = [*(signature.entry for signature in self.emitted.signatures), "loom.distinct"]
        symbols = [variable[1] for variable in self.emitted.variables]
        imports = _runtime_symbols(self.emitted.llvm)
        if self._variables_of is None:
            exports += symbols
        else:
            imports |= {symbol: self._variables_of._loaded().addresses[symbol] for symbol in symbols}
        if "@__loom_" in self.emitted.llvm.replace("@__loom_distinct", ""):
            _runtime_in_process()
        effort = jit.QUICK if "-O0" in self.options else jit.OPTIMIZED
        return jit.load(self.emitted.llvm, exports, effort, imports)


class _Version:
    """A kernel as one program has it, loaded into the process."""

    def __init__(self, signature: Signature, program: Program):
        import ctypes

        code = program._loaded()
        self.program = program
        self.entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(code.addresses[signature.entry])
        self.distinct = ctypes.c_int.from_address(code.addresses["loom.distinct"])

    def announce(self, overlapping: int) -> None:
        """Say that so many more launches of overlapping arrays run. Threads launch at the same time, and a kernel asks
        when it has started: the answer is "distinct" only while it is true of all."""
        program = self.program
        with program._lock:
            program._overlapping += overlapping
            self.distinct.value = program._overlapping == 0


class Kernel:
    """`kernel(grid, block, *args, shared_bytes=0)`: launch and wait."""

    def __init__(self, signature: Signature, program: Program):
        self.signature, self._general = signature, program
        self._known: tuple[str, ...] | None = None  # what the launches so far have in common
        self._settled = "-O0" in program.options
        self._version = _Version(signature, program) if self._settled else None
        llvm = program.emitted.llvm
        self._can_fail = "@__loom_assert_fail" in llvm or "@__loom_trap" in llvm
        self._prints = any(f"@{name}(" in llvm for name in ("printf", "vprintf", "puts", "putchar"))

    def _learn(self, launch: Launch) -> None:
        """From the first launch and the second."""
        with self._general._lock:
            if self._settled:
                return
            found = self.signature.described(launch)
            before, settled = self._known, self._known is not None
            known = found if before is None else tuple(a if a == b else "" for a, b in zip(before, found, strict=True))
            if known != before:
                program = self._general._for_launch(self.signature.symbol, known)
                self._version = _Version(self.signature, program)
                settled |= LAUNCHED not in program.emitted.llvm  # nothing to gain by the second
            self._known, self._settled = known, settled

    @property
    def name(self) -> str:
        return self.signature.name

    def __call__(
        self, grid: int | Sequence[int], block: int | Sequence[int], *args: object, shared_bytes: int = 0
    ) -> None:
        launch = self.signature.launch(grid, block, args, shared_bytes)
        if not self._settled:
            self._learn(launch)
        overlapping, version = not launch.arrays_are_distinct, self._version
        version.announce(overlapping)
        version.entry(launch.pointers, launch.geometry)
        if overlapping:
            version.announce(-1)
        if self._prints or self._can_fail:
            self._after()

    def _after(self) -> None:
        """Show what was printed; an assert that failed is an error here, and forgotten by the device."""
        import ctypes

        ctypes.CDLL(None).fflush(None)
        if not self._can_fail:
            return
        runtime = _runtime_in_process()
        if error := runtime.cudaGetLastError():
            runtime.cudaDeviceReset()
            runtime.cudaGetErrorString.restype = ctypes.c_char_p
            what = runtime.cudaGetErrorString(error).decode()
            raise CompileError(LAUNCH_FAILED, f"kernel {self.name} failed: {what}",
                               why="its assert or __trap() says so; the message is on stderr")  # fmt: skip

    def __repr__(self) -> str:
        return f"<CUDA kernel {self.signature.text}>"


@lru_cache(maxsize=1)
def _runtime_in_process():
    """Our CUDA runtime, for kernels that call it (clock, assert, special functions)."""
    import ctypes

    from threadloom.cuda import runtime_library

    return ctypes.CDLL(str(runtime_library.folder() / "libcudart.so"), mode=ctypes.RTLD_GLOBAL)


def _runtime_symbols(llvm: str) -> dict[str, int]:
    import ctypes

    names = set(re.findall(r"^declare [^@\n]*@(__loom_\w+)\(", llvm, re.MULTILINE)) - {"__loom_distinct"}
    if not names:
        return {}
    library = _runtime_in_process()
    return {name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in names}


# ---------------------------------------------------------------- compilation


def compile(source: str | Path, options: Sequence[str] = (), instantiate: Sequence[str] = ()) -> Program:
    """Compile a CUDA file, or CUDA source text, for calls from Python.

    options: nvcc's (-D -I -std -arch ...); -O0: no LLVM passes, for what runs once. instantiate: template kernels to
    compile at once, as `name<float, 4>`; others are compiled when they are first asked for.
    """
    return _compiled(source, tuple(options), tuple(instantiate), own_variables=True)


def _compiled(source: str | Path, options: tuple[str, ...], names: tuple[str, ...], own_variables: bool,
              first: tuple[str, ...] = (), sides: Sides | None = None) -> Program:  # fmt: skip
    """`first`: a kernel's symbol and what is known of its launches; the program then has this kernel only. `sides`: of
    the source, where clang has read it in this process."""
    text, content = str(source), _content(source)
    folder = str(Path(text).resolve().parent) if _is_file(source) else ""
    place = _cache_path(content, folder, (*options, str(own_variables), *first), names)
    emitted = _load(place)
    if emitted is None:
        sides = sides or _read(source, content, options, names)
        emitted = _emit(sides, options, own_variables, first)
        _store(place, emitted)
    return Program(text, options, emitted, names, content, sides)


def _is_file(source: str | Path) -> bool:
    """A path, or a line that names a file or looks like a name; a long text is no path."""
    return isinstance(source, Path) or (
        "\n" not in source and (source.endswith((".cu", ".cuh")) or os.path.isfile(source))
    )


def _content(source: str | Path) -> str:
    if not _is_file(source):
        return str(source)
    try:
        return Path(source).read_text(errors="replace")
    except OSError as error:
        raise CompileError(NO_INPUT, f"{source}: no such file", why=error.strerror) from None


def _read(source: str | Path, content: str, options: tuple[str, ...], names: tuple[str, ...]) -> Sides:
    from threadloom.cuda import build, front, nvcc_options

    plan, text, is_file = nvcc_options.parse([*options, "-x", "cu"]), str(source), _is_file(source)
    with tempfile.TemporaryDirectory(prefix="loom-") as folder:
        path, includes = text, list(plan.includes)
        if names or not is_file:
            uses = "".join(f"\n__attribute__((used)) auto* __loom_use_{i} = &{name};" for i, name in enumerate(names))
            path = str(Path(folder) / (Path(text).name if is_file else "source.cu"))
            line = f'#line 1 "{Path(text).resolve()}"\n' if is_file else ""
            Path(path).write_text(line + content + uses + "\n")
        if is_file:
            includes.insert(0, str(Path(text).resolve().parent))
        plan.includes = includes
        dependencies = Path(folder) / "dependencies"
        reading = build.source_options(plan)
        reading = replace(reading, host_only=(*reading.host_only, "-MD", "-MF", str(dependencies)))
        return Sides(front.compile_source(path, reading), _included(dependencies, folder))


def _emit(sides: Sides, options: tuple[str, ...], own_variables: bool, first: tuple[str, ...]) -> Emitted:
    from threadloom.cuda import compile_unit, host_launches, host_stubs, link_host, nvcc_options

    ir, without = sides.ir, nvcc_options.parse([*options, "-x", "cu"]).without
    stubs = host_stubs.find_stubs(ir.host)
    if first:
        stubs = tuple(stub for stub in stubs if stub.kernel == first[0])
    kernels, variables = tuple(stub.kernel for stub in stubs), link_host.shadow_names(ir.host)
    with compile_unit.uncollected():
        raised = compile_unit.raise_device([ir.device], kernels, variables)
        if first:
            raised = host_launches.with_first_launches(raised, stubs, {first[0]: first[1:]})
        unit = compile_unit.lower_unit(raised, stubs, without=without)
    return replace(_emitted(unit, ir, stubs, own_variables), files=sides.files)


def _emitted(unit: DeviceUnit, ir: FrontIr, stubs: tuple[Stub, ...], own_variables: bool) -> Emitted:
    from threadloom.cuda import compile_unit, link_host
    from threadloom.par.result_types import size_bytes

    shared = link_host.device_variables(ir.host, unit.lowered.globals)
    options = compile_unit.UnitOptions(standalone=False)
    text = compile_unit.device_text(unit, shared, () if own_variables else shared, options, for_process=True)
    text = text.replace(_DECLARED_DISTINCT, "")
    variables = tuple((link_host.unmangled(v.name), v.name, size_bytes(v.type), *_numpy_form(v.type)) for v in shared)
    signatures = tuple(Signature.of(stub, unit) for stub in stubs)
    return Emitted(text + DISTINCT, signatures, variables)


def _numpy_form(type_: Type) -> tuple[str, tuple[int, ...]]:
    """The dtype and shape of a variable."""
    from threadloom.par.ops import Array, Float, Int
    from threadloom.par.result_types import size_bytes

    shape: list[int] = []
    element = type_
    while isinstance(element, Array):
        shape.append(element.length)
        element = element.element
    match element:
        case Int(bits) if bits in (8, 16, 32, 64):
            return f"int{bits}", tuple(shape)
        case Float("half" | "float" | "double" as kind):
            return {"half": "float16", "float": "float32", "double": "float64"}[kind], tuple(shape)
    return "uint8", (size_bytes(type_),)


def _included(dependencies: Path, own: str) -> tuple[tuple[str, str], ...]:
    """The user's files that the source includes, from the makefile rule that clang wrote, with what they contain."""
    from threadloom.cuda.front import HEADERS

    text = dependencies.read_text().replace("\\\n", " ").partition(":")[2]
    paths = {part.replace("\\ ", " ") for part in re.split(r"(?<!\\)\s+", text.strip())}
    ours = (str(HEADERS), "/usr/", own)
    others = (path for path in paths if not path.startswith(ours) and not path.endswith(".pch"))
    return tuple((path, _digest(path)) for path in sorted(others))


def _digest(path: str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return ""


# ---------------------------------------------------------------- the disk


def _cache_path(content: str, folder: str, options: tuple[str, ...], names: tuple[str, ...]) -> Path | None:
    base = env.cache_folder()
    if base is None:
        return None
    key = hashlib.sha256(repr((content, folder, options, names, code_generator())).encode()).hexdigest()[:32]
    return base / "cuda-programs" / f"{key}.json"


def _load(place: Path | None) -> Emitted | None:
    if place is None or not place.is_file():
        return None
    try:
        record = json.loads(place.read_text())
        files = tuple((path, digest) for path, digest in record["files"])
        if any(_digest(path) != digest for path, digest in files):
            return None
        signatures = tuple(Signature.from_record(one) for one in record["signatures"])
        variables = tuple((*head, tuple(shape)) for *head, shape in record["variables"])
        return Emitted(record["llvm"], signatures, variables, files)
    except (OSError, ValueError, KeyError, TypeError):  # a torn or old file: compile again
        return None


def _store(place: Path | None, emitted: Emitted) -> None:
    if place is None:
        return
    record = {"llvm": emitted.llvm, "signatures": [one.record() for one in emitted.signatures],
              "variables": emitted.variables, "files": emitted.files}  # fmt: skip
    try:
        env.make_private(place.parent)
        with tempfile.NamedTemporaryFile("w", dir=place.parent, delete=False) as out:
            json.dump(record, out)
        Path(out.name).replace(place)
    except OSError:
        return  # a cache that cannot be written costs time only
