"""The plan of fission and interchange: the body of a loop over work-items as a tree of barrier-free segments.

    parallel threads (%t) ... {             Run(segment 0)
      A                                     Counted(for %i ...)
      for %i = ... {                          Run(segment 1)
        B                                     Run(segment 2)
        barrier threads             ->      Run(segment 3)
        C
      }
      D
    }

A *segment* becomes its own loop over work-items. Control flow with barriers inside moves outside those loops:
its condition is scalar (one value for all), or it is *masked*: the segments inside run only for the work-items whose
byte in a mask array is set. Values that change along control flow (carried values, results of ifs) live in a *slot*,
an array with one element per work-item; `split_cut.py` decides which other values get one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from threadloom.cuda.lower.calls import is_marker
from threadloom.cuda.lower.scalars import Scalars
from threadloom.cuda.lower.separators import contains_meeting, has_meeting, is_meeting
from threadloom.cuda.lower.slot_sharing import shared_slots
from threadloom.cuda.lower.traverse import last_values
from threadloom.errors import InternalError
from threadloom.par.ops import (
    I1,
    Barrier,
    Block,
    Condition,
    Const,
    Float,
    For,
    If,
    Int,
    Leaf,
    Level,
    Op,
    Operand,
    Parallel,
    Ptr,
    Type,
    Value,
    While,
    Yield,
)
from threadloom.par.walk import results


@dataclass(frozen=True, slots=True)
class Slot:
    """One element per work-item; an i1 takes a byte."""

    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class Keep:
    """At the end of a segment: `slot` of this work-item becomes `value`. All values are read before any is stored."""

    slot: Slot
    value: Operand


@dataclass(frozen=True, slots=True)
class Mask:
    """At the end of a segment, for every work-item: `slot` = the segment's own mask and `cond` (None: true)."""

    slot: Slot
    cond: Operand | None
    negated: bool = False


@dataclass(slots=True)
class Segment:
    number: int
    mask: Slot | None
    loops: tuple[int, ...]  # the loops with barriers around it
    ops: list[Op] = field(default_factory=list)
    keeps: list[Keep] = field(default_factory=list)
    masks: list[Mask] = field(default_factory=list)

    @property
    def empty(self) -> bool:
        return not (self.ops or self.keeps or self.masks)


@dataclass(frozen=True, slots=True)
class End:
    """Where the ends of a region go. Right behind a barrier they go to the segment before it, since slots belong to one
    work-item and barriers do not order them; values of scalar operations that stand in between (`late_names`) are
    there only in the late segment."""

    early: Segment
    late: Segment
    late_names: frozenset[str] = frozenset()

    def keep(self, keep: Keep) -> None:
        late = isinstance(keep.value, Value) and keep.value.name in self.late_names
        (self.late if late else self.early).keeps.append(keep)

    def mask(self, mask: Mask) -> None:
        """Behind all that is kept under the old mask."""
        (self.late if self.late.keeps else self.early).masks.append(mask)


@dataclass(frozen=True, slots=True)
class Scalar:
    """Runs once, outside the loops over work-items."""

    op: Op


@dataclass(frozen=True, slots=True)
class Run:
    segment: Segment


@dataclass(frozen=True, slots=True)
class Meeting:
    """A barrier of an outer level that stays where the segments meet."""

    op: Barrier


@dataclass(frozen=True, slots=True)
class Branch:
    """`mask` is None: the condition is scalar. Else each side runs where any work-item takes it."""

    op: If
    then: tuple[Item, ...]
    otherwise: tuple[Item, ...]
    mask: Slot | None = None
    otherwise_mask: Slot | None = None


@dataclass(frozen=True, slots=True)
class Counted:
    op: For
    body: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    op: While
    before: tuple[Item, ...]
    after: tuple[Item, ...]
    mask: Slot | None = None


Item = Scalar | Run | Meeting | Branch | Counted | Repeat


@dataclass(frozen=True, slots=True)
class SplitPlan:
    parallel: Parallel
    items: tuple[Item, ...]
    segments: tuple[Segment, ...]
    slot_of: dict[str, Slot]  # carried values and results: the slot that holds them
    scalars: Scalars
    unstable: frozenset[str]  # carried values that are not to be read again later (slot_sharing.py)


