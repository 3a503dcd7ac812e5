"""A loop over threads that only every m-th thread passes runs over those threads alone, as a tree of sums does.

    parallel threads (%x) = (0) to (512) {         %some = icmp sge i64 %m, 2
      %a = add nsw %x, 1                           if i1 %some {
      %r = srem %a, %m                               parallel threads (%step) = (0) to (%count) {
      %c = icmp eq %r, 0                     ->        %at = mul %step, %m ; %x = add %first, %at
      if i1 %c { B }                                   B
    }                                                }
                                                   } else { the loop as it was }

Needs a modulus that all threads share, and threads that do nothing where they do not pass; other conditions beside the
remainder stay inside. Runs after narrow-threads, whose ranges it thins out. The device's meaning of a division by zero
(cuda/semantics.py) is seen through: it does not arise with moduli of 2 and more. Declines where the guarded part is
small. Not handled: remainders other than 0, `&` with a mask.
Source: index-set splitting with strides (Griebl, Feautrier, Lengauer); not in the paper.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from threadloom.cuda.lower.editor import Editor
from threadloom.cuda.lower.effects import is_pure
from threadloom.cuda.lower.traverse import expand, walk
from threadloom.cuda.vectorize.bounds import Bounds, Outside, Sum
from threadloom.cuda.vectorize.narrow_threads import guarded, heaviest, swept
from threadloom.par.constants import const, int_value
from threadloom.par.ops import I64, Block, Function, If, Leaf, Level, Module, Op, Operand, Parallel, Value
from threadloom.par.passes import decline, through_functions


@dataclass(frozen=True, slots=True)
class StrideThreads:
    fewest_ops: int = 4  # behind the guard
    name: str = "stride-threads"

    def apply(self, module: Module) -> Module:
        return through_functions(module, self._function)

    def _function(self, function: Function, module: Module) -> Module:
        editor = Editor(function, module)
        leaves = (op for op in walk(function.body.ops) if isinstance(op, Leaf))
        definitions = {leaf.result.name: leaf for leaf in leaves if leaf.result is not None}

        def change(op: Op) -> list[Op] | None:
            if not isinstance(op, Parallel) or op.level is not Level.THREADS:
                return None
            plan = plan_stride(op, definitions)
            if plan is None:
                return None
            if sum(1 for _ in walk(plan.guard.then.ops)) < self.fewest_ops:
                decline("threads not strided", "little to do behind the remainder", op.loc)
                return None
            return _strided(op, plan, editor)

        body = expand(function.body, change)
        return module if body is function.body else editor.finish(replace(function, body=body))


@dataclass(frozen=True, slots=True)
class Stride:
    """Of a loop's threads those pass `guard` for which `sum` (of the index of dimension `axis`) is divisible by
    `modulus`, and for which `rest` has the values named there."""

    axis: int
    guard: If
    sum: Sum
    modulus: Operand
    unsigned: bool
    rest: tuple[tuple[Operand, bool], ...]


@dataclass(frozen=True, slots=True)
class Remainder:
    """`dividend` modulo `modulus`, for moduli of 2 and more."""

    opcode: str
    dividend: Operand
    modulus: Operand


def plan_stride(op: Parallel, definitions: dict[str, Leaf]) -> Stride | None:
    guard = heaviest(op.body)
    if guard is None or len(guard.otherwise.ops) > 1 or guard.results:
        return None
    if any(one is not guard and not (isinstance(one, Leaf) and is_pure(one)) for one in op.body.ops):
        return None
    bounds = Bounds(op)
    parts = bounds.conjunction(guard.cond)
    for part in parts:
        if not isinstance(part, tuple):
            continue
        found = _divisible(*part, definitions)
        if found is None or not bounds.is_shared(found.modulus):
            continue
        total = bounds.sum(found.dividend)
        if total is None or len(total.steps) != 1 or any(p.type.bits > 32 for _, p in total.parts):
            continue
        ((factor, index),) = total.steps
        if factor != 1:
            continue
        unsigned = found.opcode == "urem"
        if unsigned and (total.parts or total.constant < 0):  # might be a negative number read as a large one
            continue
        rest = tuple(other for other in parts if other is not part and isinstance(other, tuple))
        if len(rest) == len(parts) - 1:
            return Stride(op.ivs.index(index), guard, total, found.modulus, unsigned, rest)
    return None


def _divisible(cond: Operand, wanted: bool, definitions: dict[str, Leaf]) -> Remainder | None:
    """The remainder that is 0 where `cond` is `wanted`."""
    leaf = _definition(cond, definitions)
    if leaf is None or leaf.opcode != "icmp" or int_value(leaf.operands[1]) != 0:
        return None
    return _remainder(leaf.operands[0], definitions) if leaf.attrs.predicate == ("eq" if wanted else "ne") else None


def _definition(operand: Operand, definitions: dict[str, Leaf]) -> Leaf | None:
    return definitions.get(operand.name) if isinstance(operand, Value) else None


def _remainder(operand: Operand, definitions: dict[str, Leaf]) -> Remainder | None:
    leaf = _definition(operand, definitions)
    if leaf is None:
        return None
    if leaf.opcode == "select":  # of the dividend itself where the modulus is 0
        found = _remainder(leaf.operands[2], definitions)
        return found if found and _is_false(leaf.operands[0], found.modulus, definitions) else None
    if leaf.opcode not in ("srem", "urem"):
        return None
    dividend, modulus = leaf.operands
    made = _definition(modulus, definitions)
    if made is not None and made.opcode == "select" and int_value(made.operands[1]) == 1:
        if not _is_false(made.operands[0], made.operands[2], definitions):
            return None
        modulus = made.operands[2]
    return Remainder(leaf.opcode, dividend, modulus)


def _is_false(cond: Operand, modulus: Operand, definitions: dict[str, Leaf]) -> bool:
    """For every `modulus` of 2 and more."""
    leaf = _definition(cond, definitions)
    match leaf:
        case Leaf(opcode="icmp", operands=(left, right)):
            return leaf.attrs.predicate == "eq" and left == modulus and int_value(right) in (0, -1)
        case Leaf(opcode="and", operands=sides):
            return any(_is_false(side, modulus, definitions) for side in sides)
        case Leaf(opcode="or", operands=sides):
            return all(_is_false(side, modulus, definitions) for side in sides)
    return False


def _strided(op: Parallel, plan: Stride, editor: Editor) -> list[Op]:
    outside, type_ = Outside(Bounds(op), editor), op.ivs[plan.axis].type
    with editor.collect() as ops, editor.at(op.loc):
        modulus = editor.cast("zext" if plan.unsigned else "sext", outside.value(plan.modulus), I64)
        with editor.if_(editor.icmp("sge", modulus, 2, "some")) as branch:
            begin = editor.cast("sext", op.lowers[plan.axis], I64)
            end = editor.cast("sext", op.uppers[plan.axis], I64)
            offset = outside.number(replace(plan.sum, steps=()))
            over = editor.srem(editor.add(offset, begin), modulus, "over")
            skipped = editor.select(editor.icmp("sgt", over, 0), editor.sub(modulus, over), editor.sub(0, over))
            first = editor.add(begin, skipped, name="first")
            room = editor.add(editor.sub(end, first), editor.sub(modulus, 1))
            count = editor.max(editor.sdiv(room, modulus), 0, name="count")
            editor.ops.append(_every(op, plan, editor, [editor.cast("trunc", one, type_)
                                                        for one in (first, count, modulus)]))  # fmt: skip
            branch.otherwise()
            editor.ops.append(op)
    return ops


def _every(op: Parallel, plan: Stride, editor: Editor, numbers: list[Operand]) -> Parallel:
    """The loop over every `modulus`-th thread from `first` on, `count` of them."""
    first, count, modulus = numbers
    x = op.ivs[plan.axis]
    step = editor.fresh("step", x.type)
    with editor.collect() as head:
        at = editor.mul(step, modulus)
        head.append(Leaf("add", (first, at), x))
    body = guarded(op.body, plan.guard, True, list(plan.rest), editor)
    loop = replace(
        op,
        ivs=_with(op.ivs, plan.axis, step),
        lowers=_with(op.lowers, plan.axis, const(x.type, 0)),
        uppers=_with(op.uppers, plan.axis, count),
        body=Block((*head, *body.ops)),
    )
    return editor.copy((swept(loop),), {})[0]


def _with(items: tuple, place: int, item: Operand) -> tuple:
    return (*items[:place], item, *items[place + 1 :])
