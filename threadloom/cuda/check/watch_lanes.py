"""Tells the runtime which lanes of a warp stand aside where others meet: it then sees who is named and stays away.

    if i1 %c { %r = call i32 @loom.shfl.sync.down.i32(i32 %mask, ...); ... }
 -> call void @__loom_check_aside(i32 %block, i32 %thread, i64 (%c ? 0 : 1), i64 (%c ? 1 : 0))       # set, clear
    if i1 %c { call void @__loom_check_comes(i32 %block, i32 %thread, i32 %mask, i32 site)
               %r = call i32 @loom.shfl.sync.down.i32(i32 %mask, ...)
               call void @__loom_check_named(i32 %block, i32 %thread, i32 %mask, i32 site, i64 1, ptr file, ...); ... }

Each condition by which lanes may part around a warp operation has a bit. A lane sets it before it goes the other way,
and the operation asks whether a lane of its mask has set one of the bits around it. Lanes that have exited
(lower/exits.py) have none: CUDA waits for these no more. A loop that lanes leave at different times has a bit, too;
`for` becomes `while`.
Not watched: conditions beyond the 63rd, and the forms without masks, which speak for the lanes that are there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from threadloom.cuda.kernel import is_kernel
from threadloom.cuda.lower.editor import Editor
from threadloom.cuda.lower.effects import Memory
from threadloom.cuda.lower.exits import Exits, places
from threadloom.cuda.lower.for_to_while import to_while
from threadloom.cuda.lower.runtime_calls import CHECK_ASIDE, CHECK_COMES, CHECK_NAMED
from threadloom.cuda.lower.separators import collective_scope
from threadloom.cuda.lower.thread_number import item_number
from threadloom.cuda.lower.traverse import expand, walk
from threadloom.cuda.lower.uniformity import Uniformity
from threadloom.par.constants import const
from threadloom.par.ops import (
    I32,
    I64,
    Block,
    Condition,
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
    While,
)
from threadloom.source import Loc, excerpt

_MOST_BITS = 63
_NONE, _ALL = Const(I64, "0"), Const(I64, "-1")


@dataclass(frozen=True, slots=True)
class WatchLanes:
    name: str = "watch-lanes"

    def apply(self, module: Module) -> Module:
        for function in module.functions:
            if function.body is not None and is_kernel(function) and _has_named(function.body.ops):
                module = _of_kernel(function, module)
        return module


def _of_kernel(kernel: Function, module: Module) -> Module:
    editor, memory = Editor(kernel, module), Memory(kernel, module)

    def change(op: Op) -> list[Op] | None:
        if not isinstance(op, Parallel) or op.level is not Level.BLOCKS:
            return None
        return [
            replace(op, body=Block(tuple(_threads(inner, op, kernel.name, editor, memory) for inner in op.body.ops)))
        ]

    body = expand(kernel.body, change)
    return editor.finish(replace(kernel, body=body)) if body != kernel.body else module


def _threads(op: Op, blocks: Parallel, kernel: str, editor: Editor, memory: Memory) -> Op:
    if not isinstance(op, Parallel) or op.level is not Level.THREADS or not _has_named(op.body.ops):
        return op
    uniform = Uniformity(op, memory)

    def loop(inner: Op) -> list[Op] | None:
        varies = isinstance(inner, For) and any(map(uniform.varies, (inner.lower, inner.upper, inner.step)))
        return [to_while(inner, editor)] if varies and _has_named(inner.body.ops) else None

    changed = replace(op, body=expand(op.body, loop))
    with editor.collect() as start:
        block, thread = (editor.cast("trunc", item_number(editor, of, of.ivs), I32) for of in (blocks, changed))
    lanes = _Lanes(kernel, editor, changed, memory, block, thread)
    body = lanes.region(changed.body, 0)
    return replace(changed, body=Block((*start, *body.ops))) if lanes.bits else op


@dataclass
class _Lanes:
    """The conditions of one loop over threads."""

    kernel: str
    editor: Editor
    parallel: Parallel
    memory: Memory
    block: Operand
    thread: Operand
    bits: int = 0
    sites: int = 0
    texts: dict[str, Const] = field(default_factory=dict)
    uniform: Uniformity = field(init=False)
    exits: Exits = field(init=False)

    def __post_init__(self) -> None:
        self.uniform, self.exits = Uniformity(self.parallel, self.memory), Exits(self.memory)
        self.places = {id(op): place for op, place in places(self.parallel)}

    def region(self, block: Block, around: int) -> Block:
        """`around`: the bits of the conditions that this region stands in."""
        with self.editor.collect() as ops:
            for op in block.ops:
                with self.editor.at(getattr(op, "loc", None)):
                    self._op(op, around)
        return Block(tuple(ops))

    def _op(self, op: Op, around: int) -> None:
        match op:
            case If() if _has_named((op,)):
                self._if(op, around)
            case While() if _has_named((op,)):
                self._while(op, around)
            case For() if _has_named((op,)):
                self.editor.ops.append(replace(op, body=self.region(op.body, around)))
            case Leaf() if around and _is_named(op):
                self._named(op, around)
            case _:
                self.editor.ops.append(op)

    def _if(self, op: If, around: int) -> None:
        inside = [around, around]
        if self.uniform.varies(op.cond):
            sides, place = (op.then, op.otherwise), self.places[id(op)]
            end = [self.exits.side_exits(op, side, place) for side in sides]
            own = [self._bit() if _has_named(side.ops) and not end[1 - i] else 0 for i, side in enumerate(sides)]
            sets = [_NONE if end[i] else const(I64, own[1 - i]) for i in range(2)]
            clears = [_ALL if end[i] else const(I64, own[i]) for i in range(2)]
            self._aside(self.editor.select(op.cond, *sets), self.editor.select(op.cond, *clears))
            inside = [around | bit for bit in own]
        then, otherwise = self.region(op.then, inside[0]), self.region(op.otherwise, inside[1])
        self.editor.ops.append(replace(op, then=then, otherwise=otherwise))

    def _while(self, op: While, around: int) -> None:
        condition, place = op.before.ops[-1], self.places[id(op)]
        assert isinstance(condition, Condition)
        bit = 0
        if self.uniform.varies(condition.cond) and not self.exits.exits(place):
            bit = self._bit()
            self._aside(_NONE, const(I64, bit))  # it may have left this loop before
        before = self.region(Block(op.before.ops[:-1]), around | bit)
        with self.editor.collect() as last:
            if self.uniform.varies(condition.cond):
                self._leave(op, condition, bit)
        before = Block((*before.ops, *last, condition))
        self.editor.ops.append(replace(op, before=before, after=self.region(op.after, around | bit)))

    def _leave(self, op: While, condition: Condition, bit: int) -> None:
        editor, sets, clears = self.editor, const(I64, bit), _NONE if bit else _ALL
        for index, constant in self.exits.leaving_exits(op, self.places[id(op)]) if bit else ():
            exited = editor.icmp("eq", condition.values[index], constant, "exited")
            sets, clears = editor.select(exited, _NONE, sets), editor.select(exited, _ALL, clears)
        going = const(I64, bit)
        self._aside(editor.select(condition.cond, _NONE, sets), editor.select(condition.cond, going, clears))

    def _bit(self) -> int:
        if self.bits == _MOST_BITS:
            return 0
        self.bits += 1
        return 1 << (self.bits - 1)

    def _aside(self, sets: Operand, clears: Operand) -> None:
        self.editor.call(CHECK_ASIDE, [self.block, self.thread, sets, clears])

    def _text(self, string: str) -> Const:
        if string not in self.texts:
            self.texts[string] = self.editor.text(string, f"loom.check.lanes.{self.kernel}.{len(self.texts)}")
        return self.texts[string]

    def _named(self, op: Leaf, around: int) -> None:
        self.sites += 1
        who = [self.block, self.thread, op.operands[0], Const(I32, str(self.sites))]
        self.editor.call(CHECK_COMES, who)
        self.editor.ops.append(op)
        loc = op.loc or Loc("", 0)
        shown = excerpt(op.loc).splitlines()[:1] if op.loc else []
        words = [loc.file, shown[0].split("|", 1)[-1].strip() if shown else "", _name(op.attrs.callee)]
        file, text, name = map(self._text, words)
        line = Const(I32, str(loc.line))
        self.editor.call(CHECK_NAMED, [*who, const(I64, around), file, line, text, name])


def _is_named(op: Op) -> bool:
    """A warp operation with a member mask."""
    return isinstance(op, Leaf) and collective_scope(op) == "warp" and op.attrs.callee != "loom.activemask"


def _has_named(ops: Iterable[Op]) -> bool:
    return any(_is_named(op) for op in walk(tuple(ops)))


def _name(callee: str) -> str:
    """As the program writes it."""
    words = callee.removeprefix("loom.").split(".")
    match words:
        case ["syncwarp"]:
            return "__syncwarp"
        case ["shfl", "sync", "idx", _]:
            return "__shfl_sync"
        case ["vote", "sync", kind]:
            return f"__{kind}_sync"
        case [family, "sync", kind, *_]:
            return f"__{family}_{kind.removeprefix('u') if kind in ('umin', 'umax') else kind}_sync"
    return callee
