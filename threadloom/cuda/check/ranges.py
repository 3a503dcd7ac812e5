"""Between which numbers the indices and addresses of a loop over threads lie, computed in front of the loop.

    parallel threads (%y, %x) = (0, 0) to (%ny, %nx) { getelementptr float, ptr %a, i32 (add (mul %y, %n), %x) }
 -> the address lies in [%a + 4 * min(0, (%ny - 1) * %n), %a + 4 * (max(0, (%ny - 1) * %n) + %nx - 1)]

Interval arithmetic in i64 on what the body computes: sums, products, remainders, shifts, minima, the counters of inner
loops. Every number on the way must lie between -2^31 and 2^31 for it to be exact; `holds` collects the tests of that,
and that what is read as unsigned is not negative. The ranges are true where all of them hold. Guards are not looked at.
"""

from __future__ import annotations

from collections.abc import Callable

from threadloom.cuda.lower.editor import Editor
from threadloom.cuda.lower.effects import is_pure
from threadloom.cuda.lower.traverse import last_values, walk
from threadloom.par.constants import const, int_value
from threadloom.par.ops import (
    I64,
    PTR,
    Array,
    Const,
    For,
    If,
    Int,
    Leaf,
    Operand,
    Parallel,
    Struct,
    Type,
    Value,
    While,
)
from threadloom.par.result_types import size_bytes, struct_layout
from threadloom.par.walk import arguments, results

Range = tuple[Operand, Operand]  # i64: least and largest
_LIMIT = 1 << 31


