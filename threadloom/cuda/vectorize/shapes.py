"""What a value looks like over neighbouring threads: the same, in steps of a constant, or anything.

    parallel threads (%y, %x) ... {
      %r = mul i32 %y, %n                 # stride 0: uniform over x
      %i = add i32 %r, %x                 # stride 1
      %p = getelementptr float, ptr %a, i32 %i       # stride 4 (bytes)
      %v = load float, ptr %p             # varying
      %u = load float, ptr %b             # stride 0: one address
      %q.out = while (%q = ptr %p) { ... yield ptr (%q + 1024) }      # %q has stride 4 in every iteration
    }

Carried values start at the stride of their first value and fall to varying when an iteration disagrees (a fixpoint).
Results of loops that lanes leave at different times are varying; so are those of ifs whose condition varies, unless one
side gives poison: its lanes take what the others have. Private arrays are
laid out lane by lane (element k of lane l at k * W + l), so a uniform index gives stride one element.
"""

from __future__ import annotations

from collections.abc import Iterable

from threadloom.cuda.lower.effects import Memory, Root, RootKind, is_pure
from threadloom.cuda.lower.traverse import last_values, walk
from threadloom.cuda.lower.uniformity import Uniformity
from threadloom.cuda.optimize.wrapping import counts
from threadloom.par.constants import int_value
from threadloom.par.ops import (
    PTR,
    Alloca,
    Array,
    Condition,
    Const,
    For,
    If,
    Leaf,
    Op,
    Operand,
    Parallel,
    Struct,
    Value,
    While,
)
from threadloom.par.result_types import size_bytes

VARYING = None
Stride = int | None  # None: varying; 0: uniform


