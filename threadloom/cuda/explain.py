"""What the compiler did with each kernel of a CUDA source, line by line, read off the passes themselves.

    kernel layer(float const*, ...), the version for arrays that do not overlap and a block of one layer
      line 9   barrier removed
      line 10  kept: %t, float, 4 bytes per thread, across line 11
      line 11  barrier stays: store (line 8) before and load (line 12) behind

Nothing is decided here: the pipeline runs as it always does, one version of one kernel at a time, and its modules are
compared before and after each pass; reasons are those that passes gave to `decline`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from threadloom.cuda import compile_unit, front, launch_effects
from threadloom.cuda.front import SourceOptions
from threadloom.cuda.kernel import APART, GENERAL, LAUNCHED, is_kernel
from threadloom.cuda.launch_effects import PointerEffect
from threadloom.cuda.lower import pipeline as lower
from threadloom.cuda.lower.effects import Memory
from threadloom.cuda.lower.separators import collective_scope, meets
from threadloom.cuda.lower.split import Split
from threadloom.cuda.lower.watch_waits import waiting_loops
from threadloom.cuda.optimize import pipeline as optimize
from threadloom.cuda.optimize.global_index import MOST_THREADS
from threadloom.cuda.optimize.specialize import Specialize
from threadloom.cuda.optimize.specialize_launch import SpecializeLaunch
from threadloom.par.ops import (
    Alloca,
    Barrier,
    Block,
    Const,
    For,
    Function,
    If,
    Leaf,
    Level,
    Module,
    Op,
    Operand,
    Parallel,
    Value,
    Vector,
    While,
)
from threadloom.par.passes import Result, run_passes
from threadloom.par.printing import type_text
from threadloom.par.result_types import size_bytes
from threadloom.par.text import print_op
from threadloom.par.walk import arguments, operands, regions, results, walk
from threadloom.source import Loc


@dataclass(frozen=True, slots=True)
class Remark:
    """One thing about one source line. `kind`: barrier removed, barrier stays, kept, ... (KINDS below)."""

    kind: str
    loc: Loc | None
    text: str = ""

    @property
    def line(self) -> int:
        return self.loc.line if self.loc else 0


@dataclass(frozen=True, slots=True)
class Explained:
    """One version of one kernel."""

    kernel: str  # mangled
    version: str  # "", or for which launches
    loc: Loc | None
    remarks: tuple[Remark, ...]
    kept_bytes: int  # per thread, over all cuts


KINDS = (
    "barrier added",
    "barrier removed",
    "barrier moved",
    "barrier stays",
    "kept",
    "expanded",
    "forwarded",
    "dead store",
    "hoisted",
    "vectorised",
    "warp",
    "waits",
    "batched",
    "passes",
    "declined",
)


def explain(path: str, options: SourceOptions | None = None) -> list[Explained]:
    """What happens to every kernel of the CUDA file `path`."""
    ir = front.compile_source(path, options or SourceOptions())
    raised, stubs = compile_unit.raise_unit(ir)
    lowered = lower.lower(raised.module).module
    launched = {
        stub.kernel: launch_effects.launch_effects(_function(raised.module, stub.kernel), raised.module, lowered, stub)
        for stub in stubs
    }
    return [_with_launches(one, launched[one.kernel]) for one in explain_module(raised.module, raised.kernels)]


def _with_launches(one: Explained, effects: tuple[PointerEffect, ...] | str) -> Explained:
    """Whether launches of the kernel wait in batches, told at the kernel's own line."""
    if isinstance(effects, str):
        remark = Remark("declined", one.loc, f"{launch_effects.NAME}: {effects}")
    else:
        remark = Remark("batched", one.loc, "launches wait for one another only where one writes what the other uses"
                        + _own(effects))  # fmt: skip
    return replace(one, remarks=_ordered((*one.remarks, remark)))


def _own(effects: tuple[PointerEffect, ...]) -> str:
    """Of how many arrays each thread uses its own elements only (own_elements.py)."""
    own = sum(1 for effect in effects if effect.own.bytes)
    return f"; its threads stay with their own elements of {own} of {len(effects)} arrays" if own else ""


def _ordered(remarks: Iterable[Remark]) -> tuple[Remark, ...]:
    return tuple(sorted(dict.fromkeys(remarks), key=lambda remark: (remark.line, KINDS.index(remark.kind))))


