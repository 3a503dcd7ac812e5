"""Nested ifs as one: a chain of guards becomes one condition, which one mask, or one range of threads, can stand for.

    %r = if i1 %a { %c = icmp ...; %s = if i1 %c { B; yield 1 } else { yield 0 }; yield i8 %s } else { yield 0 }
 -> %c = icmp ...; %both = select i1 %a, i1 %c, i1 false; %r = if i1 %both { B; yield 1 } else { yield 0 }

The select keeps a poisoned %c out where %a is false. Merged are ifs between which nothing happens but what may run
anyway, and whose other sides give the same values.
"""

from __future__ import annotations

from dataclasses import replace

from threadloom.cuda.lower.editor import Editor
from threadloom.cuda.lower.traverse import last_values
from threadloom.par.intrinsics import is_speculatable
from threadloom.par.ops import I1, Block, Const, If, Leaf, Op, Operand, Yield

_MOST_LEAVES = 24  # between two ifs: they run for all threads then


def merge_conditions(block: Block, editor: Editor) -> Block:
    """`block` with the ifs at its top level merged with those inside them."""
    ops: list[Op] = []
    for op in block.ops:
        ops.extend(_merged(op, editor) if isinstance(op, If) else [op])
    return Block(tuple(ops))


def _merged(op: If, editor: Editor) -> list[Op]:
    with editor.collect() as front, editor.at(op.loc):
        op = _turned(op, editor)
    then = merge_conditions(op.then, editor)
    op = replace(op, then=then)
    *leaves, inner = then.ops[:-1] or (None,)
    if (
        not isinstance(inner, If)
        or len(op.otherwise.ops) > 1
        or len(inner.otherwise.ops) > 1
        or len(leaves) > _MOST_LEAVES
        or not all(isinstance(leaf, Leaf) and is_speculatable(leaf) for leaf in leaves)
    ):
        return [*front, op]
    values = _passed(op, inner)
    if values is None:
        return [*front, op]
    with editor.collect() as both, editor.at(inner.loc):
        cond = editor.select(op.cond, inner.cond, Const(I1, "false"), name="both")
    body = Block((*inner.then.ops[:-1], Yield(values)))
    return [*front, *leaves, *both, If(cond, body, op.otherwise, op.results, op.loc)]


def _turned(op: If, editor: Editor) -> If:
    """With what there is to do on the first side."""
    if len(op.then.ops) > 1 or len(op.otherwise.ops) <= 1:
        return op
    cond = editor.xor(op.cond, Const(I1, "true"), "not")
    return replace(op, cond=cond, then=op.otherwise, otherwise=op.then)


def _passed(outer: If, inner: If) -> tuple[Operand, ...] | None:
    """What the merged if yields where both conditions hold; None: where only one holds, the values would differ."""
    sides = zip(last_values(inner.then), last_values(inner.otherwise), strict=True)
    of_inner = {result.name: pair for result, pair in zip(inner.results, sides, strict=True)}
    found: list[Operand] = []
    for value, otherwise in zip(last_values(outer.then), last_values(outer.otherwise), strict=True):
        yes, no = of_inner.get(getattr(value, "name", ""), (value, value))
        if no != otherwise:
            return None
        found.append(yes)
    return tuple(found)
