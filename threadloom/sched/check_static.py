"""Conditions on an sProgram that need no execution: names, places of instructions, units, memory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from threadloom.machine.model import GROUPS, SEU, Completion, Device
from threadloom.sched import decisions
from threadloom.sched.check_clusters import check_clusters
from threadloom.sched.check_core import check_core
from threadloom.sched.check_findings import Finding, Findings, along
from threadloom.sched.ops import Arrive, Fence, Inner, Instr, Issue, Section, Signal, SProgram, Wait
from threadloom.sched.semantics import Places, describe, stages_of
from threadloom.task.ops import Kind, STask

STORES = (Kind.STORE, Kind.ATOMIC)


def check_static(program: SProgram, device: Device) -> Findings:
    findings = Findings()
    for check in (check_names, check_decisions, check_core, check_units, check_sections, check_signals, check_clusters):
        check(program, device, findings)
        if findings:
            return findings  # the later ones rely on the earlier ones
    check_capacity(program, device, findings)
    return findings


def instructions(program: SProgram) -> Iterator[tuple[Section, Instr]]:
    for section in program.sections:
        for instr in section.instrs:
            yield section, instr


def check_names(program: SProgram, device: Device, findings: Findings) -> None:
    """Everything that is named exists."""
    known = {
        "task": {task.name for task in program.graph.tasks},
        "sEU": {unit.name for unit in device.seus},
        "signal": {signal.name for signal in program.signals},
        "buffer": {buffer.name for buffer in program.buffers},
        "role": {role.name for role in program.roles},
        "loop": {loop.id for loop in program.graph.loops},
        "memory": {memory.name for memory in device.memories},
        "tile": {tile.name for tile in program.graph.tiles},
    }

    def need(kind: str, name: str | int, role: str) -> None:
        if name not in known[kind]:
            findings.add(Finding("unknown-name", f"there is no {kind} {name!r}", str(name), "", "", role))

    for section in program.sections:
        need("role", section.role, section.role)
        need("loop", section.loop, section.role)
    for section, instr in instructions(program):
        match instr:
            case Issue(task=task, seu=seu, completes=completes):
                need("task", task, section.role)
                need("sEU", seu, section.role)
                if completes:
                    need("signal", completes, section.role)
            case Wait(signal=signal) | Arrive(signal=signal):
                need("signal", signal, section.role)
            case Fence(buffer=buffer):
                need("buffer", buffer, section.role)
            case Inner(loop=loop):
                need("loop", loop, section.role)
    for buffer in program.buffers:
        need("memory", buffer.space, buffer.role)
        need("tile", buffer.tile, buffer.role)
        if buffer.role:
            need("role", buffer.role, buffer.role)
        if buffer.slots < 1:
            message = f"buffer {buffer.name} has {buffer.slots} slots"
            findings.add(Finding("no-slots", message, buffer=buffer.name))


def check_decisions(program: SProgram, _device: Device, findings: Findings) -> None:
    """Every decision is one that there is, and what it says of numbers and names can be read."""
    for key, value in program.decisions:
        if key not in decisions.TABLE:
            known = ", ".join(decisions.TABLE)
            findings.add(Finding("unknown-decision", f"there is no decision {key!r} (there are {known})", key))
        elif key == "prefetch" and not decisions.PREFETCH.fullmatch(value):
            message = f"prefetch = {value} is not of the form NAME DISTANCE l1|l2|l3, as k 1 l2"
            findings.add(Finding("bad-decision", message, value))


def check_units(program: SProgram, device: Device, findings: Findings) -> None:
    """Each Issue is possible on its unit, and says how one learns that it is done."""
    tasks = {task.name: task for task in program.graph.tasks}
    units = {unit.name: unit for unit in device.seus}
    signals = {signal.name: signal for signal in program.signals}
    places = Places(program)
    for section, instr in instructions(program):
        if isinstance(instr, Issue):
            task, unit = tasks[instr.task], units[instr.seu]
            tiles = (places.tile(value) for value in (*task.reads, *task.writes) if unit.is_async)
            for tile in (t for t in tiles if t and places.tiles[t].type.axes):
                if not places.buffer(tile, section.role).space:
                    message = f"{instr.task} on {instr.seu} is asynchronous, and tile {tile} has no buffer"
                    findings.add(Finding("no-place", message, instr.task, "", tile, section.role))
            if instr.method not in unit.methods or instr.method not in task.methods:
                message = f"{instr.task} cannot run on {instr.seu} by {instr.method}"
                findings.add(Finding("wrong-unit", message, instr.task, "", "", section.role))
            if why := _wrong_completion(task, unit, signals.get(instr.completes)):
                message = f"{instr.task} on {instr.seu} {why}"
                findings.add(Finding("wrong-completion", message, instr.task, "", "", section.role))


def _wrong_completion(task: STask, unit: SEU, signal: Signal | None) -> str:
    if not unit.is_async:
        if signal is None or signal.kind is Completion.MBARRIER:
            return ""
        return f"is synchronous and cannot complete at {signal.name} ({signal.kind})"
    if signal is None:
        return "is asynchronous and completes at no signal"
    if signal.kind is unit.completion or (task.kind in STORES and signal.kind is Completion.COPY_GROUP):
        return ""
    return f"completes by {unit.completion}, not at {signal.name} ({signal.kind})"


def check_sections(program: SProgram, _device: Device, findings: Findings) -> None:
    """One section per role and loop; tasks and inner loops stand in their own loop; every part of a loop is run."""
    loops = {loop.id: loop for loop in program.graph.loops}
    tasks = {task.name: task for task in program.graph.tasks}
    seen: set[tuple[int, str]] = set()
    for section in program.sections:
        key = (section.loop, section.role)
        if key in seen:
            message = f"role {section.role} has two sections of loop {section.loop}"
            findings.add(Finding("two-sections", message, role=section.role))
        seen.add(key)
        planned = next((plan.stages for plan in program.loops if plan.loop == section.loop), None)
        for instr in section.instrs:
            if instr.stage < 0 or (planned is not None and instr.stage >= planned):
                message = f"{describe(instr)} has stage {instr.stage}, loop {section.loop} has {planned}"
                findings.add(Finding("wrong-stage", message, describe(instr), role=section.role))
            if isinstance(instr, Issue) and tasks[instr.task].loop != section.loop:
                message = f"{instr.task} belongs to loop {tasks[instr.task].loop}, not to loop {section.loop}"
                findings.add(Finding("wrong-loop", message, instr.task, role=section.role))
            if isinstance(instr, Inner) and loops[instr.loop].parent != section.loop:
                message = f"loop {instr.loop} is not inside loop {section.loop}"
                findings.add(Finding("wrong-loop", message, str(instr.loop), role=section.role))
        for message in _wrong_beginnings(program, section):
            findings.add(Finding("wrong-ahead", message, role=section.role))
    for loop, role in seen:
        parent = loops[loop].parent
        if parent is not None:
            body = next((s.instrs for s in program.sections if (s.loop, s.role) == (parent, role)), ())
            times = sum(isinstance(i, Inner) and i.loop == loop for i in body)
            if times != 1:
                message = f"role {role} runs loop {loop} {times} times in each instance of loop {parent}"
                findings.add(Finding("inner-count", message, str(loop), role=role))


def _wrong_beginnings(program: SProgram, section: Section) -> list[str]:
    """What an Inner that begins the next run of its loop asks for and cannot have."""
    wrong = []
    for position, instr in enumerate(section.instrs):
        if not isinstance(instr, Inner) or (instr.ahead, instr.early) == (0, 0):
            continue
        inner = next((s.instrs for s in program.sections if (s.loop, s.role) == (instr.loop, section.role)), ())
        early = section.instrs[max(0, position - instr.early) : position]
        if not 0 <= instr.ahead <= len(inner) or not 0 <= instr.early <= position:
            wrong.append(f"loop {instr.loop} has no {instr.ahead} instructions, or {instr.early} before its run")
        if stages_of(program, section.loop) > 1 or len({i.stage for i in inner}) < 2:
            wrong.append(f"only a loop of several stages in one of one stage can be begun early, not loop {instr.loop}")
        if any(isinstance(i, Inner) for i in (*early, *inner[: instr.ahead])):
            wrong.append(f"a run of a loop cannot be begun with another loop in loop {instr.loop}")
    return wrong


def check_signals(program: SProgram, _device: Device, findings: Findings) -> None:
    """A ring signal is used in one loop; waits and arrivals suit the kind of the signal."""
    signals = {signal.name: signal for signal in program.signals}
    used: dict[str, set[int]] = defaultdict(set)
    for section, instr in instructions(program):
        match instr:
            case Issue(completes=name) if name in signals:
                used[name].add(section.loop)
            case Wait(signal=name, reason=reason, pending=pending):
                used[name].add(section.loop)
                if pending < 0 or (pending and signals[name].kind not in GROUPS):
                    message = f"{describe(instr)}: pending={pending} on a signal of kind {signals[name].kind}"
                    findings.add(along(reason, "wrong-pending", message, section.role))
            case Arrive(signal=name, reason=reason):
                used[name].add(section.loop)
                if signals[name].kind is not Completion.MBARRIER:
                    message = f"a role cannot arrive at {name}, which is of kind {signals[name].kind}"
                    findings.add(along(reason, "wrong-signal", message, section.role))
    for name, loops in used.items():
        signal = signals[name]
        if signal.kind is Completion.PROGRAM_ORDER:
            findings.add(Finding("wrong-signal", f"{name} is of kind {signal.kind}, which is no signal", buffer=name))
        if signal.kind is Completion.MBARRIER and len(loops) > 1:
            message = f"ring signal {name} is used in loops {sorted(loops)}; it counts instances of one"
            findings.add(Finding("signal-in-two-loops", message, buffer=name))
    for section in program.sections:
        if stages_of(program, section.loop) < 1:
            findings.add(Finding("wrong-stage", f"loop {section.loop} has no stage", role=section.role))


def check_capacity(program: SProgram, device: Device, findings: Findings) -> None:
    """Buffers fit their memories; registers also fit each role's own budget."""
    reserved = int(device.fact("smem_reserved_bytes", 0) or 0)
    for memory in device.memories:
        granule = max(1, memory.granule_bytes)
        sizes: dict[str, int] = defaultdict(int)
        for buffer in program.buffers:
            if buffer.space == memory.name:
                rounded = -(-buffer.bytes_per_slot // granule) * granule * buffer.slots
                sizes[buffer.role if memory.per == "role" else ""] += rounded
        capacity = int(memory.capacity_bytes.value) - (reserved if memory.name == "smem" else 0)
        for role, size_bytes in sizes.items():
            where = f"{memory.name} of role {role}" if role else memory.name
            if size_bytes > capacity:
                message = f"buffers take {size_bytes} bytes of {where}, which has {capacity}"
                findings.add(Finding("out-of-memory", message, buffer=memory.name, role=role))
            budget = next((4 * 32 * r.warps * r.registers for r in program.roles if r.name == role), 0)
            if memory.name == "reg" and 0 < budget < size_bytes and not device.fact("spills", False):
                message = f"buffers take {size_bytes} bytes of registers of role {role}, which has {budget}"
                findings.add(Finding("out-of-registers", message, buffer=memory.name, role=role))