def explain_module(module: Module, kernels: Sequence[str]) -> list[Explained]:
    specialized = run_passes(module, (SpecializeLaunch(), Specialize()))
    found = []
    for kernel in kernels:
        launched = kernel + LAUNCHED
        first = launched + APART if _function(specialized.module, launched + APART) else launched
        names = (first, kernel + APART, kernel + GENERAL)
        versions = [name for name in names if _function(specialized.module, name)]
        found += _merged([_version(specialized, kernel, name) for name in versions or [kernel]])
    return found


def _merged(versions: list[Explained]) -> list[Explained]:
    """One entry where all versions tell the same."""
    first = versions[0]
    same = all((_told(one), one.kept_bytes) == (_told(first), first.kept_bytes) for one in versions)
    return [replace(first, version="")] if same else versions


def _told(one: Explained) -> list[Remark]:
    return [remark for remark in one.remarks if remark.kind != "passes"]


def _version(specialized: Result, kernel: str, name: str) -> Explained:
    watch = _Watch(name)
    chosen = (Specialize, SpecializeLaunch)
    passes = tuple(one for one in (*optimize.PASSES, *lower.PASSES) if not isinstance(one, chosen))
    start = _alone(specialized.module, name)
    function = _function(start, name)
    watch.start(start)
    result = run_passes(start, passes, hook=watch.step)
    declined = [*_declined(specialized, function), *_declined(result, function)]
    remarks = [*watch.remarks, *_stays(result, function), *_changed(result, function), *declined]
    when = _when(specialized.module, kernel, name)
    return Explained(kernel, when, function.loc, _ordered(remarks), watch.kept_bytes)


def _alone(module: Module, name: str) -> Module:
    """`module` without the bodies of the other kernels: what passes decline then concerns this one."""
    return replace(module, functions=tuple(
        replace(function, body=None) if function.body is not None and function.name != name and is_kernel(function)
        else function for function in module.functions))  # fmt: skip


def _function(module: Module, name: str) -> Function | None:
    return next((function for function in module.functions if function.name == name), None)


def _when(module: Module, kernel: str, name: str) -> str:
    """For which launches the chooser takes this version."""
    if name == kernel:
        return ""
    if name.endswith(GENERAL):
        return "for every other launch"
    choosers = [one for one in (kernel, kernel + LAUNCHED) if one != name and name.startswith(one)]
    ops = [op for one in choosers for op in _ops(_function(module, one)) if isinstance(op, Leaf)]
    known = [op.operands for op in ops if op.opcode == "icmp" and op.attrs.predicate == "eq"]
    told = [f"{_cuda_name(left)} is {right.text}" for left, right in known if isinstance(right, Const)]
    if any(op.attrs.callee == "__loom_distinct" for op in ops):
        told.append("the arrays lie in different allocations")
    if any(op.opcode == "fcmp" and op.result.name.startswith("few") for op in ops):
        told.append(f"fewer than {MOST_THREADS} threads run")
    return "where " + " and ".join(told)


def _cuda_name(value: Operand) -> str:
    """%block.x is blockDim.x; parameters have the user's names."""
    name = getattr(value, "name", "")
    return name.replace("block.", "blockDim.", 1) if name.startswith("block.") else name


def _ops(function: Function | None) -> Iterator[Op]:
    return walk(function.body) if function is not None and function.body is not None else iter(())


# ---------------------------------------------------------------- before and after each pass


