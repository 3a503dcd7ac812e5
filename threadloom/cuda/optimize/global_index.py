"""Which sums of indices cannot leave 31 bits in a launch of fewer than `MOST_THREADS` threads.

    %i = add i32 (mul i32 %blockIdx.x, %block.x), %threadIdx.x
       <= (grid.x - 1) * block.x + (block.x - 1) = grid.x * block.x - 1 < threads of the launch

CUDA's index arithmetic is unsigned and may wrap, so that `if (i < n)` says nothing about %threadIdx.x alone. It does in
all launches that anybody waits for on a CPU: specialize.py has one test at the launch, and its version says so by `nsw`
and `nuw`, which is what vectorize/bounds.py asks.

An upper bound is the polynomial of the value (affine.py) with every index at its end. It must be a sum of at most
`_MOST_TIMES` products, each of different extents of the launch, with no other symbol.
"""

from __future__ import annotations

from dataclasses import replace

from threadloom.cuda.kernel import BLOCK, BLOCK_INDEX, GRID, THREAD_INDEX
from threadloom.cuda.lower.traverse import expand, walk
from threadloom.cuda.optimize import wrapping
from threadloom.cuda.optimize.affine import Arithmetic, Polynomial, constant, plus, polynomial, times
from threadloom.par.constants import int_value
from threadloom.par.ops import I32, Function, Leaf, Level, Op, Operand, Parallel

MOST_THREADS = 1 << 28
_MOST_TIMES = 4  # of MOST_THREADS: half of 31 bits; what is added may be as much
_MOST_ADDED = 1 << 29


def unwrapped(kernel: Function) -> frozenset[str]:
    """Names of i32 sums and products in `kernel` that are neither negative nor above 2^31 - 1, nor is what they are
    computed from, and that do not say so yet."""
    ops = kernel.body.ops if kernel.body else ()
    parallels = {op.level: op for op in walk(ops) if isinstance(op, Parallel)}
    if not {Level.BLOCKS, Level.THREADS} <= set(parallels):
        return frozenset()
    extents = _extents(parallels[Level.BLOCKS]) | _extents(parallels[Level.THREADS])
    arithmetic = Arithmetic(ops)
    small = {value.name for value in (*GRID, *BLOCK, *BLOCK_INDEX, *THREAD_INDEX)}
    found = set()
    for op in walk(ops):
        if not isinstance(op, Leaf) or op.opcode not in ("add", "mul") or op.result is None or op.result.type != I32:
            continue
        if not all(_is_small(operand, small) for operand in op.operands):
            continue
        if _fits(arithmetic.of(op.result), extents):
            small.add(op.result.name)
            if not wrapping.never_wraps(op):
                found.add(op.result.name)
    return frozenset(found)


def without_wrap(kernel: Function, names: frozenset[str]) -> Function:
    """`kernel` with the sums and products `names` marked."""

    def change(op: Op) -> list[Op] | None:
        if not isinstance(op, Leaf) or op.result is None or op.result.name not in names:
            return None
        return [wrapping.without_wrap(op)]

    return replace(kernel, body=expand(kernel.body, change)) if kernel.body else kernel


def _extents(parallel: Parallel) -> dict[str, Operand]:
    return {iv.name: upper for iv, upper in zip(parallel.ivs, parallel.uppers, strict=True)}


def _is_small(operand: Operand, small: set[str]) -> bool:
    value = int_value(operand)
    return value >= 0 if value is not None else getattr(operand, "name", "") in small


def _fits(value: Polynomial, extents: dict[str, Operand]) -> bool:
    sizes = {value.name for value in (*GRID, *BLOCK)}
    if not value.atoms() <= sizes | set(extents) or any(factor < 0 for _, factor in value.terms):
        return False
    known = 1  # threads of the launch, as far as they are numbers
    for extent in extents.values():
        known *= max(int_value(extent) or 1, 1)
    total = 0
    for monomial, factor in _at_the_end(value, extents).terms:
        if len(set(monomial)) < len(monomial):
            return False
        if not monomial:
            if factor > _MOST_ADDED:
                return False
        elif factor > 0:
            total += -(-factor // known)
    return total <= _MOST_TIMES


def _at_the_end(value: Polynomial, extents: dict[str, Operand]) -> Polynomial:
    """With one less than its extent for every index."""
    result = constant(0)
    for monomial, factor in value.terms:
        product = constant(factor)
        for atom in monomial:
            extent = extents.get(atom)
            one = polynomial({(atom,): 1}) if extent is None else plus(_symbol(extent), constant(1), -1)
            product = times(product, one)
        result = plus(result, product)
    return result


def _symbol(extent: Operand) -> Polynomial:
    number = int_value(extent)
    return constant(number) if number is not None else polynomial({(getattr(extent, "name", ""),): 1})
