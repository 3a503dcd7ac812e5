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

from threadloom.cuda.check.access import Access, access_of
from threadloom.cuda.check.edge_guards import plan_guards
from threadloom.cuda.check.passed_apart import passed_apart
from threadloom.cuda.check.ranges import Range, Ranges
from threadloom.cuda.check.touch_threads import touch, touched
from threadloom.cuda.lower.editor import Editor
from threadloom.cuda.lower.fold import fold_block
from threadloom.cuda.lower.runtime_calls import CHECK_TOGETHER, CHECK_WRITTEN
from threadloom.cuda.lower.traverse import expand, rename_block, walk
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


@dataclass(frozen=True, slots=True)
class CheckAhead:
    most_ops: int = 600
    name: str = "check-ahead"

    def apply(self, module: Module) -> Module:
        return through_functions(module, self._function)

    def _function(self, function: Function, module: Module) -> Module:
        editor = Editor(function, module)
        inside = (op for op in walk(function.body.ops if function.body else ()) if isinstance(op, Leaf))
        together = any(op.attrs.callee == CHECK_TOGETHER for op in inside)

        def change(op: Op) -> list[Op] | None:
            if not isinstance(op, Parallel) or op.level is not Level.THREADS:
                return None
            inside = list(walk(op.body.ops))
            if not any(map(access_of, inside)) or any(isinstance(inner, Parallel) for inner in inside):
                return None
            if len(inside) > self.most_ops:
                decline("not checked ahead", "the loop is too large for more versions", op.loc)
                return None
            passed, rest = passed_apart(op, editor)
            return [*passed, *_versions(rest, together, editor)]

        body = expand(function.body, change)
        return module if body is function.body else editor.finish(replace(function, body=body))


@dataclass(frozen=True, slots=True)
class Version:
    """`ops` may run where `fits`, which `front` computes, holds."""

    front: list[Op]
    fits: Operand
    ops: list[Op]


def _versions(op: Parallel, together: bool, editor: Editor) -> list[Op]:
    """The loop with all its checks in place, behind versions with fewer."""
    with editor.collect() as front, editor.at(op.loc):
        ranges = Ranges(op, editor)
        guards = plan_guards(op, ranges, editor)
        guards.tests += ranges.holds
    assumed = replace(op, body=_assuming(op.body, guards.known)) if guards.known else op
    all_at_once = _version(assumed, front, guards.tests, True, together, editor)
    ops: list[Op] = [op]
    if all_at_once is None or guards.known:
        ops = _chosen(_version(op, [], [], False, together, editor), ops, editor)
    return _chosen(all_at_once, ops, editor)


def _assuming(body: Block, known: dict[str, Operand]) -> Block:
    kept = expand(body, lambda op: [] if isinstance(op, Leaf) and op.result and op.result.name in known else None)
    return fold_block(kept, dict(known))


def _chosen(version: Version | None, otherwise: list[Op], editor: Editor) -> list[Op]:
    if version is None:
        return otherwise
    with editor.collect() as ops, editor.if_(version.fits) as branch:
        editor.ops += version.ops
        branch.otherwise()
        editor.ops += otherwise
    return [*version.front, *ops]


def _version(op: Parallel, front: list[Op], tests: list[Operand], whole: bool, together: bool, editor: Editor
             ) -> Version | None:  # fmt: skip
    """Without the checks that can be made ahead. `whole`: these must be all."""
    tests = list(tests)
    with editor.collect() as ahead, editor.at(op.loc):
        ranges = Ranges(op, editor)
        covered: list[Access] = []
        for access in filter(None, map(access_of, walk(op.body.ops))):
            range_ = ranges.address(access.address) if whole or access.kind not in ("read", "write") else None
            if range_ is not None:
                covered.append(access)
                tests += _tests(access, range_, editor)
        fits: Operand = Const(I1, "true")
        for test in dict.fromkeys((*ranges.holds, *tests)):
            fits = test if fits == Const(I1, "true") else editor.and_(fits, test, "fits")
    general = [access for access in covered if access.kind in ("read", "write")]
    with editor.collect() as ops, editor.at(op.loc):
        if whole:
            left = touched(replace(op, body=_without(op, [one for one in covered if one not in general], editor)))
            if left is None or len(left) > len(general) or not touch(op, general, together, editor):
                return None
        fast = replace(op, body=_without(op, covered, editor))
        editor.ops.append(swept(editor.copy((fast,), {})[0]))
    return Version([*front, *ahead], fits, ops) if covered else None


def _tests(access: Access, range_: Range, editor: Editor) -> list[Operand]:
    """That nothing in the range needs a look of its own."""
    low, high = range_
    extent = access.more[0] if access.kind.startswith("disjoint") else access.extent
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