@dataclass(slots=True)
class _Watch:
    """Compares the kernel `name` before and after each pass."""

    name: str
    remarks: list[Remark] = field(default_factory=list)
    kept_bytes: int = 0

    def start(self, module: Module) -> None:
        for op in _ops(_function(module, self.name)):
            if collective_scope(op) == "warp" and isinstance(op, Leaf):
                self._say("warp", op.loc, f"{op.attrs.callee.removeprefix('loom.')} runs a warp in step from here")

    def step(self, one: str, before: Module, after: Module) -> None:
        old, new = _function(before, self.name), _function(after, self.name)
        if old is None or new is None or old.body is None or new.body is None:
            return
        match one:
            case "order-loops":
                for loc in _barriers_at(new.body) - _barriers_at(old.body):
                    self._say("barrier added", loc, "before this loop: it races with a loop before it")
            case "eliminate-barriers":
                self._barriers(old.body, new.body)
            case "move-barriers":
                self._moved(old.body, new.body)
            case "forward-stores":
                self._forwarded(old.body, new.body)
            case "hoist-invariant-threads":
                self._hoisted(old.body, new.body, Level.THREADS, "runs once per block")
            case "hoist-invariant-blocks":
                self._hoisted(old.body, new.body, Level.BLOCKS, "runs once per launch")
            case "vectorize-threads":
                self._vectorised(old.body, new.body)
            case "watch-waits":
                self._waits(new.body)
            case "split-threads" | "split-lanes" | "split-blocks":
                self._cuts(old, before, Level(one.removeprefix("split-")))

    def _say(self, kind: str, loc: Loc | None, text: str = "") -> None:
        self.remarks.append(Remark(kind, loc, text))

    def _barriers(self, old: Block, new: Block) -> None:
        for loc, count in (_barriers_at(old) - _barriers_at(new)).items():
            self._say("barrier removed", loc, "" if count == 1 else f"in {count} places")

    def _moved(self, old: Block, new: Block) -> None:
        places = _lines_behind_barriers(old)
        for number, (loc, line) in enumerate(_lines_behind_barriers(new)):
            if line != places[number][1]:
                self._say("barrier moved", loc, f"before line {line} it keeps fewer bytes")

    def _forwarded(self, old: Block, new: Block) -> None:
        left = {value.name for op in walk(new) for value in results(op)}
        for op in walk(old):
            if isinstance(op, Leaf) and op.opcode == "load" and op.result is not None and op.result.name not in left:
                self._say("forwarded", op.loc, f"%{op.result.name} comes from the store before it, not from memory")
        for loc, count in (_stores_at(old) - _stores_at(new)).items():
            often = f", {count} times" if count > 1 else ""
            self._say("dead store", loc, f"removed, overwritten before anybody reads it{often}")

    def _hoisted(self, old: Block, new: Block, level: Level, what: str) -> None:
        left = _inside(new, level)
        climbed = {id(op): op for name, op in _inside(old, level).items() if name not in left}
        nested = {id(inner) for op in climbed.values() for region in regions(op) for inner in walk(region)}
        for op in climbed.values():
            if id(op) not in nested and _is_work(op):
                self._say("hoisted", op.loc, f"{_named(op)} {what}")

    def _vectorised(self, old: Block, new: Block) -> None:
        """Lines whose operations are vectors now; those of loops that are left to LLVM are declined instead."""
        widest: dict[tuple[str, int], tuple[int, Loc]] = {}
        before = {(op.loc.file, op.loc.line) for op in walk(old) if isinstance(op, Leaf) and op.loc and _lanes(op) > 1}
        for op in walk(new):
            if isinstance(op, Leaf) and op.loc is not None and (lanes := _lanes(op)) > 1:
                at = op.loc.file, op.loc.line
                if at not in before and lanes > widest.get(at, (1, op.loc))[0]:
                    widest[at] = lanes, op.loc
        for lanes, loc in widest.values():
            self._say("vectorised", loc, f"{lanes} threads at a time")

    def _waits(self, new: Block) -> None:
        for loc in waiting_loops(new):
            self._say("waits", loc, "may last until another thread has written: those around it take turns")

    def _cuts(self, function: Function, module: Module, level: Level) -> None:
        memory = Memory(function, module)
        for op in _ops(function):
            if meets(op, level):
                self._cut(op, memory, Split(level))

    def _cut(self, parallel: Parallel, memory: Memory, split: Split) -> None:
        """What the planner of the split keeps per work-item."""
        plan, crossing = split.plan(parallel, memory)
        item = {Level.THREADS: "thread", Level.LANES: "lane"}.get(split.level, "block")
        order = _Order(parallel)
        carried = {slot.name: slot for slot in plan.slot_of.values()}
        for name, slot in {**carried, **crossing.kept}.items():
            self.kept_bytes += size_bytes(slot.type)
            across = ", ".join(map(str, order.barriers_crossed(name)))
            self._say("kept", order.loc(name),
                      f"%{name}, {type_text(slot.type)}, {size_bytes(slot.type)} bytes per {item}"
                      + (f", across line {across}" if across else ""))  # fmt: skip
        for alloca in crossing.expanded:
            self._say("expanded", alloca.loc or parallel.loc,
                      f"%{alloca.result.name} lives across a barrier: one copy per {item}")  # fmt: skip


