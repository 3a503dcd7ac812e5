"""The text form of level `task`: `parse_graph(print_graph(g, locations=True)) == g`.

    kernel softmax(...) { ... }                              the kernel, as text of level tile

    loop 0 of none: m                                        loop 1 of 2 like 3: k  (its tiles are those of loop 3)
      items load_x vector_t store_out                        @1 would be loop 1
      carry %acc: [m] f32, %acc.1, %acc.2, %acc.3             before, in the body, at its end, after
    task vector_t vector in loop 0 by vector, axes m n, reads row, writes t.4
      %t.1: [m] f32 = reduce max %row over n
      ...
    edge load_x -> vector_t over row, distance 0
    tile row: [m, n] f32 from load_x to vector_t
    guard store_out if %cond

An empty list is written `none`. With locations, lines end in `; file:line:column-end`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from threadloom.errors import CompileError, slug
from threadloom.source import Loc
from threadloom.task.ops import Edge, Guard, Kind, Loop, Method, STask, TaskGraph, Tile
from threadloom.tile.ops import Axis, Kernel, LoopAxis, TileType, Value
from threadloom.tile.text import parse_op, parse_text, parse_type, print_kernel, print_op

BAD_TEXT = slug("bad-task-text", "the text of an sTask-graph cannot be read")

# ---------------------------------------------------------------- printing


def print_graph(graph: TaskGraph, locations: bool = False) -> str:
    lines = [print_kernel(graph.kernel, locations)]
    for loop in graph.loops:
        parent = "none" if loop.parent is None else loop.parent
        like = "" if loop.like is None else f" like {loop.like}"
        lines.append(f"loop {loop.id} of {parent}{like}: {_axes(loop.axes)}{_loc(loop.loc, locations)}")
        lines.append("  items " + _list(f"@{i}" if isinstance(i, int) else i for i in loop.items))
        lines += [f"  carry {_typed(first)}, {_values(rest)}" for first, *rest in loop.carried]
    for task in graph.tasks:
        lines.append(
            f"task {task.name} {task.kind} in loop {task.loop} by {_list(task.methods)}, axes {_list(task.axes)}, "
            f"reads {_list(task.reads)}, writes {_list(task.writes)}{_loc(task.loc, locations)}"
        )
        lines += [f"  {print_op(op, locations)}" for op in task.ops]
    lines += [f"edge {e.src} -> {e.dst} over {e.value}, distance {e.distance}" for e in graph.edges]
    for tile in graph.tiles:
        carried = "" if tile.carried is None else f", carried by {tile.carried}"
        values = "" if tile.values == (tile.name,) else f", values {_list(tile.values)}"
        ends = f"from {_list(tile.producers)} to {_list(tile.consumers)}"
        lines.append(f"tile {tile.name}: {_type(tile.type)} {ends}{carried}{values}")
    lines += [f"guard {g.task} {'if' if g.wanted else 'unless'} %{g.cond}" for g in graph.guards]
    return "\n".join(lines) + "\n"


def _list(names: Iterator[object] | tuple[object, ...]) -> str:
    return " ".join(map(str, names)) or "none"


def _type(type_: TileType) -> str:
    return f"[{', '.join(type_.axes)}] {type_.dtype.name}"


def _typed(value: Value) -> str:
    return f"%{value.name}: {_type(value.type)}"


def _values(values: list[Value]) -> str:
    return ", ".join(f"%{v.name}" for v in values)


def _axes(axes: tuple[LoopAxis, ...]) -> str:
    def one(axis: LoopAxis) -> str:
        if axis.start is None and axis.stop is None:
            return axis.axis.name
        bounds = [f"{_typed(v)}" if v else "none" for v in (axis.start, axis.stop)]
        return f"{axis.axis.name} from {bounds[0]} to {bounds[1]}"

    return "; ".join(map(one, axes)) or "none"


def _loc(loc: Loc | None, locations: bool) -> str:
    return f"  ; {loc.file}:{loc.line}:{loc.column}-{loc.end_column}" if locations and loc else ""


# ---------------------------------------------------------------- parsing

_TYPED = r"%([\w.]+): (\[[^\]]*\] \w+)"
_LOOP = re.compile(r"loop (\d+) of (\d+|none)(?: like (\d+))?: (.*)")
_TASK = re.compile(r"task (\S+) (\S+) in loop (\d+) by (.+), axes (.+), reads (.+), writes (.+)")
_EDGE = re.compile(r"edge (\S+) -> (\S+) over (\S+), distance (\d+)")
_TILE = re.compile(r"tile (\S+): (\[[^\]]*\] \w+) from (.+?) to (.+?)(?:, carried by (\d+))?(?:, values (.+))?")
_GUARD = re.compile(r"guard (\S+) (if|unless) %(\S+)")
_CARRY = re.compile(rf"carry {_TYPED}, %(\S+), %(\S+), %(\S+)")
_AXIS = re.compile(rf"([\w.]+)(?: from ({_TYPED}|none) to ({_TYPED}|none))?")
_LOC = re.compile(r"\s*;\s([^;]*):(\d+):(\d+)-(\d+)$")


def parse_graph(text: str, file: str = "<graph>") -> TaskGraph:
    """The graph that `text` describes."""
    return _Reader(text, file).graph()


class _Reader:
    """Reads line by line; the header line in hand decides what the indented lines below it are."""

    def __init__(self, text: str, file: str):
        self.file, self.lines = file, text.splitlines()
        self.at = 0
        typed = dict(re.findall(_TYPED, text))
        for carry in _CARRY.finditer(text):
            typed |= dict.fromkeys(carry.group(3, 4, 5), carry[2])
        self.values = {name: Value(name, parse_type(type_)) for name, type_ in typed.items()}
        self.axes: dict[str, Axis] = {}

    def graph(self) -> TaskGraph:
        kernel = self._kernel()
        self.axes = {axis.name: axis for axis in kernel.axes}
        self.values |= {s.name: Value(s.name, TileType((), s.dtype)) for s in kernel.scalars}
        loops, tasks, edges, tiles, guards = [], [], [], [], []
        readers = {
            "loop": (loops, self._loop), "task": (tasks, self._task), "edge": (edges, self._edge),
            "tile": (tiles, self._tile), "guard": (guards, self._guard),
        }  # fmt: skip
        while self.at < len(self.lines):
            line = self.lines[self.at].split("#")[0].strip()
            if line:
                word = line.partition(" ")[0]
                if word not in readers:
                    raise self._error(f"{word!r} begins no line here: {', '.join(readers)}")
                into, reader = readers[word]
                into.append(reader())
            else:
                self.at += 1
        return TaskGraph(kernel, tuple(tasks), tuple(edges), tuple(tiles), tuple(loops), tuple(guards))

    def _error(self, what: str) -> CompileError:
        return CompileError(BAD_TEXT, what, loc=Loc(self.file, min(self.at, len(self.lines) - 1) + 1))

    def _kernel(self) -> Kernel:
        end = next((i for i, line in enumerate(self.lines) if line.rstrip() == "}"), None)
        if end is None:
            raise self._error("the text does not begin with a kernel")
        self.at = end + 1
        kernel = parse_text("\n".join(self.lines[: end + 1]), self.file)
        return kernel

    def _take(self, pattern: re.Pattern[str]) -> tuple[re.Match[str], Loc | None]:
        line = self.lines[self.at].split("#")[0].strip()
        loc = None
        if found := _LOC.search(line):
            line, loc = line[: found.start()], Loc(found[1], int(found[2]), int(found[3]), int(found[4]))
        match = pattern.fullmatch(line)
        if match is None:
            raise self._error(f"this line is not like: {pattern.pattern}")
        self.at += 1
        return match, loc

    def _indented(self) -> Iterator[str]:
        while self.at < len(self.lines) and self.lines[self.at].startswith(" "):
            yield self.lines[self.at].strip()

    def _value(self, name: str) -> Value:
        if name not in self.values:
            raise self._error(f"%{name} is defined nowhere")
        return self.values[name]

    # ------------------------------------------------------------ lines

    def _loop(self) -> Loop:
        match, loc = self._take(_LOOP)
        items: tuple[str | int, ...] = ()
        carried = []
        axes = tuple(self._axis(a) for a in match[4].split("; ")) if match[4] != "none" else ()
        for line in self._indented():
            if line.startswith("items "):
                items = tuple(int(i[1:]) if i.startswith("@") else i for i in _names(line.removeprefix("items ")))
                self.at += 1
                continue
            found, _ = self._take(_CARRY)
            first = Value(found[1], parse_type(found[2]))
            carried.append((first, *(Value(found[n], first.type) for n in (3, 4, 5))))
        parent = None if match[2] == "none" else int(match[2])
        like = int(match[3]) if match[3] else None
        return Loop(int(match[1]), parent, axes, items, tuple(carried), loc, like)

    def _axis(self, text: str) -> LoopAxis:
        match = _AXIS.fullmatch(text.strip())
        if match is None or match[1] not in self.axes:
            raise self._error(f"{text!r} is no axis of the kernel")
        bounds = [self._value(n) if n else None for n in (match[3], match[6])]
        return LoopAxis(self.axes[match[1]], *bounds)

    def _task(self) -> STask:
        match, loc = self._take(_TASK)
        ops = []
        for line in self._indented():
            ops.append(parse_op(line, self.axes, self.values, self.file, self.at + 1))
            self.at += 1
        try:
            kind, methods = Kind(match[2]), tuple(Method(m) for m in _names(match[4]))
        except ValueError as error:
            raise self._error(str(error)) from None
        axes, reads, writes = (_names(match[n]) for n in (5, 6, 7))
        return STask(match[1], kind, tuple(ops), axes, reads, writes, methods, int(match[3]), loc)

    def _edge(self) -> Edge:
        match, _ = self._take(_EDGE)
        return Edge(match[1], match[2], match[3], int(match[4]))

    def _tile(self) -> Tile:
        match, _ = self._take(_TILE)
        carried = int(match[5]) if match[5] else None
        values = _names(match[6]) if match[6] else (match[1],)
        return Tile(match[1], parse_type(match[2]), _names(match[3]), _names(match[4]), carried, values)

    def _guard(self) -> Guard:
        match, _ = self._take(_GUARD)
        return Guard(match[1], match[3], match[2] == "if")


def _names(text: str) -> tuple[str, ...]:
    return () if text == "none" else tuple(text.split())
