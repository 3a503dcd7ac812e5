"""Which values are the same in all work-items of one `Parallel` (block-uniform for THREADS, warp-uniform for LANES).

    parallel threads (%t) = (i32 0) to (i32 %n) {
      %a = add i32 %m, 1                 # uniform: computed from uniform operands
      %p = getelementptr float, ptr %x, i32 %m
      %b = load float, ptr %p            # uniform: one address, and a race-free program has no writer beside it
      %c = add i32 %t, %a                # varying
      %r = if i1 %d { yield %a } else { yield %m }     # uniform where %d is, varying otherwise
      %w = while (...) ...               # results vary where the condition does: work-items leave at different times
    }

A plain load from a uniform address between two barriers sees one value in every work-item, because a write beside
it would be a race; loads that are volatile or atomic, and objects that anyone updates atomically, are excluded.
Private memory is varying. Not handled: uniform values kept in private memory.
Source: the divergence analysis of Karrenberg and Hack; the uniform-load rule is ours.
"""

from __future__ import annotations

from collections.abc import Iterable

from threadloom.cuda.lower.effects import Kind, Memory, is_pure, may_alias
from threadloom.cuda.lower.traverse import last_values
from threadloom.par.ops import Alloca, Condition, For, If, Leaf, Op, Operand, Parallel, Value, While


class Uniformity:
    """Facts about the values defined in `parallel`; values from outside are uniform."""

    def __init__(self, parallel: Parallel, memory: Memory):
        self._memory = memory
        self._varying = {iv.name for iv in parallel.ivs}
        self._atomic = frozenset(
            root
            for access in memory.accesses(parallel.body.ops)
            if access.kind in (Kind.ATOMIC, Kind.ANY)
            for root in access.roots
        )
        while self._flow(parallel.body.ops):
            pass

    def varies(self, operand: Operand) -> bool:
        return isinstance(operand, Value) and operand.name in self._varying

    def uniform(self, operand: Operand) -> bool:
        return not self.varies(operand)

    @property
    def varying_names(self) -> frozenset[str]:
        return frozenset(self._varying)

    # ------------------------------------------------------------ flow

    def _flow(self, ops: Iterable[Op]) -> bool:
        """One sweep; True where it found a new varying value."""
        changed = False
        for op in ops:
            if type(op) is Leaf:  # most are
                result = op.result
                if result is not None and result.name not in self._varying and self._leaf_varies(op):
                    changed |= self._mark(result)
                continue
            match op:
                case Alloca(result=result):
                    changed |= self._mark(result)
                case Parallel(ivs=ivs, body=body):
                    changed |= any([self._mark(iv) for iv in ivs])
                    changed |= self._flow(body.ops)
                case For():
                    changed |= self._for(op)
                case While():
                    changed |= self._while(op)
                case If():
                    changed |= self._if(op)
        return changed

    def _mark(self, value: Value) -> bool:
        new = value.name not in self._varying
        self._varying.add(value.name)
        return new

    def _leaf_varies(self, op: Leaf) -> bool:
        varying = self._varying
        for operand in op.operands:
            if type(operand) is Value and operand.name in varying:
                return True
        if op.opcode == "load":
            return not self.uniform_load(op)
        return not is_pure(op, self._memory.callee(op))

    def uniform_load(self, op: Leaf) -> bool:
        """Two work-items that load the same address here see the same value."""
        if op.attrs.volatile or op.attrs.ordering:
            return False
        return not may_alias(self._memory.roots(op.operands[0]), self._atomic)

    def _join(self, targets: tuple[Value, ...], *sources: tuple[Operand, ...]) -> bool:
        changed = False
        for values in sources:
            pairs = zip(targets, values, strict=True)
            changed |= any([self._mark(target) for target, value in pairs if self.varies(value)])
        return changed

    def _for(self, op: For) -> bool:
        changed = False
        if self.varies(op.lower) or self.varies(op.step):
            changed |= self._mark(op.iv)
        changed |= self._flow(op.body.ops)
        changed |= self._join(op.args, op.inits, last_values(op.body)) | self._join(op.results, op.args)
        if any(self.varies(bound) for bound in (op.lower, op.upper, op.step)):
            changed |= any([self._mark(result) for result in op.results])
        return changed

    def _while(self, op: While) -> bool:
        changed = self._flow(op.before.ops) | self._flow(op.after.ops)
        condition = op.before.ops[-1]
        assert isinstance(condition, Condition)
        changed |= self._join(op.args, op.inits, last_values(op.after))
        changed |= self._join(op.after_args, condition.values) | self._join(op.results, condition.values)
        if self.varies(condition.cond):
            changed |= any([self._mark(result) for result in op.results])
        return changed

    def _if(self, op: If) -> bool:
        changed = self._flow(op.then.ops) | self._flow(op.otherwise.ops)
        then, otherwise = last_values(op.then), last_values(op.otherwise)
        changed |= self._join(op.results, then, otherwise)
        if self.varies(op.cond):
            differing = (r for r, a, b in zip(op.results, then, otherwise, strict=True) if a != b)
            changed |= any([self._mark(result) for result in differing])
        return changed
