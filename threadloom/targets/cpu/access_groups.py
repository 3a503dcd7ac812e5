"""Which accesses of a parallel body LLVM may treat as independent between iterations.

All of them, except those that may touch a private allocation made in the body: emission gives such an allocation one
stack slot for all iterations. If the address of one escapes (stored, passed to a call, turned into an integer), any
access may touch it, and none is independent.
"""

from __future__ import annotations

from threadloom.par.intrinsics import is_ignored
from threadloom.par.ops import Alloca, Block, Condition, For, If, Leaf, Op, Operand, Space, Value, While, Yield
from threadloom.par.walk import operands, walk

_KEEPS_ADDRESS = frozenset({"getelementptr", "select", "freeze", "bitcast", "insertelement", "extractelement",
                            "shufflevector"})  # fmt: skip
_MASKED = ("llvm.masked.", "llvm.memcpy", "llvm.memset", "llvm.memmove")


def independent_accesses(body: Block) -> frozenset[int]:
    """Ids (by `id()`) of the leaves whose accesses are independent between iterations of a loop around `body`."""
    private = {op.result.name for op in walk(body) if isinstance(op, Alloca) and op.space is Space.PRIVATE}
    leaves = [op for op in walk(body) if isinstance(op, Leaf)]
    if not private:
        return frozenset(id(leaf) for leaf in leaves)
    derived = _derived_from(private, body)
    if any(_lets_escape(leaf, derived) for leaf in leaves):
        return frozenset()
    return frozenset(id(leaf) for leaf in leaves if not _uses(leaf.operands, derived))


def _uses(values: tuple[Operand, ...], derived: set[str]) -> bool:
    return any(isinstance(value, Value) and value.name in derived for value in values)


def _derived_from(private: set[str], body: Block) -> set[str]:
    """Names of values that may hold an address inside a private allocation; grows to a fixed point through loops."""
    derived = set(private)
    while True:
        size = len(derived)
        for op in walk(body):
            for source, target in _flows(op):
                if isinstance(source, Value) and source.name in derived:
                    derived.add(target.name)
        if len(derived) == size:
            return derived


def _flows(op: Op) -> list[tuple[Operand, Value]]:
    """(source, target) pairs of values that `op` copies or offsets."""
    match op:
        case Leaf() if op.opcode in _KEEPS_ADDRESS and op.result is not None:
            return [(operand, op.result) for operand in op.operands]
        case For():
            yielded = _last_values(op.body)
            into = [_pairs(sources, op.args) + _pairs(sources, op.results) for sources in (op.inits, yielded)]
            return into[0] + into[1]
        case While():
            forwarded, again = _last_values(op.before), _last_values(op.after)
            into_test = _pairs(op.inits, op.args) + _pairs(again, op.args)
            return into_test + _pairs(forwarded, op.after_args) + _pairs(forwarded, op.results)
        case If():
            return _pairs(_last_values(op.then), op.results) + _pairs(_last_values(op.otherwise), op.results)
    return []


def _pairs(sources: tuple[Operand, ...], targets: tuple[Value, ...]) -> list[tuple[Operand, Value]]:
    return list(zip(sources, targets, strict=True))


def _last_values(block: Block) -> tuple[Operand, ...]:
    match block.ops[-1] if block.ops else None:
        case Yield(values) | Condition(_, values):
            return values
    return ()


def _lets_escape(leaf: Leaf, derived: set[str]) -> bool:
    match leaf.opcode:
        case "store" | "atomicrmw" | "cmpxchg":
            values = leaf.operands[:1] if leaf.opcode == "store" else leaf.operands[1:]
            return _uses(values, derived)
        case "ptrtoint" | "insertvalue":
            return _uses(leaf.operands, derived)
        case "call" if leaf.attrs.callee.startswith(("llvm.masked.store", "llvm.masked.scatter")):
            return _uses(leaf.operands[:1], derived)
        case "call":
            harmless = is_ignored(leaf.attrs.callee) or leaf.attrs.callee.startswith(_MASKED)
            return not harmless and _uses(operands(leaf), derived)
    return False