class Ranges:
    def __init__(self, parallel: Parallel, editor: Editor):
        """What is asked for is built where `editor` is: in front of `parallel`."""
        self.holds: list[Operand] = []
        self._editor = editor
        inside = list(walk(parallel.body.ops))
        self._leaves = {op.result.name: op for op in inside if isinstance(op, Leaf) and op.result is not None}
        self._inside = {value.name for op in inside for value in (*results(op), *arguments(op))}
        self._inside |= {iv.name for iv in parallel.ivs}
        self._known: dict[str, Range | None] = {}
        self._counters: dict[str, Callable[[], Range | None]] = {}
        for iv, lower, upper in zip(parallel.ivs, parallel.lowers, parallel.uppers, strict=True):
            self._counters[iv.name] = lambda lower=lower, upper=upper: self._counted(lower, upper)
        for op in inside:
            self._learn(op)

    def _learn(self, op: object) -> None:
        match op:
            case For():
                self._counters[op.iv.name] = lambda: self._counted(op.lower, op.upper)
            case While():
                for position, arg in enumerate(op.after_args):
                    self._counters[arg.name] = lambda position=position: self._while(op, position)
            case If():
                for result, one, other in zip(op.results, last_values(op.then), last_values(op.otherwise), strict=True):
                    if isinstance(result.type, Int):
                        self._counters[result.name] = lambda one=one, other=other: self._either(one, other)

    # ------------------------------------------------------------ addresses

    def address(self, pointer: Operand) -> Range | None:
        """Of the pointer's first byte."""
        if isinstance(pointer, Const) or pointer.name not in self._inside:
            first = self._editor.cast("ptrtoint", pointer, I64, name="place")
            return first, first
        leaf = self._leaves.get(pointer.name)
        if leaf is None or leaf.opcode != "getelementptr" or leaf.attrs.source_type is None or pointer.type != PTR:
            return None
        found = self.address(leaf.operands[0])
        type_: Type = leaf.attrs.source_type
        for position, index in enumerate(leaf.operands[1:]):
            if position > 0 and isinstance(type_, Struct) and (field := int_value(index)) is not None:
                step = const(I64, struct_layout(type_)[0][field])
                more: Range | None = (step, step)
                type_ = type_.fields[field]
            else:
                if position > 0 and not isinstance(type_, Array):
                    return None
                type_ = type_.element if position > 0 else type_
                more = self._scaled(self.of(index), size_bytes(type_))
            found = self._sum(found, more)
        return found

    def _scaled(self, range_: Range | None, bytes_: int) -> Range | None:
        if range_ is None or bytes_ >= _LIMIT:
            return None
        return self._editor.mul(range_[0], bytes_), self._editor.mul(range_[1], bytes_)

    def _sum(self, one: Range | None, other: Range | None) -> Range | None:
        if one is None or other is None:
            return None
        return self._editor.add(one[0], other[0]), self._editor.add(one[1], other[1])

    # ------------------------------------------------------------ numbers

    def of(self, operand: Operand) -> Range | None:
        """Of an integer, read as a signed one."""
        known = int_value(operand)
        if known is not None:
            return (const(I64, known), const(I64, known)) if abs(known) < _LIMIT else None
        if not isinstance(operand, Value) or not isinstance(operand.type, Int) or not 8 <= operand.type.bits <= 64:
            return None
        if operand.name not in self._known:
            self._known[operand.name] = None  # while it is computed: a counter that grows by itself
            self._known[operand.name] = self._compute(operand)
        return self._known[operand.name]

    def _compute(self, value: Value) -> Range | None:
        if value.name in self._counters:
            return self._counters[value.name]()
        if value.name not in self._inside:
            wide = self._editor.cast("sext", value, I64)
            return self._fitting((wide, wide)) if value.type == I64 else (wide, wide)
        leaf = self._leaves.get(value.name)
        return None if leaf is None or not is_pure(leaf) else self._leaf(leaf)

    def _leaf(self, leaf: Leaf) -> Range | None:
        editor, operands = self._editor, leaf.operands
        by = int_value(operands[1]) if len(operands) > 1 else None
        if leaf.opcode == "call":
            return self._call(leaf)
        if leaf.opcode == "select":
            return self._either(*operands[1:])
        if leaf.opcode == "and" and by is not None and 0 <= by < _LIMIT:
            return const(I64, 0), const(I64, by)
        one = self.of(operands[0]) if operands else None
        if one is None:
            return None
        match leaf.opcode:
            case "sext" | "freeze":
                return one
            case "trunc":
                return self._fitting(one, leaf.result.type.bits)
            case "zext":
                return self._positive(one)
            case "urem" if by is not None and 0 < by < _LIMIT:
                return const(I64, 0), const(I64, by - 1)
            case "udiv" | "lshr" if by is not None and 0 < by < _LIMIT:
                one = self._positive(one)
                return editor.binary(leaf.opcode, one[0], by), editor.binary(leaf.opcode, one[1], by)
            case "sdiv" | "ashr" if by is not None and 0 < by < _LIMIT:
                return editor.binary(leaf.opcode, one[0], by), editor.binary(leaf.opcode, one[1], by)
            case "xor" if by is not None and 0 <= by < _LIMIT:
                return const(I64, 0), self._fitting((one[0], editor.add(self._positive(one)[1], by)))[1]
            case "shl" if by is not None and 0 <= by < 31:
                return self._fitting((editor.mul(one[0], 1 << by), editor.mul(one[1], 1 << by)), leaf.result.type.bits)
        other = self.of(operands[1]) if len(operands) == 2 else None
        if other is None:
            return None
        match leaf.opcode:
            case "add":
                return self._fitting(self._sum(one, other), leaf.result.type.bits)
            case "or" if "disjoint" in leaf.attrs.flags:
                return self._fitting(self._sum(one, other), leaf.result.type.bits)
            case "sub":
                apart = editor.sub(one[0], other[1]), editor.sub(one[1], other[0])
                return self._fitting(apart, leaf.result.type.bits)
            case "mul":
                return self._fitting(self._product(one, other), leaf.result.type.bits)
        return None

    def _product(self, one: Range, other: Range) -> Range:
        editor = self._editor
        corners = [editor.mul(a, b) for a in dict.fromkeys(one) for b in dict.fromkeys(other)]
        low = high = corners[0]
        for corner in corners[1:]:
            low, high = editor.min(low, corner), editor.max(high, corner)
        return low, high

    def _call(self, leaf: Leaf) -> Range | None:
        name = leaf.attrs.callee.split(".")[1] if leaf.attrs.callee.startswith("llvm.") else ""
        if name not in ("smin", "smax", "umin", "umax"):
            return None
        one, other = (self.of(operand) for operand in leaf.operands)
        if one is None or other is None:
            return None
        if name.startswith("u"):
            one, other = self._positive(one), self._positive(other)
        choose = self._editor.min if name.endswith("min") else self._editor.max
        return choose(one[0], other[0]), choose(one[1], other[1])

    def _either(self, one: Operand, other: Operand) -> Range | None:
        a, b = self.of(one), self.of(other)
        if a is None or b is None:
            return None
        return self._editor.min(a[0], b[0]), self._editor.max(a[1], b[1])

    # ------------------------------------------------------------ counters

    def _counted(self, lower: Operand, upper: Operand) -> Range | None:
        low, high = self.of(lower), self.of(upper)
        return None if low is None or high is None else (low[0], self._editor.sub(high[1], 1))

    def _while(self, loop: While, position: int) -> Range | None:
        """A counter that grows by what need not be constant, as long as it is below a bound."""
        forwarded = last_values(loop.before)[position]
        place = loop.args.index(forwarded) if forwarded in loop.args else -1
        end = loop.before.ops[-1]
        test = next((op for op in loop.before.ops if isinstance(op, Leaf) and op.result == end.cond), None)
        grown = self._leaves.get(getattr(last_values(loop.after)[place], "name", "")) if place >= 0 else None
        if test is None or test.attrs.predicate not in ("slt", "ult") or test.operands[0] != forwarded:
            return None
        if grown is None or grown.opcode != "add" or loop.after_args[position] not in grown.operands:
            return None
        step = grown.operands[1 - grown.operands.index(loop.after_args[position])]
        found, by = self._counted(loop.inits[place], test.operands[1]), self.of(step)
        if found is None or by is None:
            return None
        self._positive(by)
        if test.attrs.predicate == "ult":
            self._positive(found)
            self._positive(self.of(test.operands[1]) or by)
        self._fitting((found[0], self._editor.add(found[1], by[1])), grown.result.type.bits)
        return found

    # ------------------------------------------------------------ tests

    def _test(self, predicate: str, operand: Operand, number: int) -> None:
        test = self._editor.icmp(predicate, operand, number, "fits")
        if int_value(test) in (None, 0):
            self.holds.append(test)

    def _fitting(self, range_: Range, bits: int = 32) -> Range:
        limit = 1 << min(bits, 32) - 1
        self._test("sge", range_[0], -limit)
        self._test("slt", range_[1], limit)
        return range_

    def _positive(self, range_: Range) -> Range:
        self._test("sge", range_[0], 0)
        return range_
