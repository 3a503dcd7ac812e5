"""Checks of all threads at once, in front of their loop; behind them the loop runs without.

    parallel threads (%y, %x) = ... { for %k = 0 to 16 { %q = call @__loom_check_disjoint_read_4(..., %p); load %q } }
 -> %fits = %p lies in the array for all %y, %x and %k, and all that may be read has been written
    if %fits { parallel threads (%y, %x) = ... { for %k = 0 to 16 { load %p } }
    } else { parallel threads (%y, %x) = ... { what it was } }

For accesses that need no more than bounds: to memory that the kernel only reads, and to shared arrays on which threads
cannot race (of these writes leave their mark, and what is read must have been written). Guards are not looked at, so
blocks at the edge of an array often run the second loop. The addresses must have ranges (ranges.py). What is left in
the first loop are checks of accesses that may race. That the threads have passed a barrier becomes a loop of its own in
front. Needs: barriers lowered. Not handled: loops of more than `most_ops` operations.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from threadloom.cuda.check.ranges import Range, Ranges
from threadloom.cuda.lower.editor import Editor
from threadloom.cuda.lower.effects import is_pure
from threadloom.cuda.lower.runtime_calls import CHECK_PASSED, CHECK_WRITTEN, is_check_call
from threadloom.cuda.lower.traverse import expand, free_values, rename_block, walk
from threadloom.cuda.vectorize.narrow_threads import swept
from threadloom.par.constants import int_value
from threadloom.par.ops import (
    I1,
    I8,
    I32,
    I64,
    Block,
    Const,
    Function,
    Leaf,
    Level,
    Module,
    Op,
    Operand,
    Parallel,
    Struct,
    Type,
    Value,
)
from threadloom.par.passes import decline, through_functions
from threadloom.par.result_types import size_bytes, struct_layout
from threadloom.par.walk import arguments, results

_KINDS = {f"__loom_check_{kind}": kind for kind in ("bounds", "disjoint_read", "disjoint_write")}


@dataclass(frozen=True, slots=True)
class Access:
    """A call of a check, by its arguments (inline_calls.py)."""

    kind: str
    bytes_: int
    call: Leaf
    address: Operand
    site: Operand
    base: Operand
    extent: Operand
    quick: Operand
    more: tuple[Operand, ...]  # whether to watch; the extent where it is proved, the block's start


@dataclass(frozen=True, slots=True)
class CheckAhead:
    most_ops: int = 600
    name: str = "check-ahead"

    def apply(self, module: Module) -> Module:
        return through_functions(module, self._function)

    def _function(self, function: Function, module: Module) -> Module:
        editor = Editor(function, module)

        def change(op: Op) -> list[Op] | None:
            if not isinstance(op, Parallel) or op.level is not Level.THREADS:
                return None
            inside = list(walk(op.body.ops))
            accesses = [access for leaf in inside if (access := access_of(leaf)) is not None]
            if not accesses or any(isinstance(inner, Parallel) for inner in inside):
                return None
            if len(inside) > self.most_ops:
                decline("not checked ahead", "the loop is too large for a second version", op.loc)
                return None
            return _two_versions(op, accesses, editor)

        body = expand(function.body, change)
        return module if body is function.body else editor.finish(replace(function, body=body))


def access_of(op: Op) -> Access | None:
    if not isinstance(op, Leaf) or op.opcode != "call" or op.result is None:
        return None
    name, _, bytes_ = op.attrs.callee.rpartition("_")
    if name not in _KINDS:
        return None
    _, _, _, _, address, site, base, extent, quick, *more = op.operands
    return Access(_KINDS[name], int(bytes_), op, address, site, base, extent, quick, tuple(more))


def _two_versions(op: Parallel, accesses: list[Access], editor: Editor) -> list[Op] | None:
    with editor.collect() as front, editor.at(op.loc):
        ranges = Ranges(op, editor)
        covered: list[Access] = []
        tests: list[Operand] = []
        for access in accesses:
            if (range_ := ranges.address(access.address)) is not None:
                covered.append(access)
                tests += _tests(access, range_, editor)
        fits: Operand = Const(I1, "true")
        for test in dict.fromkeys((*ranges.holds, *tests)):
            fits = test if fits == Const(I1, "true") else editor.and_(fits, test, "fits")
    if not covered:
        return None
    passed, rest = _passed_apart(op, editor)
    with editor.collect() as versions, editor.at(op.loc), editor.if_(fits) as branch:
        fast = replace(rest, body=_without(rest, covered, editor))
        editor.ops.append(swept(editor.copy((fast,), {})[0]))
        branch.otherwise()
        editor.ops.append(rest)
    return [*passed, *front, *versions]


def _tests(access: Access, range_: Range, editor: Editor) -> list[Operand]:
    """That nothing in the range needs a look of its own."""
    low, high = range_
    extent = access.extent if access.kind == "bounds" else access.more[0]
    base = editor.cast("ptrtoint", access.base, I64, name="base")
    end = editor.add(editor.sub(high, base), access.bytes_)
    tests = [editor.icmp("sge", low, base, "inside"), editor.icmp("sle", end, extent, "inside")]
    if access.kind == "bounds":
        tests.append(editor.xor(access.more[0], True, "alone"))
    if access.kind == "disjoint_read":
        given = [access.call.operands[0], access.site, low, editor.add(high, access.bytes_)]
        tests.append(editor.icmp("ne", editor.call(CHECK_WRITTEN, given, I32, name="written"), 0, "written"))
    return tests


# ------------------------------------------------------------ the loop without checks


def _without(op: Parallel, covered: list[Access], editor: Editor) -> Block:
    calls = {access.call.result: access for access in covered}
    leaves = {leaf.result: leaf for leaf in walk(op.body.ops) if isinstance(leaf, Leaf) and leaf.result is not None}

    def change(leaf: Op) -> list[Op] | None:
        access = calls.get(leaf.result) if isinstance(leaf, Leaf) else None
        if access is None:
            return None
        with editor.collect() as mark, editor.at(access.call.loc):
            if access.kind == "disjoint_write":
                _mark(access, leaves, editor)
        return mark

    return rename_block(expand(op.body, change), {result.name: calls[result].address for result in calls})


def _mark(access: Access, leaves: dict[Value, Leaf], editor: Editor) -> None:
    """Its words have been written in this block: the quick number of each is the block's start."""
    at = editor.shl(_offset(access.address, access.base, leaves, editor), 1)
    for word in range(access.bytes_ // 4):
        editor.store(access.more[1], editor.gep(I8, access.quick, editor.add(at, 8 * word), name="mark"))


def _offset(pointer: Operand, base: Operand, leaves: dict[Value, Leaf], editor: Editor) -> Operand:
    """Of a pointer that has a range, from `base`, in bytes."""
    leaf = leaves.get(pointer)
    if leaf is None:
        return editor.sub(editor.cast("ptrtoint", pointer, I64), editor.cast("ptrtoint", base, I64))
    offset = _offset(leaf.operands[0], base, leaves, editor)
    type_: Type = leaf.attrs.source_type
    for position, index in enumerate(leaf.operands[1:]):
        if position > 0 and isinstance(type_, Struct):
            field = int_value(index)
            offset, type_ = editor.add(offset, struct_layout(type_)[0][field]), type_.fields[field]
            continue
        type_ = type_.element if position > 0 else type_
        offset = editor.add(offset, editor.mul(editor.cast("sext", index, I64), size_bytes(type_)))
    return offset


# ------------------------------------------------------------ barriers that threads have passed


def _passed_apart(op: Parallel, editor: Editor) -> tuple[list[Op], Parallel]:
    """What counts the barrier in front of the loop, as a loop of its own, and the rest."""
    leaves = [inner for inner in op.body.ops if isinstance(inner, Leaf)]
    calls = [inner for inner in leaves if inner.attrs.callee == CHECK_PASSED]
    if not calls:
        return [], op
    counts = {call.operands[1] for call in calls}
    stores = [inner for inner in leaves if inner.opcode == "store" and inner.operands[0] in counts]
    head = op.body.ops[: op.body.ops.index(calls[-1]) + 1]
    books = [inner for inner in head if isinstance(inner, Leaf) and _counts(inner, calls, stores)]
    others = [inner for inner in walk(head) if inner not in books]
    if any(isinstance(inner, Leaf) and is_check_call(inner.attrs.callee) for inner in others):
        return [], op
    elsewhere = {value.name for inner in others for value in (*results(inner), *arguments(inner))}
    rest = swept(replace(op, body=Block(tuple(inner for inner in op.body.ops if inner not in (*calls, *stores)))))
    slots = {store.operands[1] for store in stores}
    stale = any(isinstance(inner, Leaf) and inner.opcode == "load" and inner.operands[0] in slots for inner in head
                if inner in rest.body.ops)  # fmt: skip
    if stale or elsewhere & free_values(books).keys():
        return [], op
    return [swept(editor.copy((replace(op, body=Block(tuple(books))),), {})[0])], rest


def _counts(op: Leaf, calls: list[Leaf], stores: list[Leaf]) -> bool:
    return op in calls or op in stores or is_pure(op) or op.opcode == "load"