class _Order:
    """Where the values of a parallel loop are made and used, in the order of the text."""

    def __init__(self, parallel: Parallel):
        self.parallel = parallel
        self.ops = list(walk(parallel.body))
        self.made: dict[str, int] = {}
        self.used: dict[str, int] = {}
        for index, op in enumerate(self.ops):
            end = index + sum(1 for region in regions(op) for _ in walk(region))
            self.made |= {value.name: index for value in arguments(op)}
            self.made |= {value.name: end for value in results(op)}
            uses = [operand for operand in operands(op) if isinstance(operand, Value)]
            uses += arguments(op)  # a carried value lives as long as its loop
            last = end if isinstance(op, For | While) else index
            self.used |= {value.name: max(last, self.used.get(value.name, 0)) for value in uses}

    def loc(self, name: str) -> Loc | None:
        found = (op.loc for op in self.ops if any(value.name == name for value in (*results(op), *arguments(op))))
        return next(found, None) or self.parallel.loc

    def barriers_crossed(self, name: str) -> list[int]:
        """Lines of the barriers between the making of `name` and its last use."""
        first, last = self.made.get(name, 0), self.used.get(name, 0)
        return sorted({op.loc.line for op in self.ops[first:last] if isinstance(op, Barrier) and op.loc})


def _barriers_at(block: Block) -> Counter[Loc | None]:
    return Counter(op.loc for op in walk(block) if isinstance(op, Barrier) and op.scope is Level.THREADS)


def _lines_behind_barriers(block: Block) -> list[tuple[Loc | None, int]]:
    """Each barrier's own place, and the line of the first operation behind it."""
    ops = list(walk(block))
    found = []
    for index, op in enumerate(ops):
        if isinstance(op, Barrier) and op.scope is Level.THREADS:
            following = (later.loc.line for later in ops[index + 1 :] if isinstance(later, Leaf) and later.loc)
            found.append((op.loc, next(following, 0)))
    return found


def _stores_at(block: Block) -> Counter[Loc | None]:
    return Counter(op.loc for op in walk(block) if isinstance(op, Leaf) and op.opcode == "store")


def _inside(block: Block, level: Level) -> dict[str, Op]:
    """What is defined in the parallel loops of `level`, at any depth."""
    loops = [op for op in walk(block) if isinstance(op, Parallel) and op.level is level]
    return {value.name: op for loop in loops for op in walk(loop.body) for value in results(op)}


def _lanes(op: Leaf) -> int:
    types = [value.type for value in (op.result, *op.operands) if value is not None]
    return max((type_.lanes for type_ in types if isinstance(type_, Vector)), default=1)


def _is_work(op: Op) -> bool:
    """Worth telling: loops, memory, and what is more than a step of an address."""
    if isinstance(op, For | While | If):
        return True
    return isinstance(op, Leaf) and op.opcode in ("load", "call", "fdiv", "sdiv", "udiv", "frem", "srem", "urem")


def _named(op: Op) -> str:
    if isinstance(op, Leaf):
        return f"`{print_op(op)}`"
    return "a loop" if isinstance(op, For | While) else "a condition"


# ---------------------------------------------------------------- what passes said


def _stays(result: Result, function: Function) -> list[Remark]:
    places = _place_of_text(function)
    found = []
    for step in result.steps:
        for declined in step.declined:
            if declined.reason == "barrier is needed":
                found.append(Remark("barrier stays", declined.loc, _in_source(declined.detail, places)))
    return found


def _changed(result: Result, function: Function) -> list[Remark]:
    """Which passes changed the kernel, in order, at its own line."""
    versions = ((LAUNCHED, SpecializeLaunch().name), (APART, Specialize().name))
    names = [name for suffix, name in versions if suffix in function.name]
    names += [step.name for step in result.steps if step.changed]
    return [Remark("passes", function.loc, ", ".join(names) or "none changed it")]


def _declined(result: Result, function: Function) -> list[Remark]:
    found = []
    for step in result.steps:
        for one in step.declined:
            foreign = step.name.startswith("specialize") and not _is_version(function.name, one.detail)
            if one.reason != "barrier is needed" and not foreign:
                detail = f" ({one.detail})" if one.detail else ""
                found.append(Remark("declined", one.loc, f"{step.name}: {one.reason}{detail}"))
    return found


def _is_version(name: str, kernel: str) -> bool:
    return name.removesuffix(APART).removesuffix(LAUNCHED).removesuffix(GENERAL) == kernel.removesuffix(LAUNCHED)


def _place_of_text(function: Function) -> dict[str, str]:
    """What each operation is, and its source line, by its text, which is how passes name it."""
    known = [op for op in _ops(function) if isinstance(op, Leaf | Alloca) and op.loc]
    return {print_op(op): f"{_word(op)} (line {op.loc.line})" for op in known}


def _word(op: Leaf | Alloca) -> str:
    if isinstance(op, Alloca):
        return "array"
    return f"call of {op.attrs.callee}" if op.opcode == "call" else op.opcode


def _in_source(detail: str, places: dict[str, str]) -> str:
    parts = detail.split("`")
    return "".join(places.get(part, f"`{part}`") if at % 2 else part for at, part in enumerate(parts))
