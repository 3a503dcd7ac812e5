"""Builds what `split_plan.py` and `split_cut.py` decided; see split.py for the picture."""

from __future__ import annotations

from collections.abc import Sequence

from threadloom.cuda.lower.editor import Editor
from threadloom.cuda.lower.split_cut import Crossing, needed
from threadloom.cuda.lower.split_plan import (
    Branch,
    Counted,
    Item,
    Keep,
    Meeting,
    Repeat,
    Run,
    Scalar,
    Segment,
    Slot,
    SplitPlan,
)
from threadloom.cuda.lower.thread_number import item_count, item_count_at_top, item_number
from threadloom.cuda.lower.traverse import last_values, rename, swap
from threadloom.errors import InternalError
from threadloom.par.ops import (
    I1,
    I8,
    I64,
    Alloca,
    Block,
    Condition,
    Const,
    For,
    If,
    Leaf,
    Level,
    Op,
    Operand,
    Parallel,
    Space,
    Type,
    Value,
    While,
    Yield,
)
from threadloom.par.walk import results

_SLOT_ALIGN_BYTES = 64
_UNREAD = ("poison", "undef")


class SplitEmitter:
    """One use: `emit` gives the operations that replace `plan.parallel`."""

    def __init__(self, editor: Editor, plan: SplitPlan, crossing: Crossing):
        self.editor, self.plan, self.crossing = editor, plan, crossing
        self._arrays: dict[Slot, Value] = {}
        self._expanded: dict[str, Value] = {}
        self._front: list[Op] = []  # the arrays and the number of work-items
        self._counted: Operand | None = None

    def emit(self) -> list[Op]:
        for alloca in self.crossing.expanded:
            self._expanded[alloca.result.name] = self._expand(alloca)
        body = self._emit_items(self.plan.items)
        return [*self._front, *body]

    # ------------------------------------------------------------ storage

    def _items(self) -> Operand:
        """How many work-items there are, as i64."""
        if self._counted is None and self.plan.parallel.level is Level.LANES:
            with self.editor.collect() as ops:
                self._counted = item_count(self.editor, self.plan.parallel)
            self._front.extend(ops)
        elif self._counted is None:
            self._counted = item_count_at_top(self.editor, self.plan.parallel)
        return self._counted

    def _allocate(self, element: Type, per_item: Operand, name: str, align_bytes: int = 0) -> Value:
        space = Space.PRIVATE if self.plan.parallel.level is Level.LANES else Space.WORKER
        items = Const(I64, "32") if self.plan.parallel.level is Level.LANES else self._items()
        with self.editor.collect() as size:
            count = self.editor.mul(items, self.editor.cast("zext", per_item, I64))
        with self.editor.collect() as ops:
            array = self.editor.alloca(element, count, space, max(align_bytes, _SLOT_ALIGN_BYTES), name)
        self.editor.top.extend(size)
        self._front.extend(ops)
        return array

    def _array(self, slot: Slot) -> Value:
        if slot not in self._arrays:
            self._arrays[slot] = self._allocate(_stored(slot.type), Const(I64, "1"), f"{slot.name}.slots")
        return self._arrays[slot]

    def _expand(self, alloca: Alloca) -> Value:
        if not self.plan.scalars.is_scalar(alloca.count):
            raise InternalError(f"private allocation %{alloca.result.name} has a size that varies")
        return self._allocate(alloca.element, alloca.count, f"{alloca.result.name}.all", alloca.align_bytes)

    # ------------------------------------------------------------ items

    def _emit_items(self, items: Sequence[Item]) -> list[Op]:
        with self.editor.collect() as ops:
            for item in items:
                match item:
                    case Scalar(op) | Meeting(op):
                        ops.append(op)
                    case Run(segment) if not self._nothing_in(segment):
                        ops.append(self._segment(segment))
                    case Branch():
                        ops.extend(self._branch(item))
                    case Counted(op, body):
                        ops.append(self._for(op, body))
                    case Repeat():
                        ops.append(self._while(item))
        return ops

    def _nothing_in(self, segment: Segment) -> bool:
        return segment.empty or (
            not segment.masks
            and all(isinstance(op, Alloca) for op in segment.ops)
            and all(_unread(keep) for keep in segment.keeps)
            and not self.crossing.sunk.get(segment.number)
        )

    def _kept(self, values: Sequence[Value]) -> list[int]:
        """Which of `values` stay scalar."""
        return [index for index, value in enumerate(values) if self.plan.scalars.is_scalar(value)]

    def _branch(self, item: Branch) -> list[Op]:
        op = item.op
        if item.mask is None and item.otherwise_mask is None:
            kept = self._kept(op.results)
            then = Block((*self._emit_items(item.then), Yield(_pick(last_values(op.then), kept))))
            otherwise = Block((*self._emit_items(item.otherwise), Yield(_pick(last_values(op.otherwise), kept))))
            return [If(op.cond, then, otherwise, _pick(op.results, kept), op.loc)]
        ops: list[Op] = []
        for mask, items in ((item.mask, item.then), (item.otherwise_mask, item.otherwise)):
            if mask is not None:
                test, some = self._any(mask)
                ops += [*test, If(some, Block((*self._emit_items(items), Yield())), Block((Yield(),)), (), op.loc)]
        return ops

    def _for(self, op: For, items: Sequence[Item]) -> For:
        kept = self._kept(op.args)
        body = Block((*self._emit_items(items), Yield(_pick(last_values(op.body), kept))))
        return For(op.iv, op.lower, op.upper, op.step, _pick(op.inits, kept), _pick(op.args, kept), body,
                   _pick(op.results, kept), op.loc)  # fmt: skip

    def _while(self, item: Repeat) -> While:
        op, condition = item.op, item.op.before.ops[-1]
        if not isinstance(condition, Condition):
            raise InternalError(f"while at {op.loc} has no condition")
        kept, forwarded = self._kept(op.args), self._kept(op.after_args)
        before = self._emit_items(item.before)
        cond = condition.cond
        if item.mask is not None:
            test, cond = self._any(item.mask)
            before += test
        before.append(Condition(cond, _pick(condition.values, forwarded)))
        after = Block((*self._emit_items(item.after), Yield(_pick(last_values(op.after), kept))))
        outs = tuple(
            result if self.plan.scalars.is_scalar(result) else self.editor.again(result)  # a masked loop's: unread
            for result in _pick(op.results, forwarded)
        )
        return While(_pick(op.inits, kept), _pick(op.args, kept), Block(tuple(before)),
                     _pick(op.after_args, forwarded), after, outs, op.loc)  # fmt: skip

    def _any(self, mask: Slot) -> tuple[list[Op], Operand]:
        """Whether some work-item's mask is set."""
        array, editor = self._array(mask), self.editor
        with editor.collect() as ops:
            with editor.loop(0, self._items(), 1, [Const(I8, "0")], ["some"]) as loop:
                loop.yield_(editor.or_(loop.args[0], editor.load(I8, editor.gep(I8, array, loop.iv))))
            some = editor.icmp("ne", loop.results[0], 0, "any")
        return ops, some

    # ------------------------------------------------------------ one segment

    def _segment(self, segment: Segment) -> Parallel:
        parallel, editor = self.plan.parallel, self.editor
        ivs = tuple(editor.again(iv) for iv in parallel.ivs)
        item = _Item(self, segment, {old.name: new for old, new in zip(parallel.ivs, ivs, strict=True)})
        with editor.collect() as body:
            if segment.mask is None:
                conds = item.work()
            else:
                conds = self._masked(segment, item)
            item.set_masks(conds)
        return Parallel(parallel.level, ivs, parallel.lowers, parallel.uppers, Block(tuple(item.front + body)),
                        parallel.schedule, parallel.loc)  # fmt: skip

    def _masked(self, segment: Segment, item: _Item) -> tuple[Operand, ...]:
        editor = self.editor
        active = item.load(segment.mask)
        with editor.collect() as ops:
            conds = item.work()
        passed = tuple(editor.fresh("go", I1) for _ in conds)
        idle = Block((Yield(tuple(Const(I1, "false") for _ in conds)),))
        editor.ops.append(If(active, Block((*ops, Yield(conds))), idle, passed))
        return passed


