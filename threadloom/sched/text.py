"""The text form of sPrograms: one that a person can read and edit. `parse(print_program(p), p.graph) == p`.

    sprogram matmul on h200 by joint:greedy, predicted 190234.5 ns
    partition order m n, group 1, splits 1, workers 2, cluster 1, persistent
    tile m 128, worker 64
    tile n 256
    role worker0 worker, 4 warps, 240 registers
    buffer a of a in smem, 16384 bytes, 4 slots, swizzle-128
    buffer acc.worker0 of acc in reg, 65536 bytes, 1 slots, accumulator, role worker0
    signal full.a mbarrier, 4 slots, 1 arrivals, 16384 bytes
    loop 1 ii 1024.0 cycles, 2 stages
      start dot@worker0 903.0
      bound resource:tc 1024.0
    section loop 1 of worker0
      0: wait full.a for dependence load_a -> dot over a
      0: issue dot on tc by matrix, completes tc.group
      1: wait tc.group, 1 pending for slot-free dot -> load_a over a, distance 4
      1: arrive empty.a for slot-free dot -> load_a over a, distance 4

The number before an instruction is its stage. An empty name is written `-`; `#` begins a comment. The task graph is a
text of its own (level task); the parser takes it as an argument. Where a reduction is done in parts, a line `then` and
the program that combines them follow.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from threadloom.errors import CompileError, slug
from threadloom.machine.model import Completion
from threadloom.sched.ops import (
    Arrive,
    AxisTile,
    Buffer,
    Fence,
    Inner,
    Instr,
    Issue,
    LoopPlan,
    Partition,
    Reason,
    Role,
    Section,
    Signal,
    SProgram,
    Wait,
    Why,
)
from threadloom.source import Loc
from threadloom.task.ops import Method, TaskGraph

THEN = "then"
BAD_TEXT = slug("bad-schedule-text", "the text of an sProgram cannot be read")

# ---------------------------------------------------------------- printing


def print_program(program: SProgram) -> str:
    head = f"sprogram {program.graph.kernel.name} on {program.device} by {_name(program.policy)}"
    lines = [f"{head}, predicted {program.predicted_ns!r} ns", _partition(program.partition)]
    for tile in program.partition.tiles:
        share = "" if tile.worker_extent == tile.extent else f", worker {tile.worker_extent}"
        lines.append(f"tile {tile.axis} {tile.extent}{share}")
    lines += [f"decide {key} = {value}" for key, value in program.decisions]
    lines += [f"role {r.name} {r.kind}, {r.warps} warps, {r.registers} registers" for r in program.roles]
    lines += [_buffer(b) for b in program.buffers]
    lines += [_signal(s) for s in program.signals]
    for plan in program.loops:
        most = f", at most {plan.most_trips} trips" if plan.most_trips else ""
        lines.append(f"loop {plan.loop} ii {plan.ii_cycles!r} cycles, {plan.stages} stages{most}")
        lines += [f"  start {name} {cycles!r}" for name, cycles in plan.starts_cycles]
        lines += [f"  bound {name} {cycles!r}" for name, cycles in plan.bounds_cycles]
    for section in program.sections:
        lines.append(f"section loop {section.loop} of {section.role}")
        lines += [f"  {instr.stage}: {_instr(instr)}" for instr in section.instrs]
    text = "\n".join(lines) + "\n"
    return text if program.combine is None else f"{text}{THEN}\n{print_program(program.combine)}"


def _name(name: str) -> str:
    return name or "-"


def _partition(p: Partition) -> str:
    parts = [f"order {' '.join(p.order) or '-'}"]
    if p.sequential:
        parts.append(f"sequential {' '.join(p.sequential)}")
    parts += [f"group {p.group}", f"splits {p.splits}", f"workers {p.workers}", f"cluster {p.cluster}"]
    parts += ["persistent"] if p.persistent else []
    parts += ["longest-first"] if p.longest_first else []
    parts += ["begins-ahead"] if p.begins_ahead else []
    parts += ["backwards"] if p.backwards else []
    return f"partition {', '.join(parts)}"


def _buffer(b: Buffer) -> str:
    role = f", role {b.role}" if b.role else ""
    multicast = f", multicast {b.multicast}" if b.multicast != 1 else ""
    size = f"{b.bytes_per_slot} bytes, {b.slots} slots, {b.layout}"
    return f"buffer {b.name} of {b.tile} in {b.space}, {size}{role}{multicast}"


def _signal(s: Signal) -> str:
    return f"signal {s.name} {s.kind}, {s.slots} slots, {s.arrivals} arrivals, {s.bytes} bytes"


def _instr(instr: Instr) -> str:
    match instr:
        case Issue(task=task, seu=seu, method=method, completes=completes):
            return f"issue {task} on {seu} by {method}" + (f", completes {completes}" if completes else "")
        case Wait(signal=signal, reason=reason, pending=pending):
            return f"wait {signal}" + (f", {pending} pending" if pending else "") + _reason(reason)
        case Arrive(signal=signal, reason=reason):
            return f"arrive {signal}{_reason(reason)}"
        case Fence(buffer=buffer, before=before, after=after, reason=reason):
            return f"fence {buffer} {before} -> {after}{_reason(reason)}"
        case Inner(loop=loop, ahead=ahead, early=early):
            return f"run loop {loop}" + (f", {ahead} ahead, {early} early" if ahead or early else "")


def _reason(r: Reason) -> str:
    distance = f", distance {r.distance}" if r.distance else ""
    return f" for {r.why} {_name(r.src)} -> {_name(r.dst)} over {_name(r.buffer)}{distance}"


# ---------------------------------------------------------------- parsing

FLAGS = ("persistent", "longest-first", "begins-ahead", "backwards")  # of a partition, in the order of its fields
N, WORD, REAL = r"(\d+)", r"(\S+?)", r"([-+.\deinfa]+)"
REASON = rf" for {WORD} {WORD} -> {WORD} over {WORD}(?:, distance {N})?"
HEAD = re.compile(rf"sprogram {WORD} on {WORD} by (.+), predicted {REAL} ns")
TILE = re.compile(rf"tile {WORD} {N}(?:, worker {N})?")
DECIDE = re.compile(r"decide (\S+) = (.*)")
ROLE = re.compile(rf"role {WORD} {WORD}, {N} warps, {N} registers")
BUFFER = re.compile(
    rf"buffer {WORD} of {WORD} in {WORD}, {N} bytes, {N} slots, {WORD}(?:, role {WORD})?(?:, multicast {N})?"
)
SIGNAL = re.compile(rf"signal {WORD} {WORD}, {N} slots, {N} arrivals, {N} bytes")
LOOP = re.compile(rf"loop {N} ii {REAL} cycles, {N} stages(?:, at most {N} trips)?")
FIGURE = re.compile(rf"(start|bound) (.+) {REAL}")
SECTION = re.compile(rf"section loop {N} of {WORD}")
STAGED = re.compile(r"(\d+): (.*)")
ISSUE = re.compile(rf"issue {WORD} on {WORD} by {WORD}(?:, completes {WORD})?")
WAIT = re.compile(rf"wait {WORD}(?:, {N} pending)?{REASON}")
ARRIVE = re.compile(rf"arrive {WORD}{REASON}")
FENCE = re.compile(rf"fence {WORD} {WORD} -> {WORD}{REASON}")
RUN = re.compile(rf"run loop {N}(?:, {N} ahead, {N} early)?")


def parse(text: str, graph: TaskGraph, file: str = "<schedule>", after: TaskGraph | None = None) -> SProgram:
    """The sProgram of `text` over `graph`; a CompileError names the first line that cannot be read. `after`: the graph
    of the program that combines the parts, where there is one."""
    parsers = [_Parser(graph, file)]
    for number, raw in enumerate(text.splitlines(), start=1):
        line = re.sub(r"(^|\s)#.*", "", raw).strip()
        if line == THEN and after is not None and len(parsers) == 1:
            parsers.append(_Parser(after, file))
        elif line:
            parsers[-1].line(line, number, indent=len(raw) - len(raw.lstrip()) + 1)
    program, *rest = [p.finish() for p in parsers]
    return replace(program, combine=rest[0]) if rest else program


class _Parser:
    """Takes lines in order; the last `loop` or `section` line says what an inner line belongs to."""

    def __init__(self, graph: TaskGraph, file: str):
        self.graph, self.file = graph, file
        self.head: tuple[str, str, float] | None = None
        self.partition = Partition(())
        self.tiles: list[AxisTile] = []
        self.decisions: list[tuple[str, str]] = []
        self.roles: list[Role] = []
        self.buffers: list[Buffer] = []
        self.signals: list[Signal] = []
        self.loops: list[tuple[int, float, int, list[tuple[str, float]], list[tuple[str, float]], int]] = []
        self.sections: list[tuple[int, str, list[Instr]]] = []
        self.rules: list[tuple[re.Pattern[str], Callable[..., None]]] = [
            (HEAD, self._head), (TILE, self._tile), (DECIDE, lambda key, value: self.decisions.append((key, value))),
            (ROLE, lambda n, kind, w, r: self.roles.append(Role(n, kind, int(w), int(r)))),
            (BUFFER, self._buffer), (SIGNAL, self._signal), (LOOP, self._loop), (FIGURE, self._figure),
            (SECTION, lambda loop, role: self.sections.append((int(loop), role, []))), (STAGED, self._staged),
        ]  # fmt: skip

    def line(self, line: str, number: int, indent: int) -> None:
        self.loc = Loc(self.file, number, indent, indent + len(line))
        if line.startswith("partition "):
            self._partition(line.removeprefix("partition "))
            return
        for pattern, take in self.rules:
            if found := pattern.fullmatch(line):
                try:
                    take(*found.groups())
                except (ValueError, IndexError) as broken:
                    raise self.error(line, str(broken)) from broken
                return
        raise self.error(line, "no line of an sProgram looks like this")

    def error(self, line: str, why: str) -> CompileError:
        return CompileError(
            BAD_TEXT, f"cannot read {line!r}", why=why, try_="compare with a dump of level sched", loc=self.loc
        )

    def finish(self) -> SProgram:
        if self.head is None:
            self.loc = Loc(self.file, 1)
            raise self.error("", "the first line must be `sprogram NAME on DEVICE by POLICY, predicted T ns`")
        device, policy, predicted_ns = self.head
        p = self.partition
        tiles = tuple(self.tiles)
        return SProgram(
            device=device,
            graph=self.graph,
            partition=Partition(
                tiles, p.sequential, p.order, p.group, p.splits, p.workers, p.cluster, p.persistent, p.longest_first,
                p.begins_ahead, p.backwards,
            ),
            roles=tuple(self.roles),
            buffers=tuple(self.buffers),
            signals=tuple(self.signals),
            sections=tuple(Section(loop, role, tuple(instrs)) for loop, role, instrs in self.sections),
            loops=tuple(
                LoopPlan(loop, ii, stages, tuple(starts), tuple(bounds), most)
                for loop, ii, stages, starts, bounds, most in self.loops
            ),
            policy=policy,
            predicted_ns=predicted_ns,
            decisions=tuple(self.decisions),
        )

    # ------------------------------------------------------------ lines

    def _head(self, kernel: str, device: str, policy: str, ns: str) -> None:
        if kernel != self.graph.kernel.name:
            raise ValueError(f"the task graph is of kernel {self.graph.kernel.name}")
        self.head = (device, _empty(policy), float(ns))

    def _partition(self, text: str) -> None:
        fields: dict[str, str] = {}
        for part in text.split(", "):
            key, _, value = part.partition(" ")
            fields[key] = value
        known = {"order", "sequential", "group", "splits", "workers", "cluster", *FLAGS}
        numbers = [fields.get(key, "1") for key in ("group", "splits", "workers", "cluster")]
        if unknown := set(fields) - known:
            raise self.error(f"partition {text}", f"a partition has no {', '.join(sorted(unknown))}")
        if not all(n.isdigit() for n in numbers):
            raise self.error(f"partition {text}", "group, splits, workers and cluster are numbers")
        order = tuple(a for a in fields.get("order", "-").split() if a != "-")
        sequential = tuple(fields.get("sequential", "").split())
        group, splits, workers, cluster = map(int, numbers)
        flags = (flag in fields for flag in FLAGS)
        self.partition = Partition((), sequential, order, group, splits, workers, cluster, *flags)

    def _tile(self, axis: str, extent: str, worker: str | None) -> None:
        self.tiles.append(AxisTile(axis, int(extent), int(worker or extent)))

    def _buffer(
        self, name: str, tile: str, space: str, size: str, slots: str, layout: str, role: str | None, cast: str | None
    ) -> None:
        self.buffers.append(Buffer(name, tile, space, int(size), int(slots), layout, role or "", int(cast or 1)))

    def _signal(self, name: str, kind: str, slots: str, arrivals: str, size: str) -> None:
        self.signals.append(Signal(name, Completion(kind), int(slots), int(arrivals), int(size)))

    def _loop(self, loop: str, ii: str, stages: str, most: str | None) -> None:
        self.loops.append((int(loop), float(ii), int(stages), [], [], int(most or 0)))

    def _figure(self, which: str, name: str, cycles: str) -> None:
        self.loops[-1][3 if which == "start" else 4].append((name, float(cycles)))

    def _staged(self, stage: str, text: str) -> None:
        self.sections[-1][2].append(_parse_instr(text, int(stage)))


def _empty(name: str) -> str:
    return "" if name == "-" else name


def _make_reason(why: str, src: str, dst: str, buffer: str, distance: str | None) -> Reason:
    return Reason(Why(why), _empty(src), _empty(dst), _empty(buffer), int(distance or 0))


def _parse_instr(text: str, stage: int) -> Instr:
    if m := ISSUE.fullmatch(text):
        return Issue(m[1], m[2], Method(m[3]), stage, m[4] or "")
    if m := WAIT.fullmatch(text):
        return Wait(m[1], _make_reason(*m.groups()[2:]), stage, int(m[2] or 0))
    if m := ARRIVE.fullmatch(text):
        return Arrive(m[1], _make_reason(*m.groups()[1:]), stage)
    if m := FENCE.fullmatch(text):
        return Fence(m[1], m[2], m[3], _make_reason(*m.groups()[3:]), stage)
    if m := RUN.fullmatch(text):
        return Inner(int(m[1]), stage, int(m[2] or 0), int(m[3] or 0))
    raise ValueError("this is no instruction")
