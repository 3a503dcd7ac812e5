"""Guards become ranges of threads: a loop over threads runs only those that pass, and without asking.

    parallel threads (%y, %x) = (0, 0) to (%ny, %nx) {
      %in = icmp slt i32 (%first + %x), %n; %r = if i1 %in { A; yield 1 } else { yield 0 }; store %r, %slot[%y][%x]
    }
 -> parallel threads (%y, %x) = (0, 0) to (%ny, %nx) { store 0, %slot[%y][%x] }           # the others, in short
    %end = clamp(%n - %first, 0, %nx)
    parallel threads (%y, %x) = (0, 0) to (%ny, %end) { A; store 1, %slot[%y][%x] }

What remains has no mask, and LLVM or vectorize_threads.py see straight-line code. The others run first over all threads
where they only write slots that the threads that pass write again; else what all threads do gets loops of its own
(split_guard.py), and where that cannot be, the others run over the boxes around the range. Indices that
are clamped at the edges of an array (`min(%x + 1, %last)`) get a second version of the loop, for blocks in which no
thread is at an edge. Any order of the threads of a loop without barriers is a legal one, so only the profit counts:
declines where the guarded part is small or the others have much to do.
Source: index-set splitting (Griebl, Feautrier, Lengauer); not in the paper.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from threadloom.cuda.lower.editor import Editor
from threadloom.cuda.lower.effects import Kind, Memory, is_pure, may_alias
from threadloom.cuda.lower.fold import fold_block
from threadloom.cuda.lower.traverse import expand, walk
from threadloom.cuda.lower.waits import waits
from threadloom.cuda.vectorize.bounds import Bound, Bounds, Outside
from threadloom.cuda.vectorize.merge_conditions import merge_conditions
from threadloom.cuda.vectorize.split_guard import Parts, split_guard
from threadloom.par.constants import const, int_value
from threadloom.par.ops import (
    I1,
    I64,
    Alloca,
    Block,
    Const,
    Function,
    If,
    Leaf,
    Level,
    Module,
    Op,
    Operand,
    Parallel,
    Space,
    Value,
)
from threadloom.par.passes import decline, through_functions
from threadloom.par.walk import operands, results

_TRUE, _FALSE = Const(I1, "true"), Const(I1, "false")
Box = list[tuple[Operand, Operand]]  # [lower, upper) of each dimension, in i64


@dataclass(frozen=True, slots=True)
class NarrowThreads:
    fewest_ops: int = 3  # behind the guard
    most_ops_of_others: int = 40  # what threads that do not pass run, where it must be copied around the range
    most_ops_twice: int = 400  # a larger loop has one version, edges or not
    most_ops_of_module: int = 10_000  # a larger one is left: there are more loops afterwards, and LLVM takes its time
    name: str = "narrow-threads"

    def apply(self, module: Module) -> Module:
        size = sum(_weight(function.body.ops) for function in module.functions if function.body is not None)
        if size > self.most_ops_of_module:
            decline("threads not narrowed", "the kernels of the file together are too large")
            return module
        return through_functions(module, self._function)

    def _function(self, function: Function, module: Module) -> Module:
        editor, memory = Editor(function, module), Memory(function, module)

        def change(op: Op) -> list[Op] | None:
            if not isinstance(op, Parallel) or op.level is not Level.THREADS or waits(op.body.ops, memory):
                return None
            merged = replace(op, body=merge_conditions(op.body, editor))
            return self._narrow(merged, memory, editor) or ([merged] if merged.body != op.body else None)

        body = expand(function.body, change)
        return module if body is function.body else editor.finish(replace(function, body=body))

    def _narrow(self, op: Parallel, memory: Memory, editor: Editor) -> list[Op] | None:
        guard = heaviest(op.body)
        if guard is None or any(isinstance(inner, Parallel) for inner in walk(op.body.ops)):
            return None
        bounds = Bounds(op)
        holds = len(guard.then.ops) > 1
        parts = bounds.conjunction(guard.cond, holds)
        limits = [part for part in parts if isinstance(part, Bound)]
        if not limits or _weight((guard,)) < self.fewest_ops or 3 * _weight((guard,)) < _weight(op.body.ops):
            return None
        rest = [part for part in parts if not isinstance(part, Bound)]
        passing = swept(replace(op, body=guarded(op.body, guard, holds, rest, editor)))
        others = swept(replace(op, body=_folded(op.body, guard, _FALSE if holds else _TRUE)))
        others_first = _rewritten(others, passing, memory)
        if not others_first and (parts := split_guard(op, guard)) is not None and (parts.before or parts.behind):
            return self._narrowed_apart(op, parts, memory, editor)
        if not others_first and _weight(others.body.ops) > self.most_ops_of_others:
            decline("threads not narrowed", "threads that do not pass the guard have much to do", op.loc)
            return None
        with editor.collect() as front, editor.at(op.loc):
            whole = _whole(op, editor)
            outside = Outside(bounds, editor)
            box = _narrowed(op, whole, limits, outside, editor)
        return [*front, *_others(others, whole, box, limits, others_first, editor),
                *self._passing(passing, box, limits, bounds, outside, editor)]  # fmt: skip

    def _narrowed_apart(self, op: Parallel, parts: Parts, memory: Memory, editor: Editor) -> list[Op]:
        """Loops of their own for the guarded part and for what stands around it, each narrowed if it can be."""
        ops: list[Op] = []
        for body in (parts.before, parts.guarded, parts.behind):
            if body is not None:
                one = swept(editor.copy((replace(op, body=body),), {})[0])
                memory.learn((one,))
                ops += self._narrow(one, memory, editor) or [one]
        return ops

    def _passing(self, op: Parallel, box: Box, limits: list[Bound], bounds: Bounds, outside: Outside, editor: Editor
                 ) -> list[Op]:  # fmt: skip
        """The narrowed loop, in a version for blocks without edges, too, where that saves something."""
        with editor.collect() as ops, editor.at(op.loc):
            main = _in_box(op, box, editor, fresh=False)
            if any(limit.index == op.ivs[-1] and limit.relation == "eq" for limit in limits):
                _one_thread(main, box, editor)
                return ops
            clamps = _clamps(op, bounds) if _weight(op.body.ops) <= self.most_ops_twice else {}
            if not clamps:
                ops.append(main)
                return ops
            inner: Operand = _TRUE
            for _, never in clamps.values():
                one = _always(never, box[-1], outside, editor)
                inner = one if inner == _TRUE else editor.and_(inner, one, "inner")
            known = {name: chosen for name, (chosen, _) in clamps.items()}
            fast = swept(replace(main, body=_assuming(main.body, known)))
            with editor.if_(inner) as branch:
                editor.ops.append(editor.copy((fast,), {})[0])
                branch.otherwise()
                editor.ops.append(main)
        return ops


def _weight(ops: Iterable[Op]) -> int:
    return sum(1 for _ in walk(ops))


def heaviest(body: Block) -> If | None:
    guards = [op for op in body.ops if isinstance(op, If) and min(len(op.then.ops), len(op.otherwise.ops)) <= 1]
    return max(guards, key=lambda op: _weight((op,)), default=None)


# ------------------------------------------------------------ what passes, and the others


def guarded(body: Block, guard: If, holds: bool, rest: list[tuple[Operand, bool]], editor: Editor) -> Block:
    """`body` for threads inside all bounds: of the guard, only `rest` is left to ask."""
    if not rest:
        return _folded(body, guard, _TRUE if holds else _FALSE)
    ops: list[Op] = []
    for op in body.ops:
        if op is not guard:
            ops.append(op)
            continue
        with editor.collect() as asked, editor.at(op.loc):
            cond: Operand = _TRUE
            for operand, wanted in rest:
                other = operand if wanted else editor.xor(operand, _TRUE, "not")
                cond = other if cond == _TRUE else editor.select(cond, other, _FALSE, name="rest")
            cond = cond if holds else editor.xor(cond, _TRUE, "not")
        ops += [*asked, replace(guard, cond=cond)]
    return Block(tuple(ops))


def _folded(body: Block, guard: If, value: Const) -> Block:
    ops = tuple(replace(op, cond=value) if op is guard else op for op in body.ops)
    return fold_block(Block(ops), {})


def _assuming(body: Block, known: dict[str, Operand]) -> Block:
    kept = expand(body, lambda op: [] if isinstance(op, Leaf) and op.result and op.result.name in known else None)
    chosen = {}
    for name, operand in known.items():  # a clamp of a clamp
        while isinstance(operand, Value) and operand.name in known:
            operand = known[operand.name]
        chosen[name] = operand
    return fold_block(kept, chosen)


def swept(op: Parallel) -> Parallel:
    """Without operations whose result nobody uses and that do nothing else."""
    while True:
        used = {one.name for inner in walk(op.body.ops) for one in operands(inner) if isinstance(one, Value)}

        def drop(inner: Op, used: set[str] = used) -> list[Op] | None:
            unused = not any(result.name in used for result in results(inner))
            if isinstance(inner, Leaf) and inner.result is not None and unused:
                plain_load = inner.opcode == "load" and not inner.attrs.ordering and not inner.attrs.volatile
                return [] if plain_load or is_pure(inner) else None
            idle = isinstance(inner, If) and unused and len(inner.then.ops) <= 1 and len(inner.otherwise.ops) <= 1
            return [] if idle else None

        body = expand(op.body, drop)
        if body is op.body:
            return op
        op = replace(op, body=body)


def _rewritten(others: Parallel, passing: Parallel, memory: Memory) -> bool:
    """All that `others` does is to write elements of slots that `passing` writes again and does not read."""
    again = {op.operands[1] for op in passing.body.ops if isinstance(op, Leaf) and op.opcode == "store"}
    written = []
    for op in others.body.ops:
        if not isinstance(op, Leaf):
            return False
        if is_pure(op):
            continue
        if op.opcode != "store" or op.attrs.ordering or op.attrs.volatile or op.operands[1] not in again:
            return False
        roots = memory.roots(op.operands[1])
        if any(memory.allocas.get(root.name, _NOWHERE).space is not Space.WORKER or root.escaped for root in roots):
            return False
        written.append(roots)
    reads = [access for access in memory.accesses(passing.body.ops) if access.kind is not Kind.WRITE]
    return not any(may_alias(roots, read.roots) for roots in written for read in reads)


_NOWHERE = Alloca(Value("nowhere", I64), I64, const(I64, 1))


# ------------------------------------------------------------ boxes


def _whole(op: Parallel, editor: Editor) -> Box:
    wide = [(editor.cast("sext", lower, I64), editor.cast("sext", upper, I64))
            for lower, upper in zip(op.lowers, op.uppers, strict=True)]  # fmt: skip
    return wide


def _narrowed(op: Parallel, whole: Box, limits: list[Bound], outside: Outside, editor: Editor) -> Box:
    """The threads within all `limits`; never less than empty."""
    box: Box = []
    for iv, (lower, upper) in zip(op.ivs, whole, strict=True):
        first, end = lower, upper
        for limit in limits:
            if limit.index != iv:
                continue
            number = outside.number(limit.limit)
            after = outside.number(limit.limit, plus=1) if limit.relation in ("le", "gt", "eq") else number
            if limit.relation in ("lt", "le", "eq"):
                end = editor.min(end, after, name="end")
            if limit.relation in ("gt", "ge", "eq"):
                first = editor.max(first, number if limit.relation == "eq" else after, name="first")
        if (first, end) != (lower, upper):
            first = editor.min(first, upper, name="first")
            end = editor.max(end, first, name="end")
        box.append((first, end))
    return box


def _in_box(op: Parallel, box: Box, editor: Editor, fresh: bool = True) -> Parallel:
    lowers, uppers = [], []
    for d, (first, end) in enumerate(box):
        type_ = op.ivs[d].type
        lowers.append(editor.cast("trunc", first, type_))
        uppers.append(editor.cast("trunc", end, type_))
    known = zip(op.lowers, op.uppers, lowers, uppers, strict=True)
    pairs = [(old if _same(new, old) else new, up if _same(end, up) else end) for old, up, new, end in known]
    one = replace(op, lowers=tuple(a for a, _ in pairs), uppers=tuple(b for _, b in pairs))
    return editor.copy((one,), {})[0] if fresh else one


def _same(new: Operand, old: Operand) -> bool:
    return int_value(new) is not None and int_value(new) == int_value(old)


def _others(op: Parallel, whole: Box, box: Box, limits: list[Bound], first: bool, editor: Editor) -> list[Op]:
    if not any(not (isinstance(inner, Leaf) and is_pure(inner)) for inner in op.body.ops):
        return []
    if first:
        return [editor.copy((op,), {})[0]]
    with editor.collect() as ops, editor.at(op.loc):
        around = list(whole)
        for d, (iv, (begin, end)) in enumerate(zip(op.ivs, box, strict=True)):
            if not any(limit.index == iv for limit in limits):
                continue
            for part in ((whole[d][0], begin), (end, whole[d][1])):
                loop = _in_box(op, [*around[:d], part, *around[d + 1 :]], editor)
                if _same(loop.lowers[d], loop.uppers[d]):
                    continue
                with editor.if_(editor.icmp("slt", part[0], part[1], "some")):
                    editor.ops.append(loop)
            around[d] = (begin, end)
    return ops


def _one_thread(main: Parallel, box: Box, editor: Editor) -> None:
    """The range along the fastest dimension has one thread or none: no lanes."""
    first, end = box[-1]
    type_ = main.ivs[-1].type
    only = editor.cast("trunc", first, type_)
    with editor.if_(editor.icmp("slt", first, end, "some")):
        body = fold_block(main.body, {main.ivs[-1].name: only})
        editor.ops.append(replace(main, body=body, lowers=(*main.lowers[:-1], const(type_, 0)),
                                  uppers=(*main.uppers[:-1], const(type_, 1))))  # fmt: skip


# ------------------------------------------------------------ indices clamped at edges


def _clamps(op: Parallel, bounds: Bounds) -> dict[str, tuple[Operand, Bound]]:
    """Clamps of the fastest index: what each gives away from the edges, and the bound that holds there."""
    found: dict[str, tuple[Operand, Bound]] = {}
    for leaf in walk(op.body.ops):
        if not isinstance(leaf, Leaf) or leaf.result is None:
            continue
        clamp = _clamp(leaf, op.ivs[-1], bounds)
        if clamp is not None:
            found[leaf.result.name] = clamp
    return found


def _clamp(leaf: Leaf, x: Value, bounds: Bounds) -> tuple[Operand, Bound] | None:
    if leaf.opcode == "select" and leaf.result is not None and leaf.result.type != I1:
        cond = bounds.leaf(leaf.operands[0])
        yes, no = leaf.operands[1:]
        if cond is None or cond.opcode != "icmp" or bounds.is_shared(yes) == bounds.is_shared(no):
            return None
        bound = bounds.bound(cond.operands[0], cond.attrs.predicate, cond.operands[1])
        inner = no if bounds.is_shared(yes) else yes
        bound = bound.inverse() if bound is not None and inner is no else bound
    elif leaf.opcode == "call" and leaf.attrs.callee.startswith(("llvm.smin.i", "llvm.smax.i")):
        a, b = leaf.operands
        if bounds.is_shared(a) == bounds.is_shared(b):
            return None
        inner, limit = (b, a) if bounds.is_shared(a) else (a, b)
        bound = bounds.bound(inner, "sle" if "smin" in leaf.attrs.callee else "sge", limit)
    else:
        return None
    if bound is None or bound.index != x or bound.relation in ("eq", "ne") or bound.limit.unsigned:
        return None
    return inner, bound


def _always(bound: Bound, span: tuple[Operand, Operand], outside: Outside, editor: Editor) -> Operand:
    """Whether `bound` holds for every index in `span`."""
    first, end = span
    limit = outside.number(bound.limit)
    match bound.relation:
        case "lt":
            return editor.icmp("sle", end, limit)
        case "le":
            return editor.icmp("sle", editor.sub(end, 1), limit)
        case "gt":
            return editor.icmp("sgt", first, limit)
    return editor.icmp("sge", first, limit)
