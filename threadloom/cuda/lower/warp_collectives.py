"""Shuffles, votes, matches and reductions of a warp become memory of the warp and barriers among its lanes.

    %r = call i32 @loom.shfl.sync.down.i32(i32 %m, i32 %v, i32 %d, i32 %w)       # inside parallel lanes (%lane)
 -> store i32 %v, ptr (%shuffled at 32 + %lane); barrier lanes
    %near = load i32, ptr (%shuffled at 32 + %lane + %d)
    %r = select (%lane + %d is in the segment and exists), %near, %v

    %r = call i32 @loom.vote.sync.ballot(i32 %m, i32 %p)
 -> store i8 (%p != 0 ? 1 : 2), ptr (%votes at %lane); barrier lanes
    %all = load <32 x i8>, ptr %votes; %r = %m & bitcast (%all & 1 != 0) to i32    # once per warp: scalar

Each call has its own array. In a loop a barrier before the store protects the readers of the last iteration; under
an if or in a while, where lanes may stand aside, arrays begin empty and are emptied behind a further barrier, so that
absent lanes count as absent. A source lane outside of the segment leaves a shuffle's own value; one that is not there
(it stands aside, or the block has no thread for it) gives 0, which CUDA leaves open and sums over parts of a warp count
on. Member masks select among the lanes that are there. Semantics: PTX ISA, shfl.sync, vote.sync, match.sync,
redux.sync, activemask. After this, `Split(LANES)`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from threadloom.cuda.kernel import WARP_LANES
from threadloom.cuda.lower.editor import Editor
from threadloom.cuda.lower.separators import collective_scope
from threadloom.cuda.lower.traverse import expand, rename_block, walk
from threadloom.errors import InternalError
from threadloom.par.constants import const
from threadloom.par.ops import (
    I1,
    I8,
    I32,
    Block,
    Const,
    For,
    Function,
    If,
    Int,
    Leaf,
    Level,
    Module,
    Op,
    Operand,
    Parallel,
    Space,
    Value,
    Vector,
    While,
)
from threadloom.par.walk import with_regions

_YES, _NO, _ABSENT = Const(I8, "1"), Const(I8, "2"), Const(I8, "0")
_FLAGS = Vector(WARP_LANES, I8)


@dataclass(frozen=True, slots=True)
class LowerWarpCollectives:
    name: str = "lower-warp-collectives"

    def apply(self, module: Module) -> Module:
        for function in module.functions:
            if function.body and any(collective_scope(op) == "warp" for op in walk(function.body.ops)):
                module = self._function(function, module)
        return module

    def _function(self, function: Function, module: Module) -> Module:
        editor = Editor(function, module)

        def change(op: Op) -> list[Op] | None:
            if not isinstance(op, Parallel) or op.level is not Level.LANES:
                return None
            lowering = _Lanes(editor, op)
            body = rename_block(lowering.block(op.body, in_loop=False, aside=False), lowering.renaming)
            return [*lowering.front, replace(op, body=body)]

        return editor.finish(replace(function, body=expand(function.body, change)))


class _Lanes:
    """The calls in one loop over lanes."""

    def __init__(self, editor: Editor, parallel: Parallel):
        self.editor, self.lane, self.lanes = editor, parallel.ivs[0], parallel.uppers[0]
        self.front: list[Op] = []
        self.renaming: dict[str, Operand] = {}

    def block(self, block: Block, in_loop: bool, aside: bool) -> Block:
        """`in_loop`: this code runs again in the same loop over lanes; `aside`: some lanes may not be here."""
        with self.editor.collect() as ops:
            for op in block.ops:
                loops = in_loop or isinstance(op, For | While)
                parts = aside or isinstance(op, If | While)
                if collective_scope(op) == "warp":
                    with self.editor.at(op.loc):
                        self._call(op, in_loop, aside)
                else:
                    ops.append(with_regions(op, lambda region, a=loops, b=parts: self.block(region, a, b)))
        return Block(tuple(ops))

    def _call(self, op: Leaf, in_loop: bool, aside: bool) -> None:
        family, _, rest = op.attrs.callee.removeprefix("loom.").partition(".sync.")
        site = _Site(self, in_loop, aside)
        kind = rest.split(".")[0]
        match family:
            case "syncwarp":
                self.editor.barrier(Level.LANES)
                return
            case "shfl":
                result = site.shuffle(kind, *op.operands[1:])
            case "vote":
                result = site.vote(kind, *op.operands)
            case "match":
                result = site.match(kind, *op.operands)
            case "reduce":
                result = site.reduce(kind, *op.operands)
            case "activemask":
                result = site.vote("ballot", const(I32, -1), const(I32, 1))
            case _:
                raise InternalError(f"unknown warp collective {op.attrs.callee}")
        self.renaming[op.result.name] = result


class _Site:
    """One call."""

    def __init__(self, lanes: _Lanes, in_loop: bool, aside: bool):
        self.lanes, self.editor, self.in_loop, self.aside = lanes, lanes.editor, in_loop, aside

    # ------------------------------------------------------------ arrays

    def _array(self, element: Int, count: int, name: str) -> Value:
        with self.editor.collect() as ops:
            array = self.editor.alloca(element, count, Space.PRIVATE, 64, name)
        self.lanes.front.extend(ops)
        return array

    def _own(self, array: Value, element: Int, first: int = 0) -> Operand:
        index = self.editor.cast("zext", self.lanes.lane, Int(64))
        return self.editor.gep(element, array, self.editor.add(index, first))

    def _publish(self, writes: list[tuple[Operand, Operand]]) -> None:
        """Store this lane's values; behind the barrier every lane may read all."""
        if self.in_loop:
            self.editor.barrier(Level.LANES)
        for value, address in writes:
            self.editor.store(value, address)
        self.editor.barrier(Level.LANES)

    def _flags(self) -> Value:
        """A byte per lane, all absent at first."""
        flags = self._array(I8, WARP_LANES, "flags")
        self._zero(flags, _FLAGS)
        return flags

    def _zero(self, array: Value, lanes: Vector, first: int = 0) -> None:
        """Before the loop over lanes, one element for each lane."""
        with self.editor.collect() as ops:
            start = self.editor.gep(lanes.element, array, const(Int(64), first)) if first else array
            self.editor.store(Const(lanes, "zeroinitializer"), start, 64)
        self.lanes.front.extend(ops)

    def _clear(self, array: Value, absent: Const = _ABSENT, first: int = 0) -> None:
        if self.aside:
            self.editor.barrier(Level.LANES)
            self.editor.store(absent, self._own(array, absent.type, first))

    def _bits(self, flags: Value, code: Operand | None, name: str) -> Operand:
        """Bit i: lane i's flag has `code`'s bit; None: is there at all."""
        vector: Operand = self.editor.load(_FLAGS, flags, 64, name="flags.all")
        if code is not None:
            vector = self.editor.and_(vector, self.editor.splat(code, WARP_LANES))
        return self._mask_of(self.editor.icmp("ne", vector, Const(_FLAGS, "zeroinitializer")), name)

    def _mask_of(self, lanes: Operand, name: str) -> Operand:
        return self.editor.cast("bitcast", lanes, I32, name=name)

    # ------------------------------------------------------------ shuffles

    def shuffle(self, kind: str, value: Operand, by: Operand, width: Operand) -> Operand:
        editor, lane = self.editor, self.lanes.lane
        element = value.type
        assert isinstance(element, Int)
        spread = kind in ("up", "down")  # these read at a fixed distance: room on both sides keeps the reads contiguous
        first = WARP_LANES if spread else 0
        array = self._array(element, 3 * WARP_LANES if spread else WARP_LANES, "shuffled")
        if self.aside:
            self._zero(array, Vector(WARP_LANES, element), first)
        self._publish([(value, self._own(array, element, first))])
        by = editor.and_(by, WARP_LANES - 1)
        low = editor.and_(lane, editor.sub(const(I32, 0), width), "segment")  # first lane of the segment
        last = editor.sub(editor.add(low, width), 1, name="segment.last")
        match kind:
            case "up":
                source = editor.sub(lane, by, name="source")
                inside = editor.icmp("sge", source, low)
            case "down":
                source = editor.add(lane, by, name="source")
                inside = editor.icmp("sle", source, last)
            case "xor":
                source = editor.xor(lane, by, "source")
                inside = editor.icmp("sle", source, last)
            case _:
                source = editor.or_(low, editor.and_(by, editor.sub(width, 1)), "source")
                inside = Const(I1, "true")
        there = editor.icmp("slt", source, self.lanes.lanes, "there")
        wide = editor.cast("sext", editor.add(source, first) if first else source, Int(64))
        near = editor.load(element, editor.gep(element, array, wide), name="near")
        near = editor.select(there, near, const(element, 0), name="near")
        result = editor.select(inside, near, value, name="shuffle")
        if self.in_loop:
            self._clear(array, const(element, 0), first)
        return result

    # ------------------------------------------------------------ votes

    def vote(self, kind: str, mask: Operand, predicate: Operand) -> Operand:
        editor, flags = self.editor, self._flags()
        code = editor.select(editor.icmp("ne", predicate, 0), _YES, _NO, name="vote")
        self._publish([(code, self._own(flags, I8))])
        yes = editor.and_(self._bits(flags, _YES, "yes"), mask) if kind != "all" else None
        no = editor.and_(self._bits(flags, _NO, "no"), mask) if kind in ("all", "uni") else None
        match kind:
            case "ballot":
                result = yes
            case "any":
                result = editor.cast("zext", editor.icmp("ne", yes, 0), I32)
            case "all":
                result = editor.cast("zext", editor.icmp("eq", no, 0), I32)
            case "uni":
                agree = editor.or_(editor.icmp("eq", yes, 0), editor.icmp("eq", no, 0))
                result = editor.cast("zext", agree, I32)
            case _:
                raise InternalError(f"unknown vote {kind}")
        self._clear(flags)
        return result

    # ------------------------------------------------------------ matches and reductions

    def _members(self, mask: Operand, value: Operand) -> tuple[Value, Operand, Value]:
        """All lanes' values, the member mask cut down to those that are here, and the flags to clear."""
        element = value.type
        assert isinstance(element, Int)
        flags, array = self._flags(), self._array(element, WARP_LANES, "values")
        self._publish([(value, self._own(array, element)), (_YES, self._own(flags, I8))])
        values = self.editor.load(Vector(WARP_LANES, element), array, 64, name="values.all")
        return values, self.editor.and_(self._bits(flags, None, "here"), mask, "members"), flags

    def match(self, kind: str, mask: Operand, value: Operand) -> Operand:
        editor = self.editor
        values, members, flags = self._members(mask, value)
        equal = self._mask_of(editor.icmp("eq", values, editor.splat(value, WARP_LANES)), "equal")
        same = editor.and_(equal, members, "same")
        if kind == "all":
            same = editor.select(editor.icmp("eq", same, members), mask, const(I32, 0), name="match.all")
        self._clear(flags)
        return same

    def reduce(self, kind: str, mask: Operand, value: Operand) -> Operand:
        editor = self.editor
        values, members, flags = self._members(mask, value)
        operation, neutral = _REDUCTIONS[kind]
        chosen = editor.cast("bitcast", members, Vector(WARP_LANES, I1))
        kept = editor.select(chosen, values, editor.splat(const(I32, neutral), WARP_LANES), name="kept")
        result = editor.reduce(operation, kept)
        self._clear(flags)
        return result


_REDUCTIONS: dict[str, tuple[str, int]] = {
    "add": ("add", 0),
    "min": ("smin", 2**31 - 1),
    "max": ("smax", -(2**31)),
    "umin": ("umin", -1),
    "umax": ("umax", 0),
    "and": ("and", -1),
    "or": ("or", 0),
    "xor": ("xor", 0),
}