class _Item:
    """The code of one work-item in one segment."""

    def __init__(self, split: SplitEmitter, segment: Segment, renaming: dict[str, Operand]):
        self.split, self.editor, self.segment = split, split.editor, segment
        self.renaming = renaming
        self.front: list[Op] = []
        self._number: Operand | None = None

    def work(self) -> tuple[Operand, ...]:
        """Everything under the mask; returns the conditions of the masks to set."""
        for alloca in self.split.crossing.sunk.get(self.segment.number, ()):
            self.editor.ops.append(alloca)
        for value in needed(self.segment).values():
            self._materialize(value)
        for op in self.segment.ops:
            if isinstance(op, Alloca):
                if op.result.name in self.split._expanded:
                    self._materialize(op.result)
                continue
            self.editor.ops.append(rename(op, self.renaming))
        for op in self.segment.ops:
            for value in results(op):
                if value.name in self.split.crossing.kept:
                    self._store(self.split.crossing.kept[value.name], value)
        for keep in self.segment.keeps:
            if not _unread(keep):
                self._store(keep.slot, swap(keep.value, self.renaming))
        return tuple(self._mask_value(mask.cond, mask.negated) for mask in self.segment.masks)

    def _mask_value(self, cond: Operand | None, negated: bool) -> Operand:
        if cond is None:
            return Const(I1, "true")
        value = swap(cond, self.renaming)
        return self.editor.xor(value, Const(I1, "true"), "not") if negated else value

    def set_masks(self, conds: tuple[Operand, ...]) -> None:
        for mask, cond in zip(self.segment.masks, conds, strict=True):
            self._store(mask.slot, cond)

    # ------------------------------------------------------------ values from elsewhere

    def _materialize(self, value: Value) -> Operand:
        """`value` in this segment: as it is, loaded from its slot, or computed again."""
        if value.name in self.renaming or self.split.plan.scalars.is_scalar(value):
            return swap(value, self.renaming)
        slot = self.split.plan.slot_of.get(value.name) or self.split.crossing.kept.get(value.name)
        if slot is not None:
            self.renaming[value.name] = self.load(slot)
        elif value.name in self.split._expanded:
            self.renaming[value.name] = self._expanded_pointer(value)
        elif value.name in self.split.crossing.definition:
            self._recompute(value)
        return swap(value, self.renaming)

    def _recompute(self, value: Value) -> None:
        segment, op = self.split.crossing.definition[value.name]
        if isinstance(op, Alloca) and segment is not self.segment:
            return  # sunk into this segment: it keeps its name
        if segment is self.segment:
            return
        if not isinstance(op, Leaf):
            raise InternalError(f"%{value.name} crosses a barrier, is not kept and cannot be computed again")
        for operand in op.operands:
            if isinstance(operand, Value):
                self._materialize(operand)
        self.editor.ops.extend(self.editor.copy((op,), self.renaming))
        self.renaming[value.name] = results(self.editor.ops[-1])[0]

    def _expanded_pointer(self, value: Value) -> Operand:
        alloca = self.split.crossing.definition[value.name][1]
        if not isinstance(alloca, Alloca):
            raise InternalError(f"%{value.name} is not an allocation")
        first = self.editor.mul(self.number(), self.editor.cast("zext", alloca.count, I64))
        return self.editor.gep(alloca.element, self.split._expanded[value.name], first, name=f"{value.name}.own")

    # ------------------------------------------------------------ slots

    def number(self) -> Operand:
        """This work-item's linear number, last induction variable fastest."""
        if self._number is None:
            parallel = self.split.plan.parallel
            with self.editor.collect() as self.front:
                ivs = tuple(self.renaming[iv.name] for iv in parallel.ivs)
                self._number = item_number(self.editor, parallel, ivs)
        return self._number

    def _address(self, slot: Slot) -> Operand:
        return self.editor.gep(_stored(slot.type), self.split._array(slot), self.number())

    def load(self, slot: Slot) -> Operand:
        address = self._address(slot)
        if slot.type == I1:
            return self.editor.icmp("ne", self.editor.load(I8, address, name=f"{slot.name}.byte"), 0, slot.name)
        return self.editor.load(slot.type, address, name=slot.name)

    def _store(self, slot: Slot, value: Operand) -> None:
        stored = self.editor.cast("zext", value, I8) if slot.type == I1 else value
        self.editor.store(stored, self._address(slot))


def _stored(type_: Type) -> Type:
    return I8 if type_ == I1 else type_


def _unread(keep: Keep) -> bool:
    return isinstance(keep.value, Const) and keep.value.text in _UNREAD


def _pick(values: Sequence, indices: Sequence[int]) -> tuple:
    return tuple(values[index] for index in indices)
