"""One CUDA translation unit -> one object file (or LLVM assembly): the pipeline on one page."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from threadloom.cuda import debug_records, entry, front, inline, launch_effects, link_host, own_elements, semantics
from threadloom.cuda.cfg import parsing
from threadloom.cuda.cfg.fold_packed import fold_packed
from threadloom.cuda.debug_frame import with_frames
from threadloom.cuda.front import FrontIr, SourceOptions
from threadloom.cuda.host_launches import with_launch_facts, with_recorded_launches
from threadloom.cuda.host_stubs import Stub, find_stubs
from threadloom.cuda.kernel import INSTANCES, SHARED_DYNAMIC, THREAD_LOCAL_CALLS
from threadloom.cuda.launch_effects import PointerEffect
from threadloom.cuda.raise_cfg_to_par import Raised, raise_module
from threadloom.cuda.shared_memory import find_shared
from threadloom.cuda.split_coerced import split_coerced
from threadloom.errors import InternalError
from threadloom.par.ops import I32, Alloca, Function, Global, Module, Parallel, Space
from threadloom.par.result_types import size_bytes

Dump = Callable[[str, str], None]  # (name, text) of each stage


@dataclass(frozen=True, slots=True)
class UnitOptions:
    source: SourceOptions = field(default_factory=SourceOptions)
    optimize: int = 3  # LLVM's level for host and device code
    standalone: bool = True  # the object brings the arena itself (executables); False: the JIT provides it
    check: bool = False  # kernels report every access to the runtime (loom check)
    launches: str = ""  # file with first launches (runtime/profile.cpp)
    store: Path | None = None  # where kernels may be kept to be compiled when they are launched (first_launch.py)
    without: tuple[str, ...] = ()  # names of passes that are left out (lower/pipeline.py: OPTIONAL)
    fibers: bool = True  # False: loops that may wait for other threads are an error
    variables: bool = False  # a debugger shows the variables of kernels, which are not optimised


@dataclass(frozen=True, slots=True)
class DeviceUnit:
    """The device side of a unit at level par, raised and lowered, with the entries through which it is launched."""

    raised: Raised
    lowered: Module
    stubs: tuple[Stub, ...]
    static_shared_bytes: dict[str, int] = field(default_factory=dict)
    effects: dict[str, tuple[PointerEffect, ...]] = field(default_factory=dict)  # of kernels that may wait in batches


def no_dump(name: str, text: str) -> None:
    pass


@contextmanager
def uncollected() -> Iterator[None]:
    """Without Python's search for cycles, which goes through all operations of all stages again and again: they hold no
    cycles, and are a tenth to a fifth of the time of a large unit."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def raise_unit(ir: FrontIr, dump: Dump = no_dump, variables: bool = False) -> tuple[Raised, tuple[Stub, ...]]:
    """Both sides of a unit as clang made them -> the kernels at level par. variables: kept for a debugger."""
    stubs = find_stubs(ir.host)
    dump("host.ll", ir.host)
    dump("device.ll", ir.device)
    kernels = tuple(stub.kernel for stub in stubs)
    raised = raise_device([ir.device], kernels, link_host.shadow_names(ir.host), dump, variables)
    return with_launch_facts(raised, ir.host, stubs), stubs


def raise_device(
    device_irs: list[str],
    kernels: tuple[str, ...],
    keep: frozenset[str] = frozenset(),
    dump: Dump = no_dump,
    variables: bool = False,
) -> Raised:
    """The device IR of one file, or of several that are linked together, at level par."""
    if variables:
        device_irs = [debug_records.keep_variables(one) for one in device_irs]
    text = inline.inline_device([split_coerced(semantics.restore(one)) for one in device_irs], kernels, keep)
    text = debug_records.numbered(text) if variables else text
    dump("inlined.ll", text)
    module = fold_packed(parsing.parse(text, debug_nodes=variables))
    raised = raise_module(module, kernels, keep)
    if variables:
        raised = with_frames(raised, debug_records.records(text), find_shared(module))
    if dump is not no_dump:
        dump("raised.par", _par_text(raised.module))
    return raised