class Shapes:
    def __init__(self, parallel: Parallel, memory: Memory):
        self._memory, self._uniformity = memory, Uniformity(parallel, memory)
        self._strides: dict[str, Stride] = {iv.name: 0 for iv in parallel.ivs}
        self.index = parallel.ivs[-1]  # counts the lanes
        self._strides[self.index.name] = 1
        self.private: dict[str, Alloca] = {}
        while self._flow(parallel.body.ops):
            pass
        self._likely: dict[str, int] = {}
        self._guess(parallel.body.ops)

    def stride(self, operand: Operand) -> Stride:
        if not isinstance(operand, Value):
            return 0
        return self._strides.get(operand.name, 0)

    def likely(self, operand: Operand) -> Stride:
        """As `stride`, but for a varying value the stride that most vectors will find: an index that is clamped at the
        edges of an array counts up everywhere else, so does the remainder of one that counts up, its quotient stays,
        and arrays of neighbours' indices count up like the index they are read by."""
        known = self.stride(operand)
        return self._likely.get(operand.name) if known is VARYING and isinstance(operand, Value) else known

    def uniform(self, *operands: Operand) -> bool:
        return all(self.stride(operand) == 0 for operand in operands)

    def is_private(self, pointer: Operand) -> bool:
        """Into a private array of the loop's body."""
        return any(root.kind is RootKind.ALLOCA and root.name in self.private for root in self._memory.roots(pointer))

    def roots(self, pointer: Operand) -> frozenset[Root]:
        return self._memory.roots(pointer)

    def is_local(self, pointer: Operand) -> bool:
        """Into memory of the block."""
        roots = self.roots(pointer)
        return bool(roots) and all(root.kind is RootKind.ALLOCA for root in roots)

    def is_masked(self, op: For | While) -> bool:
        """Lanes may leave `op` at different times."""
        if isinstance(op, For):
            return not self.uniform(op.lower, op.upper, op.step)
        condition = op.before.ops[-1]
        return not isinstance(condition, Condition) or not self.uniform(condition.cond)

    # ------------------------------------------------------------ flow

    def _set(self, value: Value, stride: Stride) -> bool:
        """True where that is news; a value never rises again."""
        if value.name not in self._strides:
            self._strides[value.name] = stride
            return True
        if self._strides[value.name] in (stride, VARYING):
            return False
        self._strides[value.name] = VARYING
        return True

    def _flow(self, ops: Iterable[Op]) -> bool:
        changed = False
        for op in ops:
            match op:
                case Leaf(result=Value() as result):
                    changed |= self._set(result, self._leaf(op))
                case Alloca(result=result, element=element):
                    self.private[result.name] = op
                    changed |= self._set(result, size_bytes(scalar_element(element)))
                case If():
                    changed |= self._if(op)
                case For():
                    changed |= self._for(op)
                case While():
                    changed |= self._while(op)
        return changed

    def _join(self, targets: tuple[Value, ...], sources: tuple[Operand, ...]) -> bool:
        pairs = zip(targets, sources, strict=True)
        return any([self._set(target, self.stride(source)) for target, source in pairs if not is_poison(source)])

    def _vary(self, values: Iterable[Value]) -> bool:
        return any([self._set(value, VARYING) for value in values])

    def _if(self, op: If) -> bool:
        changed = self._flow(op.then.ops) | self._flow(op.otherwise.ops)
        then, otherwise = last_values(op.then), last_values(op.otherwise)
        if self.uniform(op.cond):
            return changed | self._join(op.results, then) | self._join(op.results, otherwise)
        for result, *sources in zip(op.results, then, otherwise, strict=True):
            known = [source for source in sources if not is_poison(source)]  # lanes without a value take any
            same = len(known) < 2 or known[0] == known[1]
            changed |= self._set(result, self.stride(known[0]) if known and same else 0 if same else VARYING)
        return changed

    def _for(self, op: For) -> bool:
        changed = self._set(op.iv, self.stride(op.lower) if self.uniform(op.step) else VARYING)
        changed |= self._join(op.args, op.inits)
        changed |= self._flow(op.body.ops)
        changed |= self._join(op.args, last_values(op.body))
        return changed | (self._vary(op.results) if self.is_masked(op) else self._join(op.results, op.args))

    def _while(self, op: While) -> bool:
        changed = self._join(op.args, op.inits)
        changed |= self._flow(op.before.ops)
        forwarded = last_values(op.before)
        changed |= self._join(op.after_args, forwarded)
        changed |= self._flow(op.after.ops)
        changed |= self._join(op.args, last_values(op.after))
        return changed | (self._vary(op.results) if self.is_masked(op) else self._join(op.results, forwarded))

    # ------------------------------------------------------------ leaves

    def _guess(self, ops: Iterable[Op]) -> None:
        """One pass, without what loops carry."""
        for op in walk(ops):
            if not isinstance(op, Leaf) or op.result is None or self.stride(op.result) is not VARYING:
                continue
            guess = self._likely_leaf(op, [self.likely(operand) for operand in op.operands])
            if guess is not VARYING:
                self._likely[op.result.name] = guess

    def _likely_leaf(self, op: Leaf, strides: list[Stride]) -> Stride:
        arms = strides[1:] if op.opcode == "select" else strides if _is_clamp(op) else []
        if arms:
            return next(filter(None, arms), 0 if arms == [0, 0] else VARYING)
        if op.opcode in ("srem", "urem", "sdiv", "udiv") and strides[1] == 0 and _steps(op):
            return strides[0] if op.opcode.endswith("rem") or strides[0] is VARYING else 0
        if op.opcode == "load" and _steps(op) and not op.attrs.ordering:
            size = size_bytes(op.result.type)
            return strides[0] // size if strides[0] in (0, size) else VARYING
        return self._leaf(op, strides)

    def _leaf(self, op: Leaf, strides: list[Stride] | None = None) -> Stride:
        if strides is None:
            strides = [self.stride(operand) for operand in op.operands]
        match op.opcode:
            case "load":
                return 0 if strides[0] == 0 and self._uniformity.uniform_load(op) else VARYING
            case "add" | "sub" if _steps(op):
                return _sum(strides[0], strides[1], 1 if op.opcode == "add" else -1)
            case "mul" | "shl" if _steps(op) and strides != [0, 0]:
                return self._scaled(op, strides)
            case "sext" | "zext" | "trunc" if counts(op.operands[0].type) and _steps(op):
                return strides[0]
            case "freeze" if _steps(op):
                return strides[0]
            case "getelementptr":
                return self._address(op, strides)
            case "select" if strides[0] == 0 and strides[1] == strides[2]:
                return strides[1]
        if op.opcode == "call" and not is_pure(op, self._memory.callee(op)):
            return VARYING
        if op.opcode in ("atomicrmw", "cmpxchg"):
            return VARYING
        return 0 if all(stride == 0 for stride in strides) else VARYING

    def _scaled(self, op: Leaf, strides: list[Stride]) -> Stride:
        for position in (0, 1) if op.opcode == "mul" else (1,):
            factor, other = int_value(op.operands[position]), strides[1 - position]
            if factor is not None and other is not VARYING and 0 <= factor < (1 << 20 if op.opcode == "mul" else 21):
                return other * (factor if op.opcode == "mul" else 1 << factor)
        return VARYING

    def _address(self, op: Leaf, strides: list[Stride]) -> Stride:
        if op.result is None or op.result.type != PTR or op.attrs.source_type is None or VARYING in strides:
            return VARYING
        total, type_ = strides[0] or 0, op.attrs.source_type
        private = self.is_private(op.operands[0])
        for position, (operand, stride) in enumerate(zip(op.operands[1:], strides[1:], strict=True)):
            if position > 0:
                if isinstance(type_, Struct):
                    type_ = type_.fields[int_value(operand) or 0]
                    continue
                if not isinstance(type_, Array):
                    return VARYING
                type_ = type_.element
            if private and stride:
                return VARYING  # lanes then stand in different rows of the private array
            total += (stride or 0) * size_bytes(type_)
        return total


def scalar_element(type_):
    while isinstance(type_, Array):
        type_ = type_.element
    return type_


def is_poison(operand: Operand) -> bool:
    return isinstance(operand, Const) and operand.text == "poison"


def _is_clamp(op: Leaf) -> bool:
    return op.opcode == "call" and op.attrs.callee.startswith(("llvm.smin.", "llvm.smax.", "llvm.umin.", "llvm.umax."))


def _steps(op: Leaf) -> bool:
    """Integers and pointers wide enough to count in."""
    type_ = op.result.type if op.result else None
    return type_ == PTR or counts(type_)


def _sum(a: Stride, b: Stride, sign: int) -> Stride:
    return VARYING if a is VARYING or b is VARYING else a + sign * b
