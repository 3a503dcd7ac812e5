"""Accesses that may race, checked for all threads of a loop by one call each.

    parallel threads (%y, %x) = ... { %q = call @__loom_check_write_4(..., %p, @site.3, ...); store %v, %q }
 -> call @__loom_check_threads(..., @site.3, %first, extents, strides of addresses and of thread numbers)
    parallel threads (%y, %x) = ... { store %v, %p }

Each access must be made by every thread, at an address and with a thread number that are linear in the thread's
indices (that nothing wraps and all lies in the object, check_ahead.py tests). All accesses of the loop that the checker
must see are taken, or none: within a thread they stay in order, and what happens between threads has none.
"""

from __future__ import annotations

from collections.abc import Iterable

from threadloom.cuda.check.access import Access, access_of
from threadloom.cuda.lower.editor import Editor
from threadloom.cuda.lower.runtime_calls import CHECK_PRIVATE, CHECK_THREADS, is_check_call
from threadloom.cuda.lower.traverse import free_values, walk
from threadloom.cuda.optimize.affine import Arithmetic, Monomial, Polynomial
from threadloom.par.constants import const
from threadloom.par.ops import I64, VOID, Const, Leaf, Operand, Parallel, Value

_DIMENSIONS = 3
_Linear = tuple[Polynomial, list[Polynomial]]  # the rest, the factor of each index


def touched(op: Parallel) -> list[Access] | None:
    """The accesses of a loop whose other checks are done; None if one of them is not made by every thread."""
    leaves = (leaf for leaf in walk(op.body.ops) if isinstance(leaf, Leaf))
    calls = [leaf for leaf in leaves if is_check_call(leaf.attrs.callee) and leaf.attrs.callee != CHECK_PRIVATE]
    accesses = [access_of(call) for call in calls]
    if any(access is None or access.kind not in ("read", "write") for access in accesses):
        return None
    top = {id(leaf) for leaf in op.body.ops}
    return [access for access in accesses if access] if all(id(call) in top for call in calls) else None


def touch(op: Parallel, accesses: list[Access], together: bool, editor: Editor) -> bool:
    """Builds the calls; False (and nothing of use built) where one is not linear. `together`: all threads of a block
    count the same barriers, and nothing else, so that their position is the block's."""
    arithmetic = Arithmetic(op.body.ops)
    values = free_values(op.body.ops)
    planned = []
    for access in accesses:
        block, thread, position = access.call.operands[:3]
        at = arithmetic.address(access.address).flattened()
        address, number = (_linear(one, op, values) for one in (at.index(1), arithmetic.of(thread)))
        base_known = isinstance(at.base, Const) or at.base.name in values
        fixed = isinstance(position, Value) and position.name in values
        if address is None or number is None or not base_known or not (fixed or together):
            return False
        planned.append((access, at.base, address, number, position if fixed else None, block))
    for access, base, address, number, position, block in planned:
        now = position or editor.load(I64, block, name="position")
        first = editor.add(editor.cast("ptrtoint", base, I64), _first(address, op, values, editor))
        operands = [block, access.site, now, first, _first(number, op, values, editor)]
        for lower, upper, by, steps in _dimensions(op, address[1], number[1]):
            count = editor.sub(*(editor.cast("sext", bound, I64) for bound in (upper, lower)))
            operands += [count, *(_value(one, values, editor) for one in (by, steps))]
        editor.call(CHECK_THREADS, operands, VOID)
    return True


def _dimensions(op: Parallel, strides: list[Polynomial], steps: list[Polynomial]
                ) -> Iterable[tuple[Operand, Operand, Polynomial, Polynomial]]:  # fmt: skip
    """Three, outermost first."""
    zero, nothing = const(I64, 0), Polynomial(())
    missing = _DIMENSIONS - len(op.ivs)
    yield from [(zero, const(I64, 1), nothing, nothing)] * missing
    yield from zip(op.lowers, op.uppers, strides, steps, strict=True)


def _linear(a: Polynomial, op: Parallel, values: dict[str, Value]) -> _Linear | None:
    names = [iv.name for iv in op.ivs]
    factors: list[dict[Monomial, int]] = [{} for _ in names]
    rest: dict[Monomial, int] = {}
    for monomial, factor in a.terms:
        own = [name for name in monomial if name in names]
        others = tuple(name for name in monomial if name not in names)
        if len(own) > 1 or any(name not in values for name in others):
            return None
        (factors[names.index(own[0])] if own else rest)[others] = factor
    made = [Polynomial(tuple(sorted(one.items()))) for one in factors]
    return (Polynomial(tuple(sorted(rest.items()))), made) if len(names) <= _DIMENSIONS else None


def _first(linear: _Linear, op: Parallel, values: dict[str, Value], editor: Editor) -> Operand:
    total = _value(linear[0], values, editor)
    for lower, factor in zip(op.lowers, linear[1], strict=True):
        total = editor.add(total, editor.mul(editor.cast("sext", lower, I64), _value(factor, values, editor)))
    return total


def _value(a: Polynomial, values: dict[str, Value], editor: Editor) -> Operand:
    total: Operand = const(I64, 0)
    for monomial, factor in a.terms:
        product: Operand = const(I64, factor)
        for name in monomial:
            product = editor.mul(product, editor.cast("sext", values[name], I64))
        total = editor.add(total, product)
    return total