def lower_unit(
    raised: Raised,
    stubs: tuple[Stub, ...],
    dump: Dump = no_dump,
    check: bool = False,
    without: tuple[str, ...] = (),
    fibers: bool = True,
) -> DeviceUnit:
    """Barriers and collectives lowered, entries added."""
    from threadloom.cuda.lower import pipeline
    from threadloom.cuda.lower.watch_waits import refuse_waits

    def hook(name: str, _: Module, after: Module) -> None:
        dump(f"{name}.par", _par_text(after))

    told = None if dump is no_dump else hook
    debug = raised.debug is not None
    lowered = pipeline.lower(raised.module, hook=told, without=without, check=check, debug=debug).module
    if not fibers:
        refuse_waits(lowered)
    functions = {function.name: function for function in lowered.functions}
    entries = tuple(entry.entry(functions[stub.kernel], stub) for stub in stubs)
    lowered = replace(lowered, functions=lowered.functions + entries)
    original = {f.name: f for f in raised.module.functions if f.name in raised.kernels}
    shared = {name: static_shared_bytes(f) for name, f in original.items()}
    known = {stub.kernel: launch_effects.launch_effects(original[stub.kernel], raised.module, lowered, stub)
             for stub in stubs}  # fmt: skip
    effects = {kernel: effects for kernel, effects in known.items() if not isinstance(effects, str)}
    if own_elements.NAME in without:
        effects = {kernel: launch_effects.without_own(one) for kernel, one in effects.items()}
    return DeviceUnit(raised, lowered, stubs, shared, effects)


def compile_unit(path: str, options: UnitOptions, dump: Dump = no_dump) -> bytes:
    """The object file of the CUDA source `path`: host code, kernels, and their registration."""
    ir = front.compile_source(path, options.source)
    if ir.warnings:
        import sys

        print(ir.warnings, file=sys.stderr, end="")
    if options.source.relocatable:
        from threadloom.cuda.relocatable import compile_relocatable

        return compile_relocatable(ir, options, dump)
    if options.store is not None and options.fibers:  # what is compiled later could be refused too late
        from threadloom.cuda import first_launch

        if first_launch.is_worth_it(ir):
            return first_launch.compile_host(ir, options, options.store)
    with uncollected():
        raised, stubs = raise_unit(ir, dump, options.variables)
        if options.launches:
            raised = with_recorded_launches(raised, stubs, options.launches)
        unit = lower_unit(raised, stubs, dump, options.check, options.without, options.fibers)
        return emit_object(link_unit(ir, unit, options, dump), options)


def link_unit(ir: FrontIr, unit: DeviceUnit, options: UnitOptions, dump: Dump = no_dump):
    """One llvmlite module of host code, kernels and registration."""
    shared = link_host.device_variables(ir.host, unit.lowered.globals)
    hosted = link_host.host_variables(ir.host, unit.lowered.globals)
    statics = link_host.internal_variables(ir.host, shared + hosted)
    text = device_text(unit, shared, hosted, options, dump)
    effects = {} if launch_effects.NAME in options.without or options.check else unit.effects
    records = tuple(
        link_host.KernelRecord(stub, entry.ENTRY_PREFIX + stub.kernel, effects.get(stub.kernel))
        for stub in unit.stubs
    )
    host_text = link_host.share_variables(ir.host, shared)
    host_text = link_host.export_variables(host_text, hosted)
    host_text += "\n" + link_host.declared_sizes(records)
    host_text += link_host.registration_ir(records, shared + hosted, options.source.arch)
    return linked((link_host.explicit_constructors(host_text), text), statics)


def device_text(
    unit: DeviceUnit,
    shared: tuple[Global, ...],
    hosted: tuple[Global, ...],
    options: UnitOptions,
    dump: Dump = no_dump,
    for_process: bool = False,
) -> str:
    """LLVM text of the kernels, their entries and variables; `shared` and `hosted` are the host's too.

    for_process: to be loaded into this process, whose OpenMP runtime the JIT knows.
    """
    from threadloom.targets.cpu.emit import EmitOptions, emit_llvm

    variables = tuple(_linkable(v, shared, hosted) for v in unit.lowered.globals)
    sizes = tuple(
        Global(link_host.STATIC_PREFIX + name, I32, str(size), constant=True, align_bytes=4, linkage="default")
        for name, size in unit.static_shared_bytes.items()
    )
    device = replace(unit.lowered, globals=variables + sizes)
    nodes = unit.raised.debug.nodes if unit.raised.debug else None
    text = emit_llvm(device, EmitOptions(True, options.standalone, options.source.debug, nodes))
    text = _with_names(text, THREAD_LOCAL_CALLS if for_process else _OWN_ENTRY_POINTS)
    dump("device.emitted.ll", text)
    return text


