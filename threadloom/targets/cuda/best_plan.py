"""The plan that a call's form of arguments runs: compiled, best first, until one's code is what was planned.

    form -> plans: measured, the model's, lent ones, the model's next -> compiled -> the first without a fault

Nothing is measured here.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

from threadloom.errors import CompileError, InternalError, slug
from threadloom.machine.devices import device as find_device
from threadloom.machine.model import Device, Figure
from threadloom.machine.shares import by_warps
from threadloom.sched.candidate import Candidate
from threadloom.sched.live_registers import live_bytes
from threadloom.sched.ops import Issue, SProgram
from threadloom.sched.search import plan, proved_program
from threadloom.targets.cuda.compile import CudaKernel, compile_program
from threadloom.targets.cuda.copy import TensorFacts
from threadloom.targets.cuda.faults import fault_of
from threadloom.targets.cuda.source_size import is_too_wide
from threadloom.targets.cuda.unsupported import NO_CODE, SharedMemoryShort
from threadloom.task.ops import Kind, Method
from threadloom.tile.ops import Kernel, Load, Store

NOT_COMPILED = slug("gpu-not-supported", "no plan of the kernel could be compiled for the GPU")

MANY_SHORT = 4  # plans short of shared memory, after which others that take less are made
MANY_SERIALISED = 4  # plans whose products the assembler runs one by one, after which warps do the products
MANY_WIDE = 4  # plans too wide to be compiled well, after which the best of them is taken
LEAST_PLANNED_BYTES = 32 * 1024  # of shared memory, below which plans are not made smaller
TOO_FEW_REGISTERS = "Insufficient registers"  # ptxas on a wgmma that does not fit the launch bounds
MOST_TRIED = 32  # plans compiled before one with faults is taken


def best_compiled(
    kernel: Kernel,
    dims: dict[str, int],
    facts: dict[str, TensorFacts],
    machine: Device,
    defines: tuple[str, ...],
    splits: bool,
) -> CudaKernel:
    """Compile the best plan whose code is what was planned. One with spills or serialised products is only taken where
    every plan of the search has some; spills of a plan that was measured, here or for a near shape, are in its time.
    Where none has code, warps do the products."""
    try:
        return _best_of_model(kernel, dims, facts, machine, defines, splits)
    except CompileError as error:
        if error.slug not in (NO_CODE, NOT_COMPILED) or by_warps(machine) is None:
            raise
        made = _by_warps(kernel, dims, facts, machine, defines, splits)
        if made is None:
            raise
        return made


def _best_of_model(
    kernel: Kernel,
    dims: dict[str, int],
    facts: dict[str, TensorFacts],
    machine: Device,
    defines: tuple[str, ...],
    splits: bool,
) -> CudaKernel:
    from threadloom.sched.reuse import is_measured

    fallback: CudaKernel | None = None
    reasons: list[str] = []
    short = serialised = wide = 0  # of these plans
    no_code: CompileError | None = None
    measured = is_measured(kernel, {n: max(1, e) for n, e in dims.items()}, machine)
    for number, made in enumerate(compiled(kernel, dims, facts, machine, defines, splits)):
        if isinstance(made, CudaKernel):
            borrowed = any(key == "borrowed_from" for key, _ in made.program.decisions)
            planned = (number == 0 and (measured or borrowed)) or find_device(made.program.device).fact("spills", False)
            fault = fault_of(made, spills=not planned)
            if not fault:
                return made
            reasons.append(fault)
            serialised += made.cubin.serialised
            wide += is_too_wide(made.source.text)
            if fallback is None or made.cubin.spill_bytes < fallback.cubin.spill_bytes:
                fallback = made
        elif isinstance(made, CompileError):
            no_code = no_code or (made if made.loc is not None else None)
            short += isinstance(made, SharedMemoryShort)
            reasons.append(made.what + (f" ({made.why})" if made.why else ""))
        else:
            reasons.append(made)
        tried = len(reasons)
        if short == tried >= MANY_SHORT or serialised == tried >= MANY_SERIALISED or wide == tried >= MANY_WIDE:
            break
    if serialised and serialised == len(reasons):
        return _by_warps(kernel, dims, facts, machine, defines, splits) or fallback
    if short and short == len(reasons) and (smaller := _with_less_memory(machine)) is not None:
        with suppress(CompileError):  # the reason is what was short here
            return _best_of_model(kernel, dims, facts, smaller, defines, splits)
    if fallback is None and no_code is not None:
        raise no_code  # of the best plan, at the line that it is about
    if fallback is None:
        raise CompileError(
            NOT_COMPILED,
            f"no plan of {kernel.name} for {machine.name} could be compiled",
            why="; ".join(dict.fromkeys(reasons)) or "the search made none",
            try_="other tile-friendly sizes, or run it on the CPU",
            loc=kernel.loc,
        )
    return fallback


def _with_less_memory(machine: Device) -> Device | None:
    """The device with half of its shared memory: code pads tiles to what products need, which plans do not count."""
    held = {m.name: m.capacity_bytes for m in machine.memories}.get("smem")
    if held is None or held.value < LEAST_PLANNED_BYTES:
        return None
    half = Figure(held.value // 2, f"half of what is {held.source}, for plans whose code takes more")
    memories = tuple(replace(m, capacity_bytes=half) if m.name == "smem" else m for m in machine.memories)
    return replace(machine, memories=memories)


def _by_warps(
    kernel: Kernel,
    dims: dict[str, int],
    facts: dict[str, TensorFacts],
    machine: Device,
    defines: tuple[str, ...],
    splits: bool,
) -> CudaKernel | None:
    """The best plan whose products each warp does for itself: no pipeline of products, which the assembler has to see
    through, no role that knows less than the others, and all else as good as it gets without. None where its code has
    faults, too."""
    simple = by_warps(machine)
    if simple is None:
        return None
    tried = compiled(kernel, dims, facts, simple, defines, splits)
    with suppress(CompileError):
        for made in itertools.islice(tried, MANY_SERIALISED):
            if isinstance(made, CudaKernel) and not fault_of(made):
                return made
    return None


def compiled(
    kernel, dims, facts, machine: Device, defines, splits: bool = True
) -> Iterator[CudaKernel | CompileError | str]:
    """Compiled plans, best first, or why one could not be; the first alone, since it nearly always serves, then those
    after which others are made where all are serialised, and then as many at a time as there are cores (NVRTC runs in
    parallel)."""

    def attempt(program) -> CudaKernel | CompileError | str:
        try:
            return compile_program(program, facts, dims, defines)
        except CompileError as error:
            return error
        except InternalError as error:
            if TOO_FEW_REGISTERS not in str(error):
                raise
            return "its instructions need more registers than its threads have"

    programs = programs_for(kernel, dims, facts, machine, splits)
    yield attempt(next(programs))
    cores = max(1, min(16, os.cpu_count() or 1))
    tried = 1
    with ThreadPoolExecutor(cores) as pool:
        while tried < MOST_TRIED:
            most = MANY_SERIALISED - tried if tried < MANY_SERIALISED else MOST_TRIED - tried
            batch = [p for _, p in zip(range(min(cores, most)), programs, strict=False)]
            if not batch:
                return
            tried += len(batch)
            yield from pool.map(attempt, batch)


def programs_for(
    kernel: Kernel, dims: dict[str, int], facts: dict[str, TensorFacts], machine: Device, splits: bool = True
):
    """Plans, best first: the measured one, the model's, such as were measured for other shapes, its next candidates."""
    from threadloom.sched.reuse import Origin, from_afar, program_for

    bulk = {name: f.aligned for name, f in facts.items()}
    extents = {n: max(1, e) for n, e in dims.items()}
    if all(bulk.values()):  # what was measured had aligned tensors
        chosen = program_for(kernel, extents, machine)
        allowed = chosen.origin is not Origin.MODEL and (splits or chosen.program.combine is None)
        if allowed and not unaligned_copies(chosen.program, facts, extents):
            yield chosen.program
    outcome = plan(kernel, extents, machine, strides_ok=bulk, splits=splits)
    while unaligned := unaligned_copies(outcome.best, facts, extents):
        bulk |= dict.fromkeys(unaligned, False)
        outcome = plan(kernel, extents, machine, strides_ok=bulk, splits=splits)
    yield outcome.best
    if all(bulk.values()):
        for program in from_afar(kernel, extents, machine, outcome.best.predicted_ns):
            if (splits or program.combine is None) and not unaligned_copies(program, facts, extents):
                yield program
    further = _further(kernel, extents, machine, bulk, outcome.candidates)
    for candidate in itertools.chain(outcome.candidates[1:], further):
        program = proved_program(candidate)
        if program is not None and not unaligned_copies(program, facts, extents):
            yield program


