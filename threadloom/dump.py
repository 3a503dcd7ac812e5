"""Every stage of a kernel as text, numbered; and running a kernel from the (edited) text of any stage.

    01-tile.tile   the kernel as parsed
    02-task.task   its sTask-graph
    03-sched.sprog the plan
    04-par.par     structured code with explicit vectors     (GPU: 04-cuda.cu, the kernel's CUDA C++, the last stage)
    05-llvm.ll     LLVM IR
    06-asm.s       assembly
    12-combine.task, 14-combine.par ...: the second program, where a reduction is split (02 to 06 are then of the first)
    report.txt, report.json: what was chosen and why

A text is read at its own level and goes on from there: an edited sProgram is proved before it is compiled, and is read
against the graph of the `.task` file beside it.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from threadloom.errors import CompileError, InternalError, slug
from threadloom.machine.devices import device
from threadloom.sched.ops import SProgram
from threadloom.sched.reuse import program_for
from threadloom.sched.search import Outcome, plan
from threadloom.tile.ops import Access
from threadloom.whole_file import write_whole

if TYPE_CHECKING:
    import numpy as np

    from threadloom.lang.bind import Call
    from threadloom.machine.model import Device
    from threadloom.par.ops import Module
    from threadloom.targets.cpu.host import CpuTarget
    from threadloom.targets.cpu.plan import KernelPlan
    from threadloom.targets.cuda.copy import TensorFacts
    from threadloom.task.ops import TaskGraph
    from threadloom.tile.ops import Kernel

BAD_STAGE = slug("bad-stage", "an edited stage of a dump is not valid at its own level")
NOT_A_STAGE = slug("not-a-stage", "a file to run from is no stage of a dump")


COMBINE = "combine"  # in the names of stages of the program that combines the parts of a split reduction
IN_PARTS = re.compile(r" in \d+ parts$")  # behind it, where the code is of one of two programs
MADE_FOR = "made for "  # begins the comment that says which call the code of a stage fits


@dataclass(frozen=True, slots=True)
class Stage:
    file: str
    text: str


def write_stages(folder: Path, stages: list[Stage]) -> list[Path]:
    """Write `stages`, and remove the second program's of an earlier dump: it would be taken for one of this plan."""
    written = {stage.file for stage in stages}
    for old in folder.glob(f"[0-9][0-9]-{COMBINE}.*"):
        if old.name not in written:
            old.unlink()
    for stage in stages:
        write_whole(folder / stage.file, stage.text)
    return [folder / stage.file for stage in stages]


def dump_call(call: Call, folder: Path) -> None:
    """Write the stages of a call on this CPU below `folder` as they are made, so that a failing one leaves those before
    it (the environment variable LOOM_DUMP)."""
    taken = {p.name for p in folder.iterdir()} if folder.is_dir() else set()
    names = itertools.chain([call.kernel.name], (f"{call.kernel.name}-{n}" for n in itertools.count(2)))
    own = folder / next(name for name in names if name not in taken)
    for stage in cpu_stages(call, program_for(call.kernel, _extents(call), device("cpu")).program):
        write_whole(own / stage.file, stage.text)


def cpu_stages(
    call: Call, program: SProgram, machine: Device | None = None, target: CpuTarget | None = None
) -> Iterator[Stage]:
    """All stages of a call on this CPU, or on the CPU that `machine` models and LLVM calls `target`."""
    from threadloom.par.text import print_module
    from threadloom.targets.cpu.between import steps_of
    from threadloom.targets.cpu.emit import emit_llvm
    from threadloom.targets.cpu.host import host_cpu
    from threadloom.targets.cpu.jit import compile_assembly

    yield from plan_stages(call.kernel, program)
    made_for = f"{MADE_FOR}{_described(call)}{_in_parts(program)}"
    for number, (step, arrays) in enumerate(steps_of(program, call.arrays, call.dims)):
        names = ((4, "par"), (5, "llvm"), (6, "asm"))
        par, ir, asm = (f"1{n}-{COMBINE}" if number else f"0{n}-{name}" for n, name in names)
        _, module = _lowered(arrays, call.dims, step, machine)
        yield Stage(f"{par}.par", f"; {made_for}\n{print_module(module)}")
        llvm = emit_llvm(module)
        yield Stage(f"{ir}.ll", f"; {made_for}\n{llvm}")
        yield Stage(f"{asm}.s", f"/* {made_for} */\n{compile_assembly(llvm, target or host_cpu().target)}")


