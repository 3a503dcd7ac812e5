"""LLVM IR text -> machine code: callable in this process, or an object or assembly for any triple.

Explicit-vector code is compiled without LLVM's middle-end (`optimize=False`): it is already in the form that the code
generator wants, and skipping the passes makes it three times as quick. Scalar loops need `optimize=True` (O3).
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from threadloom.errors import InternalError
from threadloom.par.ops import Module
from threadloom.targets.cpu import arena, object_cache, openmp
from threadloom.targets.cpu.emit import EmitOptions, emit_llvm
from threadloom.targets.cpu.host import CpuTarget, host_cpu
from threadloom.targets.cpu.outline import THREAD_LIMIT

if TYPE_CHECKING:
    import llvmlite.binding as llvm

_numbers = itertools.count()
_lock = threading.Lock()
_codegen_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class CompileOptions:
    """optimize: run O3 before code generation. level: effort of the code generator, 1 to 3."""

    optimize: bool = False
    level: int = 2


EXPLICIT, OPTIMIZED = CompileOptions(), CompileOptions(optimize=True, level=3)
QUICK = CompileOptions(level=1)  # for large scalar code that runs once


class Code:
    """Machine code in this process; it lives as long as this object."""

    def __init__(self, tracker: llvm.orcjit.ResourceTracker, exports: Sequence[str], keep: Sequence[object]):
        self._tracker, self._keep = tracker, keep
        self.addresses = {name: int(tracker[name]) for name in exports}

    def function(self, name: str, result: type | None = None, *params: type) -> ctypes._CFuncPtr:
        """The exported function `name` with ctypes types; keep this Code alive while you call it."""
        function = ctypes.CFUNCTYPE(result, *params)(self.addresses[name])
        function.code = self
        return function


def compile_module(
    module: Module, options: CompileOptions = EXPLICIT, imports: Mapping[str, int] | None = None
) -> Code:
    """Emit, compile and load; the exported functions of `module` can be called."""
    exports = [function.name for function in module.functions if function.exported and function.body is not None]
    return load(emit_llvm(module), exports, options, imports)


def load(text: str, exports: Sequence[str], options: CompileOptions = EXPLICIT,
         imports: Mapping[str, int] | None = None) -> Code:  # fmt: skip
    """Compile LLVM IR `text` for this machine, or take it from the disk cache, and link it into the process.

    `imports` gives addresses for external symbols; others come from the OpenMP runtime, from us, or from the process.
    """
    symbols = {**_support_symbols(text), **(imports or {})}
    return _link(object_for_host(text, options), exports, symbols)


def object_for_host(text: str, options: CompileOptions = EXPLICIT) -> bytes:
    target = host_cpu().target
    cache = object_cache.default_cache()
    name = object_cache.key(text, target.triple, target.cpu, target.features, repr(options), _versions())
    found = cache.load(name)
    if found is None:
        found = compile_object(text, target, options)
        cache.store(name, found)
    return found


def compile_object(text: str, target: CpuTarget, options: CompileOptions = EXPLICIT) -> bytes:
    """An object file (position independent) for `target`, which need not be this machine."""
    module, machine = _compiled_module(text, target, options)
    with _strength_reduction(options.optimize):
        return machine.emit_object(module)


def compile_assembly(text: str, target: CpuTarget, options: CompileOptions = EXPLICIT) -> str:
    module, machine = _compiled_module(text, target, options)
    with _strength_reduction(options.optimize):
        return machine.emit_assembly(module)


@contextmanager
def _strength_reduction(wanted: bool) -> Iterator[None]:
    """Explicit code steps through memory as it should already: LLVM's loop strength reduction is a fifth of the time
    that it takes to compile, its scheduling after register allocation a tenth. The switches are the process's, so
    others wait."""
    import llvmlite.binding as llvm

    with _codegen_lock:
        for switch in ("disable-lsr", "disable-post-ra"):
            llvm.set_option("threadloom", f"-{switch}={'false' if wanted else 'true'}")
        yield


def _compiled_module(
    text: str, target: CpuTarget, options: CompileOptions
) -> tuple[llvm.ModuleRef, llvm.TargetMachine]:
    import llvmlite.binding as llvm

    machine = _target_machine(target, options.level)
    context, module = llvm.create_context(), None
    try:
        module = llvm.parse_assembly(text, context)
        module.triple, module.data_layout = target.triple, str(machine.target_data)
        module.verify()
    except RuntimeError as error:
        if module is not None:
            module.close()  # before its context: a traceback keeps both, and the collector may take that one first
        context.close()
        raise InternalError(f"LLVM refuses the emitted code: {_with_line(str(error), text)}") from error
    if options.optimize:
        _optimize(module, machine)
    return module, machine


def _with_line(message: str, text: str) -> str:
    """LLVM names a line; show it."""
    import re

    if (found := re.search(r"<string>:(\d+):", message)) is not None:
        lines = text.splitlines()
        number = int(found[1])
        if number <= len(lines):
            return f"{message}\n  {lines[number - 1]}"
    return message


def _optimize(module: llvm.ModuleRef, machine: llvm.TargetMachine) -> None:
    import llvmlite.binding as llvm

    tuning = llvm.create_pipeline_tuning_options(speed_level=3)
    tuning.loop_vectorization = tuning.slp_vectorization = tuning.loop_unrolling = tuning.loop_interleaving = True
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)


def _target_machine(target: CpuTarget, level: int) -> llvm.TargetMachine:
    import llvmlite.binding as llvm

    _initialize(target.triple == host_cpu().target.triple)
    made = llvm.Target.from_triple(target.triple)
    return made.create_target_machine(
        cpu=target.cpu, features=target.features, opt=level, reloc="pic", codemodel="small"
    )


@lru_cache(maxsize=2)
def _initialize(native: bool) -> None:
    import llvmlite.binding as llvm

    if native:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
    else:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()


@lru_cache(maxsize=1)
def _versions() -> str:
    import llvmlite
    import llvmlite.binding as llvm

    return f"llvmlite {llvmlite.__version__} LLVM {llvm.llvm_version_info}"


# ---------------------------------------------------------------- linking into the process


@lru_cache(maxsize=1)
def _linker() -> llvm.LLJIT:
    import llvmlite.binding as llvm

    return llvm.create_lljit_compiler(_target_machine(host_cpu().target, 2), use_jit_link=True)


def _link(object_: bytes, exports: Sequence[str], symbols: Mapping[str, int], keep: Sequence[object] = ()) -> Code:
    import llvmlite.binding as llvm

    builder = llvm.JITLibraryBuilder().add_object_img(object_).add_current_process()
    for name, address in symbols.items():
        builder.import_symbol(name, address)
    for name in exports:
        builder.export_symbol(name)
    with _lock:
        try:
            tracker = builder.link(_linker(), f"loom.{next(_numbers)}")
        except RuntimeError as error:
            raise InternalError(f"compiled code cannot be linked: {error}") from error
    return Code(tracker, exports, keep)


def _support_symbols(text: str) -> dict[str, int]:
    """Addresses of what emitted code calls: the arena, the thread limit, OpenMP. `text` is IR, or assembly within."""
    symbols: dict[str, int] = {}
    if arena.ACQUIRE in text:
        symbols |= _arena_code().addresses
    if THREAD_LIMIT in text:
        symbols[THREAD_LIMIT] = ctypes.addressof(openmp.limit_cell())
        symbols |= _openmp_symbols()
    return symbols


def _compile_support(source: str, symbols: Mapping[str, int]) -> Code:
    from threadloom.par.text import parse

    module = parse(source, "support.par")
    exports = [function.name for function in module.functions if function.exported]
    return _link(object_for_host(emit_llvm(module, EmitOptions(threads=False))), exports, symbols)


@lru_cache(maxsize=1)
def _arena_code() -> Code:
    return _compile_support(arena.SOURCE, {})


@lru_cache(maxsize=1)
def _openmp_adapter() -> Code | None:
    runtime = openmp.runtime()
    return _compile_support(runtime.adapter, dict(runtime.addresses)) if runtime.adapter else None


def _openmp_symbols() -> dict[str, int]:
    found = {name: address for name, address in openmp.runtime().addresses if name in openmp.ENTRY_POINTS}
    adapter = _openmp_adapter()
    return found | (adapter.addresses if adapter else {})