def plan_split(parallel: Parallel, scalars: Scalars) -> SplitPlan:
    sharing = shared_slots(parallel, parallel.level, scalars)
    planner = _Planner(parallel.level, scalars, sharing.homes)
    items, _ = planner.region(parallel.body, None, ())
    return SplitPlan(parallel, items, tuple(planner.segments), planner.slot_of, scalars, sharing.unstable)


class _Planner:
    def __init__(self, level: Level, scalars: Scalars, homes: dict[str, str]):
        self.level, self.scalars, self._homes = level, scalars, homes
        self.segments: list[Segment] = []
        self.slot_of: dict[str, Slot] = {}
        self._loops = 0

    def region(self, block: Block, mask: Slot | None, loops: tuple[int, ...]) -> tuple[tuple[Item, ...], End]:
        """The items of `block`, and its end, which the caller may give more to do."""
        items: list[Item] = []
        segment = self._open(mask, loops)
        for op in block.ops:
            if isinstance(op, Yield | Condition) or (isinstance(op, Leaf) and is_marker(op)):
                continue
            if contains_meeting(op, self.level):
                before = End(segment, segment) if isinstance(op, If) else _end(items, segment)
                items.append(Run(segment))
                items.extend(self._meeting(op, before, mask, loops))
                segment = self._open(mask, loops)
            elif self.scalars.is_scalar_op(op):
                items.append(Scalar(op))
            else:
                segment.ops.append(op)
        end = _end(items, segment)
        items.append(Run(segment))
        return tuple(items), end

    def _open(self, mask: Slot | None, loops: tuple[int, ...]) -> Segment:
        segment = Segment(len(self.segments), mask, loops)
        self.segments.append(segment)
        return segment

    def _slot(self, value: Value) -> Slot:
        slot = self.slot_of[value.name] = Slot(self._homes.get(value.name, value.name), value.type)
        return slot

    def _keep(self, end: End, slot: Slot, value: Operand) -> None:
        if not isinstance(value, Value) or self.slot_of.get(value.name) != slot:  # else it is there already
            end.keep(Keep(slot, value))

    def _meeting(self, op: Op, before: End, mask: Slot | None, loops: tuple[int, ...]) -> Sequence[Item]:
        """`before` is what precedes `op`: it starts the carried values and sets the masks."""
        match op:
            case If():
                return [self._if(op, before.late, mask, loops)]
            case For():
                return [self._for(op, before, mask, loops)]
            case While():
                return [self._while(op, before, mask, loops)]
            case Leaf():  # the grid's barrier, seen from a thread
                return [Meeting(Barrier(Level.BLOCKS, op.loc))]
        if not is_meeting(op, self.level):
            raise InternalError(f"not a meeting of {self.level}: {op!r}")
        return []

    # ------------------------------------------------------------ if

    def _if(self, op: If, segment: Segment, mask: Slot | None, loops: tuple[int, ...]) -> Branch:
        if self.scalars.is_scalar(op.cond):
            then, then_end = self.region(op.then, mask, loops)
            otherwise, otherwise_end = self.region(op.otherwise, mask, loops)
            for result, yes, no in zip(op.results, last_values(op.then), last_values(op.otherwise), strict=True):
                if not self.scalars.is_scalar(result):
                    slot = self._slot(result)
                    self._keep(then_end, slot, yes)
                    self._keep(otherwise_end, slot, no)
            return Branch(op, then, otherwise)
        slots = [self._slot(result) for result in op.results]
        sides: list[tuple[tuple[Item, ...], Slot | None]] = []
        for side, negated in ((op.then, False), (op.otherwise, True)):
            if has_meeting(side.ops, self.level):
                sides.append(self._masked_side(op, side, negated, slots, segment, loops))
            else:
                self._plain_side(op, side, negated, slots, segment)
                sides.append(((), None))
        (then, then_mask), (otherwise, otherwise_mask) = sides
        return Branch(op, then, otherwise, then_mask, otherwise_mask)

    def _masked_side(self, op: If, side: Block, negated: bool, slots: list[Slot], segment: Segment,
                     loops: tuple[int, ...]) -> tuple[tuple[Item, ...], Slot]:  # fmt: skip
        own = Slot(f"mask.{len(self.segments)}", I1)
        segment.masks.append(Mask(own, op.cond, negated))
        items, end = self.region(side, own, loops)
        for slot, value in zip(slots, last_values(side), strict=True):
            self._keep(end, slot, value)
        return items, own

    def _plain_side(self, op: If, side: Block, negated: bool, slots: list[Slot], segment: Segment) -> None:
        """The side without barriers joins the segment before the if: its work-items may exit here, and an exited
        work-item's accesses come before those behind the next barrier."""
        values = tuple(Value(f"{result.name}.plain", result.type) for result in op.results)
        if len(side.ops) <= 1 and not values:
            return
        idle = Block((Yield(tuple(zero(value.type) for value in values)),))
        then, otherwise = (idle, side) if negated else (side, idle)
        segment.ops.append(If(op.cond, then, otherwise, values, op.loc))
        segment.keeps.extend(Keep(slot, value) for slot, value in zip(slots, values, strict=True))

    # ------------------------------------------------------------ loops

    def _for(self, op: For, start: End, mask: Slot | None, loops: tuple[int, ...]) -> Counted:
        if not all(self.scalars.is_scalar(bound) for bound in (op.lower, op.upper, op.step)):
            raise InternalError(f"for with a barrier at {op.loc} has bounds that vary: it should have become a while")
        slots = self._start(op.args, op.inits, start)
        for arg, result in zip(op.args, op.results, strict=True):
            if arg.name in slots:
                self.slot_of[result.name] = slots[arg.name]
        body, end = self.region(op.body, mask, self._deeper(loops))
        self._advance(op.args, last_values(op.body), slots, end)
        return Counted(op, body)

    def _while(self, op: While, start: End, mask: Slot | None, loops: tuple[int, ...]) -> Repeat:
        condition = op.before.ops[-1]
        if not isinstance(condition, Condition):
            raise InternalError(f"while at {op.loc} has no condition")
        masked = not self.scalars.is_scalar(condition.cond)
        slots = self._start(op.args, op.inits, start)
        own = mask
        if masked:
            own = Slot(f"mask.{len(self.segments)}", I1)
            start.mask(Mask(own, None))
        inside = self._deeper(loops)
        before, before_end = self.region(op.before, own, inside)
        self._forward(op, condition, slots, before_end)
        if masked and own is not None:
            before_end.mask(Mask(own, condition.cond))
        after, after_end = self.region(op.after, own, inside)
        self._advance(op.args, last_values(op.after), slots, after_end)
        return Repeat(op, before, after, own if masked else None)

    def _deeper(self, loops: tuple[int, ...]) -> tuple[int, ...]:
        self._loops += 1
        return (*loops, self._loops)

    def _start(self, args: tuple[Value, ...], inits: tuple[Operand, ...], start: End) -> dict[str, Slot]:
        slots: dict[str, Slot] = {}
        for arg, init in zip(args, inits, strict=True):
            if not self.scalars.is_scalar(arg):
                slots[arg.name] = self._slot(arg)
                start.keep(Keep(slots[arg.name], init))
        return slots

    def _advance(self, args: tuple[Value, ...], values: tuple[Operand, ...], slots: dict[str, Slot],
                 end: End) -> None:  # fmt: skip
        for arg, value in zip(args, values, strict=True):
            if arg.name in slots:
                self._keep(end, slots[arg.name], value)

    def _forward(self, op: While, condition: Condition, slots: dict[str, Slot], end: End) -> None:
        """What leaves the condition: a carried value that is passed on as it is shares its slot."""
        for value, after_arg, result in zip(condition.values, op.after_args, op.results, strict=True):
            if self.scalars.is_scalar(result) and self.scalars.is_scalar(after_arg):
                continue
            if isinstance(value, Value) and value.name in slots:
                slot = slots[value.name]
            else:
                slot = Slot(self._homes.get(result.name, result.name), result.type)
                self._keep(end, slot, value)
            self.slot_of[result.name] = slot
            if not self.scalars.is_scalar(after_arg):
                self.slot_of[after_arg.name] = slot


def _end(items: list[Item], segment: Segment) -> End:
    """`segment` is the open one behind `items`."""
    between: list[str] = []
    for item in reversed(items):
        if isinstance(item, Scalar):
            between += [value.name for value in results(item.op)]
            continue
        if isinstance(item, Run) and not segment.ops and item.segment.mask == segment.mask:
            return End(item.segment, segment, frozenset(between))
        break
    return End(segment, segment)


def zero(type_: Type) -> Const:
    """A value of `type_` that nobody reads."""
    match type_:
        case Ptr():
            return Const(type_, "null")
        case Int(1):
            return Const(type_, "false")
        case Int():
            return Const(type_, "0")
        case Float("float" | "double"):
            return Const(type_, "0.000000e+00")
    return Const(type_, "zeroinitializer")