# Our runtime finds the OpenMP library when the program runs (runtime/parallel.cpp), so nothing is linked.
_OWN_ENTRY_POINTS = {
    "GOMP_parallel": "__loom_parallel",
    "omp_get_thread_num": "__loom_thread_num",
    "omp_get_num_threads": "__loom_num_threads",
    "omp_get_max_threads": "__loom_max_threads",
    **THREAD_LOCAL_CALLS,
}


def _with_names(text: str, names: dict[str, str]) -> str:
    for name, own in names.items():
        text = text.replace(f"@{name}(", f"@{own}(")
    return text


def _linkable(variable: Global, shared: tuple[Global, ...], hosted: tuple[Global, ...]) -> Global:
    """Both sides must see one symbol of a shared variable, which is no constant, for the host may write it; all
    other variables (literals, tables, vtables) belong to the device side alone."""
    if variable in hosted:
        return replace(variable, init=None, constant=False, linkage="external")
    if variable.init is None:
        return variable
    if variable not in shared:
        return replace(variable, linkage="internal")
    linkage = "default" if variable.linkage in ("internal", "private") else variable.linkage
    return replace(variable, constant=False, linkage=linkage)


def linked(texts: tuple[str, ...], statics: frozenset[str], hide: bool = True):
    """The LLVM modules of `texts` as one; `statics` become internal again, and with `hide` so do kernels' entries."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()  # for inline assembly in host code
    modules = []
    for text in texts:
        try:
            modules.append(llvm.parse_assembly(text))
        except RuntimeError as error:
            raise InternalError(f"LLVM refuses a part of the unit: {error}") from error
    first, *others = modules
    if not first.triple:  # device code alone: emitted text leaves the target open
        target = llvm.Target.from_default_triple()
        first.triple = target.triple
        first.data_layout = str(target.create_target_machine().target_data)
    for other in others:
        other.triple, other.data_layout = first.triple, first.data_layout
        first.link_in(other)
    for variable in first.global_variables:
        if variable.name in statics:
            variable.linkage = "internal"
    if hide:
        _hide_entries(first)
    first.verify()
    return first


def _hide_entries(module) -> None:
    for symbol in (*module.functions, *module.global_variables):
        if symbol.name.startswith((entry.ENTRY_PREFIX, link_host.STATIC_PREFIX)) and not symbol.is_declaration:
            symbol.linkage = "internal"


# Kernels of thousands of lines (barriers in functions that are inlined many times) gain little from unrolled loops and
# versions of loops by their conditions, and these make LLVM twice as slow.
_LONG_UNIT_LINES = 20_000
# With hundreds of kernels, vectors of LLVM's own (ours are there) and all but its cheap passes double its minutes.
_VERY_LONG_UNIT_LINES = 100_000


def _llvm_level(module, asked: int) -> tuple[int, bool, bool]:
    """LLVM's level, and whether it may make vectors and unroll loops."""
    lines = str(module).count("\n")
    if lines > _VERY_LONG_UNIT_LINES:
        return min(asked, 1), False, False
    merged = any(function.name.endswith(INSTANCES) for function in module.functions)
    if merged or lines > _LONG_UNIT_LINES:
        return min(asked, 2), True, False
    return asked, True, True


def emit_object(module, options: UnitOptions) -> bytes:
    import llvmlite.binding as llvm

    from threadloom.targets.cpu.host import target_cpu

    target = target_cpu().target
    made = llvm.Target.from_triple(module.triple)
    level, vectors, unrolled = _llvm_level(module, options.optimize)
    machine = made.create_target_machine(
        cpu=target.cpu, features=target.features, opt=level, reloc="pic", codemodel="small"
    )
    tuning = llvm.create_pipeline_tuning_options(speed_level=level)
    tuning.loop_vectorization = tuning.slp_vectorization = tuning.loop_interleaving = vectors
    tuning.loop_unrolling = unrolled
    llvm.create_pass_builder(machine, tuning).getModulePassManager().run(
        module, llvm.create_pass_builder(machine, tuning)
    )
    return machine.emit_object(module)


def static_shared_bytes(kernel: Function) -> int:
    blocks = next(op for op in kernel.body.ops if isinstance(op, Parallel))
    allocas = [op for op in blocks.body.ops if isinstance(op, Alloca) and op.space is Space.SHARED]
    return sum(size_bytes(op.element) for op in allocas if op.result.name != SHARED_DYNAMIC)


def _par_text(module: Module) -> str:
    from threadloom.par.text import print_module

    return print_module(module)
