"""Running a kernel from the (edited) text of a stage of a dump.

A text is read at its own level and goes on from there: an edited sProgram is proved before it is compiled, and is read
against the graph of the `.task` file beside it.
"""

from __future__ import annotations

import ctypes
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from threadloom.dump import COMBINE, IN_PARTS, MADE_FOR, described, extents_to_plan, lowered
from threadloom.errors import CompileError, InternalError, slug
from threadloom.machine.devices import device
from threadloom.sched.ops import SProgram
from threadloom.sched.search import plan
from threadloom.tile.ops import Access

if TYPE_CHECKING:
    from threadloom.cli.inputs import Problem
    from threadloom.lang.bind import Call
    from threadloom.machine.model import Device
    from threadloom.targets.cuda.compile import CudaKernel
    from threadloom.task.ops import TaskGraph
    from threadloom.tile.ops import Kernel

BAD_STAGE = slug("bad-stage", "an edited stage of a dump is not valid at its own level")
NOT_A_STAGE = slug("not-a-stage", "a file to run from is no stage of a dump")


PLANS = (".tile", ".task", ".sprog")  # stages that no target has seen yet


def runner(path: Path, call: Call, on_gpu: bool = False) -> Callable[[], None]:
    """A function that fills the outputs of `call`, compiled from the text of `path`. `on_gpu`: of `PLANS`, the GPU's
    code, which runs on copies on GPU 0 (as a .cu always does)."""
    text = _read(path)
    match path.suffix:
        case ".tile" | ".task" | ".sprog" if on_gpu:
            return _on_gpu(path, call)
        case ".tile" | ".task" | ".sprog":
            return _running(program_of(path, call, device("cpu"))[1], call, {})
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


def program_of(path: Path, call: Call | Problem, machine: Device) -> tuple[Kernel, SProgram]:
    """The plan that a .tile, .task or .sprog leads to, and the kernel that it is of. The first two are planned for
    `machine`; a .sprog is of the device that it names, which must be of the same architecture unless a CPU runs it."""
    match path.suffix:
        case ".tile":
            from threadloom.tile.text import parse_text
            from threadloom.tile.verify import verify

            kernel = parse_text(_read(path), str(path), own_places=True)
            _check_kernel(path, kernel, call)
            verify(kernel)
            return kernel, _planned(kernel, call, machine)
        case ".task":
            return call.kernel, _planned_graphs(_graphs(path, call), call, machine)
        case ".sprog":
            program = _read_program(path, _read(path), call)
            if machine.arch not in ("cpu", device(program.device).arch):
                raise CompileError(
                    BAD_STAGE,
                    f"{path.name} is a plan for {program.device}, which is no {machine.arch}",
                    try_=f"the .task beside it, or loom dump ... --device {machine.name}",
                )
            return call.kernel, program
    raise CompileError(
        NOT_A_STAGE, f"{path.name} comes after planning", why="the ending says the level", try_=", ".join(PLANS)
    )


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise CompileError(NOT_A_STAGE, f"{path.name} is not text") from None


def _check_kernel(path: Path, kernel: Kernel, call: Call | Problem) -> None:
    """An edited kernel computes with the call's arguments."""
    if (kernel.tensors, kernel.scalars) != (call.kernel.tensors, call.kernel.scalars):
        raise _other_parameters(path, kernel, call)


def _other_parameters(path: Path, kernel: Kernel, call: Call | Problem) -> CompileError:
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


def _check_made_for(path: Path, text: str, call: Call) -> None:
    """Refuse code for other arguments, which would read and write outside these. A text without the comment is the
    editor's own."""
    first = text.partition("\n")[0].strip("; /*")
    made_for, wanted = IN_PARTS.sub("", first.removeprefix(MADE_FOR)), described(call)
    if first.startswith(MADE_FOR) and made_for != wanted:
        raise CompileError(
            BAD_STAGE,
            f"{path.name} is made for {made_for}, and this is a call of {wanted}",
            why="its code would read and write outside the arrays",
            try_="loom dump, with the same KERNEL, --shape, --set and --dtype",
        )


def _planned(source: Kernel | TaskGraph, call: Call | Problem, machine: Device, splits: bool = True) -> SProgram:
    return plan(source, extents_to_plan(call), machine, splits=splits).best


def _plan_beside(path: Path) -> Path:
    plans = sorted(path.parent.glob("*.sprog"))
    if plans:
        return plans[0]
    raise CompileError(
        NOT_A_STAGE, f"beside {path.name} there is no .sprog", why="the plan says how the kernel is launched",
        try_="keep the files of a dump together",
    )  # fmt: skip


