"""canonicalize: fold constants, drop what nobody uses, resolve ifs whose condition is known, drop loops that never run.

    %a = add i32 2, 3                          (nothing; uses say i32 5)
    %b = mul i32 %n, 1                    ->   (nothing; uses say %n)
    %r = if i1 true { yield %x } else ...      (nothing; uses say %x)
    for %i = 5 to 5 carry (%c = %x) ...        (nothing; its result is %x)
    %unused = fadd float %p, %q                (nothing)

Keeps: every access, call, atomic and barrier that can run, and all names that remain. An unused load goes unless it is
volatile or atomic; an unused pure intrinsic goes. Not handled: float folding (rounding is the target's), loops with a
known number of iterations.
Source: the usual sparse folding; as in xdsl's canonicalize but one bottom-up walk, repeated until nothing changes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from threadloom.par.constants import fold_binary, fold_cast, fold_icmp, int_value
from threadloom.par.intrinsics import effect_of, is_ignored
from threadloom.par.opcodes import Effect
from threadloom.par.ops import (
    Alloca,
    Block,
    Const,
    For,
    Function,
    If,
    Leaf,
    Module,
    Op,
    Operand,
    Parallel,
    Value,
    While,
    Yield,
)
from threadloom.par.passes import map_functions
from threadloom.par.walk import map_operands, operands, regions, results, with_regions

_MOST_ROUNDS = 20


@dataclass(frozen=True, slots=True)
class Canonicalize:
    name: str = "canonicalize"

    def apply(self, module: Module) -> Module:
        return map_functions(module, canonicalized)


def canonicalized(function: Function) -> Function:
    body = function.body
    assert body is not None
    for _ in range(_MOST_ROUNDS):
        changed = without_unused(_Folder().block(body))
        if changed == body:
            break
        body = changed
    return function if body == function.body else replace(function, body=body)


# ---------------------------------------------------------------- folding


class _Folder:
    """One walk from top to bottom; `known` says what replaces a value from here on."""

    def __init__(self) -> None:
        self.known: dict[str, Operand] = {}

    def _current(self, operand: Operand) -> Operand:
        return self.known.get(operand.name, operand) if isinstance(operand, Value) else operand

    def block(self, block: Block) -> Block:
        ops: list[Op] = []
        for op in block.ops:
            ops.extend(self._op(map_operands(op, self._current)))
        return Block(tuple(ops))

    def _op(self, op: Op) -> tuple[Op, ...]:
        match op:
            case Leaf() if op.result is not None and (value := folded_leaf(op)) is not None:
                self.known[op.result.name] = value
                return ()
            case If() if (cond := int_value(op.cond)) is not None:
                return self._inline(op.then if cond & 1 else op.otherwise, op)
            case For() if _never_runs(op):
                self.known.update({r.name: init for r, init in zip(op.results, op.inits, strict=True)})
                return ()
            case Parallel() if any(_empty(low, high) for low, high in zip(op.lowers, op.uppers, strict=True)):
                return ()
        return (with_regions(op, self.block),)

    def _inline(self, block: Block, op: If) -> tuple[Op, ...]:
        inside = self.block(block)
        *ops, last = inside.ops
        if isinstance(last, Yield):
            self.known.update({r.name: value for r, value in zip(op.results, last.values, strict=True)})
        return tuple(ops)


def _never_runs(op: For) -> bool:
    return _empty(op.lower, op.upper)


def _empty(lower: Operand, upper: Operand) -> bool:
    first, end = int_value(lower), int_value(upper)
    return (first is not None and end is not None and first >= end) or (lower == upper)


def folded_leaf(leaf: Leaf) -> Operand | None:
    """What stands for the result of `leaf`, or None where it must be computed."""
    match leaf.opcode, leaf.operands:
        case "icmp", (left, right):
            return fold_icmp(leaf.attrs.predicate, left, right)
        case "select", (cond, yes, no):
            if (known := int_value(cond)) is not None:
                return yes if known & 1 else no
            return yes if yes == no else None
        case (("trunc" | "zext" | "sext"), (value,)) if leaf.result is not None:
            return fold_cast(leaf.opcode, value, leaf.result.type)
        case "bitcast", (value,) if leaf.result is not None and leaf.result.type == value.type:
            return value
        case "freeze", (Const() as value,) if value.text not in ("poison", "undef"):
            return value
        case "getelementptr", (pointer, *indices) if all(int_value(index) == 0 for index in indices):
            return pointer if leaf.result is not None and pointer.type == leaf.result.type else None
        case "shufflevector", (vector, _) if list(leaf.attrs.indices) == list(range(len(leaf.attrs.indices))):
            return vector if leaf.result is not None and vector.type == leaf.result.type else None
        case _, (left, right):
            return fold_binary(leaf.opcode, left, right)
    return None


# ---------------------------------------------------------------- dead code


def without_unused(block: Block) -> Block:
    """Remove operations without effect whose results nobody uses, from the last to the first, so that those go too
    whose results only such operations use. `block` itself where all stay."""
    return _used_of(block, set())


def _used_of(block: Block, used: set[str]) -> Block:
    """What is left of `block`, of which `used` are needed behind it; what it needs itself is added."""
    kept: list[Op] = []
    changed = False
    for op in reversed(block.ops):
        if type(op) is Leaf:  # most are
            if op.result is not None and op.result.name not in used and _is_removable_leaf(op):
                changed = True
                continue
            used.update(operand.name for operand in op.operands if type(operand) is Value)
            kept.append(op)
            continue
        unused = not any(result.name in used for result in results(op))
        if unused and (results(op) or isinstance(op, If | For | Parallel)) and is_removable(op):
            changed = True
            continue
        used.update(operand.name for operand in operands(op) if type(operand) is Value)
        inner = with_regions(op, lambda region: _used_of(region, used))
        changed |= inner is not op
        kept.append(inner)
    return Block(tuple(reversed(kept))) if changed else block


def is_removable(op: Op) -> bool:
    """Whether `op` may go if its results are unused: it changes nothing and surely ends."""
    match op:
        case Leaf():
            return _is_removable_leaf(op)
        case Alloca() | Yield():
            return True
        case For() | If() | Parallel():
            return all(is_removable(inner) for region in regions(op) for inner in region.ops)
        case While():
            return False  # it might not end
    return False


def _is_removable_leaf(leaf: Leaf) -> bool:
    if leaf.opcode == "call" and is_ignored(leaf.attrs.callee):
        return False
    effect = effect_of(leaf)
    return effect is Effect.NONE or (effect is Effect.READ and not leaf.attrs.volatile and not leaf.attrs.ordering)