def gpu_stages(kernel: Kernel, dims: dict[str, int], program: SProgram) -> list[Stage]:
    """All stages for an NVIDIA GPU, which need not be here: its CUDA C++ for packed, aligned arguments."""
    from threadloom.targets.cuda.compile import DeviceTensor, between_facts, facts_of

    facts = {}
    for tensor in kernel.tensors:
        shape = tuple(d if isinstance(d, int) else dims[d] for d in tensor.dims)
        strides = tuple(math.prod(shape[at + 1 :]) for at in range(len(shape)))
        facts[tensor.name] = facts_of(tensor, DeviceTensor(0, shape, strides))
    made_for = f"// {MADE_FOR}{_description(kernel, _shapes(kernel, dims))}\n"
    stages = [*plan_stages(kernel, program), Stage("04-cuda.cu", made_for + _source(program, facts, dims))]
    if program.combine is not None:
        source = _source(program.combine, facts | between_facts(program, dims), dims)
        stages.append(Stage(f"14-{COMBINE}.cu", made_for + source))
    return stages


def _source(program: SProgram, facts: dict[str, TensorFacts], dims: dict[str, int]) -> str:
    from threadloom.targets.cuda.compile import between_facts
    from threadloom.targets.cuda.emit_for import emitter

    return emitter(program)(program, facts | between_facts(program, dims), dims).text


def _shapes(kernel: Kernel, dims: dict[str, int]) -> dict[str, tuple[int, ...]]:
    """Shapes in memory of arrays without gaps."""
    from threadloom.arrays import stored_shape

    logical = {t.name: tuple(d if isinstance(d, int) else dims[d] for d in t.dims) for t in kernel.tensors}
    return {t.name: stored_shape(logical[t.name], t.dtype) for t in kernel.tensors}


def plan_stages(kernel: Kernel, program: SProgram) -> list[Stage]:
    """The stages that every device has."""
    from threadloom.sched.text import print_program
    from threadloom.task.text import print_graph
    from threadloom.tile.text import print_kernel

    stages = [
        Stage("01-tile.tile", print_kernel(kernel)),
        Stage("02-task.task", print_graph(program.graph)),
        Stage("03-sched.sprog", print_program(program)),
    ]
    if program.combine is not None:
        stages.append(Stage(f"12-{COMBINE}.task", print_graph(program.combine.graph)))
    return stages


# ---------------------------------------------------------------- running from a stage