def _read_program(path: Path, text: str, call: Call | Problem) -> SProgram:
    """The edited plan; refused where the checker cannot prove it."""
    from threadloom.sched.check import refuse_unproved
    from threadloom.sched.text import parse
    from threadloom.task.build import build_task_graph

    beside = sorted(path.parent.glob("*.task"))
    graphs = _graphs(beside[0], call) if beside else (build_task_graph(call.kernel),)
    if not beside and (foreign := _foreign(text, graphs[0])):
        raise CompileError(
            NOT_A_STAGE,
            f"beside {path.name} there is no .task, and the plan is of another sTask-graph than the kernel as written",
            why=f"it names {foreign}",
            try_="keep the files of a dump together",
        )
    program = parse(text, graphs[0], str(path), *graphs[1:])
    refuse_unproved(program)
    return program


def _foreign(text: str, graph: TaskGraph) -> str:
    """What a plan's text names that `graph` has not: its kernel, or an sTask; "" where there is nothing."""
    named = re.match(r"\s*sprogram (\S+) on ", text)
    if named and named[1] != graph.kernel.name:
        return f"kernel {named[1]}"
    known = {task.name for task in graph.tasks}
    issued = re.findall(r"^\s*\d+: issue (\S+) on ", text, re.MULTILINE)
    return next((f"sTask {task}" for task in issued if task not in known), "")


def _graphs(path: Path, call: Call | Problem) -> tuple[TaskGraph, ...]:
    """The graph of `path`; or that of the parts of a split reduction and that of their combination, one of them being
    `path` and the other one beside it."""
    from threadloom.task.text import parse_graph
    from threadloom.task.verify import verify_graph

    both = sorted(path.parent.glob("*.task"), key=lambda p: (COMBINE in p.name, p.name))
    paths = both if len(both) == 2 and COMBINE in both[1].name and path in both else [path]
    graphs = tuple(parse_graph(_read(p), str(p)) for p in paths)
    for graph in graphs:
        verify_graph(graph)
    if len(graphs) == 1:
        _check_kernel(path, graphs[0].kernel, call)
        return graphs
    between = {t.name for t in graphs[0].kernel.tensors if t.access is Access.OUT}
    for graph in graphs:
        mine = {t for t in graph.kernel.tensors if t.name not in between}
        if not (mine <= set(call.kernel.tensors) and set(graph.kernel.scalars) <= set(call.kernel.scalars)):
            raise _other_parameters(path, graph.kernel, call)
    return graphs


def _planned_graphs(graphs: tuple[TaskGraph, ...], call: Call | Problem, machine: Device) -> SProgram:
    from dataclasses import replace

    first, *rest = (_planned(g, call, machine) for g in graphs)
    if not rest:
        return first
    count = next(t.dims[0] for t in graphs[0].kernel.tensors if t.access is Access.OUT)
    return replace(first, partition=replace(first.partition, splits=count), combine=rest[0])


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


def _from_llvm(text: str, call: Call, path: Path) -> Callable[[], None]:
    """`path`, whose text it is, says which of two programs is meant, and has the plan of both beside it."""
    if IN_PARTS.search(_read(path).partition("\n")[0].strip("; /*")):
        plan_file = _plan_beside(path)
        program = _read_program(plan_file, _read(plan_file), call)
    else:
        program = _planned(call.kernel, call, device("cpu"), splits=False)
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
        plan_, module = lowered(arrays, call.dims, step)
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


def _on_gpu(path: Path, call: Call) -> Callable[[], None]:
    """The code of an edited stage that is planned for GPU 0."""
    from threadloom.targets.cuda.compile import compile_program
    from threadloom.targets.cuda.launch import model_of
    from threadloom.targets.cuda.time_plan import packed_facts

    _, program = program_of(path, call, model_of(0))
    return _launching(compile_program(program, packed_facts(call.kernel, call.dims), dict(call.dims)), call)


def _from_cuda(path: Path, text: str, call: Call) -> Callable[[], None]:
    """The edited CUDA C++, launched on GPU 0 as the plan beside it says."""
    from dataclasses import replace

    from threadloom.targets.cuda import nvrtc
    from threadloom.targets.cuda.compile import compile_program
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
    return _launching(kernel, call)


def _launching(kernel: CudaKernel, call: Call) -> Callable[[], None]:
    """Launches on copies of the call's arrays; outputs are copied back."""
    from threadloom.targets.cuda.launch_copies import OnGpu

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