def _further(
    kernel: Kernel, dims: dict[str, int], machine: Device, bulk: dict[str, bool], tried: tuple[Candidate, ...]
) -> Iterator[Candidate]:
    """Partitions that the search did not schedule as they cannot win, now that all it did schedule have faults: first
    those that ask for fewer registers than any of these."""
    known = {_identity(c) for c in tried}
    least = min(map(_register_bytes, tried))
    wider = plan(kernel, dims, machine, strides_ok=bulk, breadth=len(tried) + MOST_TRIED, splits=False)
    new = [c for c in wider.candidates if _identity(c) not in known]
    yield from sorted(new, key=lambda c: _register_bytes(c) >= least)


def _identity(made: Candidate) -> tuple:
    return made.partition, made.context.granularity, made.context.device.name


def _register_bytes(made: Candidate) -> int:
    """Bytes of what one worker holds in registers: its tiles, and most of what an sTask needs for itself."""
    units, tasks = made.placement.units, made.context.graph.tasks
    own = (live_bytes(t, made.sizes, units[t.name].split) for t in tasks if t.kind is Kind.VECTOR)
    tiles = sum(p.bytes_per_slot for p in made.placement.places.values() if p.space == "reg")
    return tiles + max(own, default=0)


def unaligned_copies(program: SProgram, facts: dict[str, TensorFacts], extents: dict[str, int]) -> set[str]:
    """Tensors whose bulk copies would begin within 16 bytes. The planner takes the last dimension for the contiguous
    one, so it cannot see this of transposed tensors."""
    from threadloom.sched.boxes import has_rows
    from threadloom.sched.sizes import axis_extents, sizes_of

    graph = program.graph
    sizes = sizes_of(graph, program.partition, axis_extents(graph, extents))
    issued = {i.task for s in program.sections for i in s.instrs
              if isinstance(i, Issue) and i.method is Method.BULK_COPY}  # fmt: skip
    found = set()
    for op in (o for t in graph.tasks if t.name in issued for o in t.ops if isinstance(o, Load | Store)):
        if op.tensor not in facts:  # between two kernels
            continue
        dim = facts[op.tensor].contiguous_dim
        if 0 <= dim < len(op.subscripts) - 1:
            rest = (*op.subscripts[:dim], *op.subscripts[dim + 1 :])
            if not has_rows(replace(op, subscripts=(*rest, op.subscripts[dim])), graph, sizes):
                found.add(op.tensor)
    return found if program.combine is None else found | unaligned_copies(program.combine, facts, extents)