def runner(path: Path, call: Call) -> Callable[[], None]:
    """A function that fills the outputs of `call`, compiled from the text of `path`."""
    text = _read(path)
    match path.suffix:
        case ".tile":
            from threadloom.tile.text import parse_text

            kernel = parse_text(text, str(path))
            _check_kernel(path, kernel, call)
            return _from_program(_planned(kernel, call), call)
        case ".task":
            return _from_program(_planned_graphs(_graphs(path, call), call), call)
        case ".sprog":
            return _from_program(_read_program(path, text, call), call)
        case ".par":
            _check_made_for(path, text, call)
            return _from_llvm(_llvm_of_par(path, text), call, path)
        case ".ll":
            _check_made_for(path, text, call)
            _check_llvm(path, text)
            return _from_llvm(text, call, path)
        case ".s":
            _check_made_for(path, text, call)
            module = _as_module_assembly(text)
            _check_assembly(path, text, module)
            try:
                return _from_llvm(module, call, path)
            except InternalError as error:  # a person wrote it
                raise CompileError(BAD_STAGE, f"{path.name}: {error}", why="it names what is not there") from None
        case ".cu":
            _check_made_for(path, text, call)
            return _from_cuda(path, text, call)
    raise CompileError(
        NOT_A_STAGE,
        f"{path.name} is no stage that can be run from",
        why="the ending says the level",
        try_="a file of `loom dump` ending in .tile, .task, .sprog, .par, .ll, .s or .cu",
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise CompileError(NOT_A_STAGE, f"{path.name} is not text") from None


def _check_kernel(path: Path, kernel: Kernel, call: Call) -> None:
    """An edited kernel computes with the call's arguments."""
    if (kernel.tensors, kernel.scalars) != (call.kernel.tensors, call.kernel.scalars):
        raise _other_parameters(path, kernel, call)


def _other_parameters(path: Path, kernel: Kernel, call: Call) -> CompileError:
    mine = {p.name: p for p in (*call.kernel.tensors, *call.kernel.scalars)}
    types = [
        f"{p.name} is {p.dtype.name} in it, and {mine[p.name].dtype.name} here"
        for p in (*kernel.tensors, *kernel.scalars)
        if p.name in mine and p.dtype != mine[p.name].dtype
    ]
    return CompileError(
        BAD_STAGE,
        f"{path.name} is of kernel {kernel.name} with other parameters than this call of {call.kernel.name}",
        why=next(iter(types), "tensors and scalars must have the names and dimensions that they have in the kernel"),
        try_="loom dump and loom run with the same KERNEL, --set and --dtype (a dump for a GPU is of f16)",
    )


def _described(call: Call) -> str:
    """What the code for a call depends on: extents, strides and dtypes are partly compiled into it."""
    arrays = call.arrays
    strides = {
        name: f" strides {' '.join(str(s) for s in array.strides)}"
        for name, array in arrays.items()
        if not array.flags.c_contiguous
    }
    return _description(call.kernel, {name: array.shape for name, array in arrays.items()}, strides)


def _description(
    kernel: Kernel, shapes: Mapping[str, tuple[int, ...]], strides: Mapping[str, str] | None = None
) -> str:
    parts = []
    for tensor in kernel.tensors:
        shape = ", ".join(str(n) for n in shapes[tensor.name])
        parts.append(f"{tensor.name}: {tensor.dtype.name}[{shape}]{(strides or {}).get(tensor.name, '')}")
    return f"{kernel.name}({', '.join([*parts, *(f'{s.name}: {s.dtype.name}' for s in kernel.scalars)])})"


def _check_made_for(path: Path, text: str, call: Call) -> None:
    """Refuse code for other arguments, which would read and write outside these. A text without the comment is the
    editor's own."""
    first = text.partition("\n")[0].strip("; /*")
    made_for, wanted = IN_PARTS.sub("", first.removeprefix(MADE_FOR)), _described(call)
    if first.startswith(MADE_FOR) and made_for != wanted:
        raise CompileError(
            BAD_STAGE,
            f"{path.name} is made for {made_for}, and this is a call of {wanted}",
            why="its code would read and write outside the arrays",
            try_="loom dump, with the same KERNEL, --shape, --set and --dtype",
        )


def _planned(source: Kernel | TaskGraph, call: Call, splits: bool = True) -> SProgram:
    return plan(source, _extents(call), device("cpu"), splits=splits).best


def _in_parts(program: SProgram) -> str:
    return "" if program.combine is None else f" in {program.partition.splits} parts"


def _plan_beside(path: Path) -> Path:
    plans = sorted(path.parent.glob("*.sprog"))
    if plans:
        return plans[0]
    raise CompileError(
        NOT_A_STAGE, f"beside {path.name} there is no .sprog", why="the plan says how the kernel is launched",
        try_="keep the files of a dump together",
    )  # fmt: skip


def _extents(call: Call) -> dict[str, int]:
    """The extents to plan for: nothing is planned for an empty dimension."""
    return {name: max(1, extent) for name, extent in call.dims.items()}


def _read_program(path: Path, text: str, call: Call) -> SProgram:
    """The edited plan; refused where the checker cannot prove it."""
    from threadloom.sched.check import refuse_unproved
    from threadloom.sched.text import parse
    from threadloom.task.build import build_task_graph

    beside = sorted(path.parent.glob("*.task"))
    graphs = _graphs(beside[0], call) if beside else (build_task_graph(call.kernel),)
    program = parse(text, graphs[0], str(path), *graphs[1:])
    refuse_unproved(program)
    return program


def _graphs(path: Path, call: Call) -> tuple[TaskGraph, ...]:
    """The graph of `path`; or that of the parts of a split reduction and that of their combination, one of them being
    `path` and the other one beside it."""
    from threadloom.task.text import parse_graph

    both = sorted(path.parent.glob("*.task"), key=lambda p: (COMBINE in p.name, p.name))
    paths = both if len(both) == 2 and COMBINE in both[1].name and path in both else [path]
    graphs = tuple(parse_graph(_read(p), str(p)) for p in paths)
    if len(graphs) == 1:
        _check_kernel(path, graphs[0].kernel, call)
        return graphs
    between = {t.name for t in graphs[0].kernel.tensors if t.access is Access.OUT}
    for graph in graphs:
        mine = {t for t in graph.kernel.tensors if t.name not in between}
        if not (mine <= set(call.kernel.tensors) and set(graph.kernel.scalars) <= set(call.kernel.scalars)):
            raise _other_parameters(path, graph.kernel, call)
    return graphs


def _planned_graphs(graphs: tuple[TaskGraph, ...], call: Call) -> SProgram:
    from dataclasses import replace

    first, *rest = (_planned(g, call) for g in graphs)
    if not rest:
        return first
    count = next(t.dims[0] for t in graphs[0].kernel.tensors if t.access is Access.OUT)
    return replace(first, partition=replace(first.partition, splits=count), combine=rest[0])


def _lowered(
    arrays: Mapping[str, np.ndarray], dims: Mapping[str, int], program: SProgram, machine: Device | None = None
) -> tuple[KernelPlan, Module]:
    from threadloom.targets.cpu.compile import cpu_schedule, form_for, lower
    from threadloom.targets.cpu.schedule import target_of

    schedule = cpu_schedule(program)
    return lower(schedule, form_for(schedule, arrays, dims), target_of(machine or device("cpu")))


def _llvm_of_par(path: Path, text: str) -> str:
    from threadloom.par.text import parse
    from threadloom.par.verify import problems
    from threadloom.targets.cpu.emit import emit_llvm

    module = parse(text, str(path))
    if found := problems(module):
        raise CompileError(BAD_STAGE, f"{path.name} is not well formed: {found[0]}")
    llvm = emit_llvm(module)
    _check_llvm(path, llvm)
    return llvm


def _check_llvm(path: Path, text: str) -> None:
    """Refuse what LLVM refuses, here, since a person wrote it."""
    import llvmlite.binding as llvm

    from threadloom.targets.cpu.lower.kernel import ENTRY

    context = llvm.create_context()
    try:
        module = llvm.parse_assembly(text, context)
        try:
            module.verify()
            defined = {f.name for f in module.functions if not f.is_declaration}
        finally:
            module.close()  # before its context: a traceback keeps both, and the collector may take that one first
    except RuntimeError as error:
        said = str(error).replace("<string>", path.name).strip()
        raise CompileError(BAD_STAGE, f"LLVM refuses {path.name}: {said}") from None
    if ENTRY not in defined:
        raise CompileError(BAD_STAGE, f"{path.name} defines no {ENTRY}", why="that is the function that is called")


def _check_assembly(path: Path, text: str, module: str) -> None:
    """Assemble in a process of its own, since LLVM ends the one in which it meets a wrong instruction; what is right is
    taken from the cache of objects afterwards."""
    from threadloom.targets.cpu.lower.kernel import ENTRY

    if f"{ENTRY}:" not in text:
        raise CompileError(BAD_STAGE, f"{path.name} defines no {ENTRY}", why="that is the function that is called")
    done = subprocess.run([sys.executable, "-c", ASSEMBLE], input=module, text=True, capture_output=True, check=False)
    if done.returncode:
        said = next((line for line in done.stderr.splitlines() if "error: " in line), done.stderr.strip())
        said = said.rpartition("error: ")[2]
        raise CompileError(BAD_STAGE, f"LLVM refuses {path.name}: {said.replace('<inline asm>', path.name)}")


ASSEMBLE = """\
import sys
import llvmlite.binding as llvm
from threadloom.targets.cpu.jit import object_for_host
llvm.initialize_native_asmparser()
object_for_host(sys.stdin.read())
"""


def _from_program(program: SProgram, call: Call) -> Callable[[], None]:
    return _running(program, call, {})


def _from_llvm(text: str, call: Call, path: Path) -> Callable[[], None]:
    """`path`, whose text it is, says which of two programs is meant, and has the plan of both beside it."""
    if IN_PARTS.search(_read(path).partition("\n")[0].strip("; /*")):
        plan_file = _plan_beside(path)
        program = _read_program(plan_file, _read(plan_file), call)
    else:
        program = _planned(call.kernel, call, splits=False)
    number = int(program.combine is not None and COMBINE in path.name)
    return _running(program, call, {number: text})


def _running(program: SProgram, call: Call, texts: Mapping[int, str]) -> Callable[[], None]:
    """The plan's programs one after the other; `texts`: LLVM IR in place of what the compiler makes of some."""
    from threadloom.targets.cpu.between import steps_of
    from threadloom.targets.cpu.compile import arguments_of, clear_accumulated, cpu_schedule, pack_arguments
    from threadloom.targets.cpu.emit import emit_llvm
    from threadloom.targets.cpu.jit import load
    from threadloom.targets.cpu.lower.kernel import ENTRY, argument_words

    ready = []
    for number, (step, arrays) in enumerate(steps_of(program, call.arrays, call.dims)):
        plan_, module = _lowered(arrays, call.dims, step)
        packed = pack_arguments(
            argument_words(plan_.kernel), arguments_of(cpu_schedule(step), arrays), call.dims, call.scalars
        )
        text = texts[number] if number in texts else emit_llvm(module)
        ready.append((load(text, [ENTRY]).function(ENTRY, None, ctypes.c_void_p), packed, arrays))

    def run() -> None:
        clear_accumulated(call.kernel, call.arrays, call.dims)
        for entry, packed, _ in ready:
            entry(ctypes.addressof(packed))

    return run


def _from_cuda(path: Path, text: str, call: Call) -> Callable[[], None]:
    """The edited CUDA C++, launched on GPU 0 as the plan beside it says; outputs are copied to the call's arrays."""
    from dataclasses import replace

    from threadloom.targets.cuda import nvrtc
    from threadloom.targets.cuda.compile import compile_program
    from threadloom.targets.cuda.launch_copies import OnGpu
    from threadloom.targets.cuda.time_plan import packed_facts

    plan_file = _plan_beside(path)
    program = _read_program(plan_file, _read(plan_file), call)
    kernel = compile_program(program, packed_facts(call.kernel, call.dims), dict(call.dims))
    edited = kernel.combine if kernel.combine is not None and COMBINE in path.name else kernel
    edited.source = replace(edited.source, text=text)
    try:
        edited.cubin = nvrtc.compile_source(text, edited.source.arch, path.name)
    except InternalError as error:  # a person wrote it
        raise CompileError(BAD_STAGE, f"NVRTC refuses {path.name}: {str(error).partition(chr(10))[2]}") from None
    on_gpu = OnGpu(call)

    def run() -> None:
        on_gpu.launch(kernel)
        on_gpu.fetch()

    return run


def _as_module_assembly(assembly: str) -> str:
    """LLVM IR that holds nothing but the text of an assembly file; LLVM's own assembler makes the object of it."""
    import llvmlite.binding as llvm

    llvm.initialize_native_asmparser()
    lines = (line.replace("\\", "\\5C").replace('"', "\\22") for line in assembly.splitlines())
    return "".join(f'module asm "{line}"\n' for line in lines)


# ---------------------------------------------------------------- the report


def report(name: str, dims: dict[str, int], outcome: Outcome, machine: Device) -> dict[str, object]:
    """What was chosen and why, for people (report.txt) and scripts (report.json)."""
    best = outcome.best
    return {
        "kernel": name,
        "device": machine.name,
        "policy": best.policy,
        "shape": dims,
        "tiles": {t.axis: t.extent for t in best.partition.tiles},
        "order": list(best.partition.order),
        "splits": best.partition.splits,
        "sequential": list(best.partition.sequential),
        "predicted_ns": best.predicted_ns,
        "loops": [
            {"loop": p.loop, "ii_cycles": p.ii_cycles, "stages": p.stages, "bounds_cycles": dict(p.bounds_cycles)}
            for p in best.loops
        ],
        "decisions": [list(d) for d in best.decisions],
        "search": {"partitions": outcome.counts.partitions, "orders": outcome.counts.orders,
                   "scheduled": outcome.counts.scheduled, "seconds": outcome.seconds},
        "rejected": dict(outcome.reasons),
    }  # fmt: skip


def report_stages(facts: dict[str, object], outcome: Outcome, machine: Device) -> list[Stage]:
    import json

    from threadloom.planning import best_timeline, reason_text
    from threadloom.sched.timeline_text import render_text

    lines = [render_text(best_timeline(outcome, machine, str(facts["kernel"]))), "", "decisions:"]
    lines += [f"  {key}: {value}" for key, value in outcome.best.decisions] or ["  none beside tiles and order"]
    lines += ["", "rejected:"]
    lines += [f"  {count} partitions: {reason_text(family)}" for family, count in outcome.reasons.items()] or ["  none"]
    return [
        Stage("report.txt", "\n".join(lines) + "\n"),
        Stage("report.json", json.dumps({"schema": "threadloom.report/1", **facts}, indent=2) + "\n"),
    ]
