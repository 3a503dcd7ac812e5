"""An element of memory that a loop reads and writes at one address in every iteration is carried in a register.

    while (...) { ... } do { %old = load float, ptr %c; %new = fadd float %old, %p; store float %new, ptr %c; yield }
 -> %first = load float, ptr %c
    %sum = while (%acc = float %first) { ... } do (%acc.1) { %new = fadd float %acc.1, %p; yield float %new }
    store float %sum, ptr %c

LLVM does the same to scalar loops; here it comes before register blocking and vectors, which want sums in registers and
would otherwise gather and scatter them in every iteration. What a loop only reads, at one address that nothing in it
writes, is loaded in front of it, too. Needs: the address is the same in all iterations, its accesses stand at the top
of the loop's body, and no other access of the loop may touch it (other roots, or another offset from the same address).
Where the loop may run no iteration at all, the element is touched only if a store at the same address came before it.
Declines there, and where another access of the loop may touch the element.
Source: scalar promotion in loops (Sastry and Ju); not in the paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from threadloom.cuda.lower.editor import Editor
from threadloom.cuda.lower.effects import Access, Kind, Memory, is_pure, may_alias
from threadloom.cuda.lower.traverse import expand, last_values, rename, swap, swap_all, walk
from threadloom.par.constants import fold_icmp, int_value
from threadloom.par.ops import (
    Array,
    Block,
    Condition,
    For,
    Function,
    Leaf,
    Level,
    Module,
    Op,
    Operand,
    Parallel,
    Struct,
    Type,
    Value,
    While,
    Yield,
)
from threadloom.par.passes import decline, through_functions
from threadloom.par.result_types import size_bytes, struct_layout
from threadloom.par.walk import arguments, results, with_regions

Loop = For | While


@dataclass(frozen=True, slots=True)
class Address:
    """base + sum of index * scale + offset bytes; indices by structure, so that equal ones compare equal."""

    base: Operand
    indices: tuple[tuple[object, int], ...]
    offset: int

    def touches(self, size: int, other: Address, other_size: int) -> bool | None:
        """Whether two accesses overlap; None: not known."""
        if (self.base, self.indices) != (other.base, other.indices):
            return None
        return self.offset < other.offset + other_size and other.offset < self.offset + size


@dataclass(frozen=True, slots=True)
class CarryAccumulators:
    most: int = 8  # accumulators of one loop
    name: str = "carry-accumulators"

    def apply(self, module: Module) -> Module:
        return through_functions(module, self._function)

    def _function(self, function: Function, module: Module) -> Module:
        editor, memory = Editor(function, module), Memory(function, module)
        leaves = {op.result.name: op for op in walk(function.body.ops) if isinstance(op, Leaf) and op.result}

        def change(op: Op) -> list[Op] | None:
            if not isinstance(op, Parallel) or op.level is not Level.THREADS:
                return None
            body = self._block(op.body, memory, leaves, editor)
            return None if body is op.body else [replace(op, body=body)]

        body = expand(function.body, change)
        return module if body is function.body else editor.finish(replace(function, body=body))

    def _block(self, block: Block, memory: Memory, leaves: dict[str, Leaf], editor: Editor) -> Block:
        """Inner loops first: what they leave in front and behind may be carried by the loop around them."""
        ops: list[Op] = []
        changed = False
        for old in block.ops:
            op = with_regions(old, lambda region: self._block(region, memory, leaves, editor))
            new = self._loop(op, ops, memory, leaves, editor) if isinstance(op, For | While) else None
            changed |= op is not old or new is not None
            ops.extend([op] if new is None else new)
        return Block(tuple(ops)) if changed else block

    def _loop(self, loop: Loop, before: list[Op], memory: Memory, leaves: dict[str, Leaf], editor: Editor
              ) -> list[Op] | None:  # fmt: skip
        facts = _Facts(loop, memory, leaves)
        chosen = facts.accumulators()[: self.most]
        if not _runs_once(loop):
            stored = [facts.address(op.operands[1]) for op in before if isinstance(op, Leaf) and op.opcode == "store"]
            unsure = [one for one in chosen if facts.address(one[0].operands[1]) not in stored]
            for members in unsure:
                decline("element stays in memory", "its loop may run no iteration", members[0].loc)
            chosen = [one for one in chosen if one not in unsure]
        loads = facts.constant_loads(chosen) if _runs_once(loop) else []
        if not chosen and not loads:
            return None
        new = _Carried(loop, chosen, loads, facts, editor).ops()
        leaves.update((op.result.name, op) for op in walk(new) if isinstance(op, Leaf) and op.result is not None)
        memory.learn(new)
        return new


class _Facts:
    def __init__(self, loop: Loop, memory: Memory, leaves: dict[str, Leaf]):
        self.body = loop.body if isinstance(loop, For) else loop.after
        self._memory, self._leaves = memory, leaves
        inside = list(walk((loop,)))
        self._changing = {value.name for op in inside for value in (*results(op), *arguments(op))}
        self._changing -= {value.name for value in loop.results}
        self._accesses = list(memory.accesses(inside))
        self._plain = not any(isinstance(op, Leaf) and (op.opcode == "fence" or op.attrs.volatile) for op in inside)

    def accumulators(self) -> list[tuple[Leaf, ...]]:
        """The accesses of each element to carry, in order; the first one that writes comes first."""
        if not self._plain or any(a.kind not in (Kind.READ, Kind.WRITE) or a.pointer is None for a in self._accesses):
            return []
        at_top = {id(op) for op in self.body.ops}
        found: list[tuple[Leaf, ...]] = []
        seen: list[Address] = []
        for access in self._accesses:
            address = self.address(access.pointer) if access.writes and id(access.op) in at_top else None
            if address is None or address in seen or not self._fixed(access.pointer):
                continue
            seen.append(address)
            members = self._members(access, address, at_top)
            if members is None:
                decline("element stays in memory", "another access of its loop may touch it", access.op.loc)
            elif any(member.opcode == "load" for member in members):
                found.append(tuple(sorted(members, key=lambda op: op.opcode != "store")))
        return found

    def _members(self, one: Access, address: Address, at_top: set[int]) -> list[Leaf] | None:
        size, members = size_bytes(one.type), []
        for other in self._accesses:
            place = self.address(other.pointer)
            overlap = None if place is None else address.touches(size, place, size_bytes(other.type))
            if overlap is None and may_alias(one.roots, other.roots):
                return None
            if overlap:
                if place != address or other.type != one.type or id(other.op) not in at_top:
                    return None
                members.append(other.op)
        return members

    def constant_loads(self, carried: Sequence[tuple[Leaf, ...]]) -> list[Leaf]:
        """Loads at the top of the body that give the same in every iteration, once `carried` are in registers."""
        if not self._plain or any(access.kind not in (Kind.READ, Kind.WRITE) for access in self._accesses):
            return []
        gone = {id(member) for members in carried for member in members}
        written = [access.roots for access in self._accesses if access.writes and id(access.op) not in gone]
        return [
            op
            for op in self.body.ops
            if isinstance(op, Leaf) and op.opcode == "load" and not op.attrs.ordering and id(op) not in gone
            if self._fixed(op.operands[0])
            if not any(may_alias(self._memory.roots(op.operands[0]), roots) for roots in written)
        ]

    def address(self, pointer: Operand) -> Address | None:
        offset, indices = 0, []
        while (leaf := self.leaf(pointer)) is not None and leaf.opcode == "getelementptr":
            step = self._step(leaf)
            if step is None:
                return None
            offset += step[0]
            indices += step[1]
            pointer = leaf.operands[0]
        return Address(pointer, tuple(sorted(indices, key=repr)), offset)

    def _step(self, leaf: Leaf) -> tuple[int, list[tuple[object, int]]] | None:
        offset, indices, type_ = 0, [], leaf.attrs.source_type
        for position, operand in enumerate(leaf.operands[1:]):
            known = int_value(operand)
            if position > 0 and isinstance(type_, Struct):
                if known is None:
                    return None
                offset += struct_layout(type_)[0][known]
                type_ = type_.fields[known]
                continue
            if position > 0:
                if not isinstance(type_, Array):
                    return None
                type_ = type_.element
            if known is not None:
                offset += known * size_bytes(type_)
            else:
                indices.append((self._structure(operand), size_bytes(type_)))
        return offset, indices

    def _structure(self, operand: Operand) -> object:
        leaf = self.leaf(operand)
        if leaf is None or not is_pure(leaf, self._memory.callee(leaf)):
            return operand
        if leaf.opcode == "sext":
            return self._structure(leaf.operands[0])
        return (leaf.opcode, leaf.attrs, *map(self._structure, leaf.operands))

    def leaf(self, operand: Operand) -> Leaf | None:
        return self._leaves.get(operand.name) if isinstance(operand, Value) else None

    def _fixed(self, operand: Operand) -> bool:
        """The same in all iterations, and computable in front of the loop."""
        if not isinstance(operand, Value) or operand.name not in self._changing:
            return True
        leaf = self.leaf(operand)
        return leaf is not None and is_pure(leaf, self._memory.callee(leaf)) and all(map(self._fixed, leaf.operands))

    def in_front(self, operand: Operand, editor: Editor) -> Operand:
        """`operand`, which is fixed, computed in front of the loop."""
        if not isinstance(operand, Value) or operand.name not in self._changing:
            return operand
        leaf = self.leaf(operand)
        assert leaf is not None and leaf.result is not None
        operands = tuple(self.in_front(one, editor) for one in leaf.operands)
        result = editor.again(leaf.result)
        editor.ops.append(Leaf(leaf.opcode, operands, result, leaf.attrs, leaf.loc))
        return result


class _Carried:
    """The loop with the elements in registers, their loads in front and their stores behind."""

    def __init__(self, loop: Loop, chosen: Sequence[tuple[Leaf, ...]], loads: Sequence[Leaf], facts: _Facts,
                 editor: Editor):  # fmt: skip
        self._loop, self._chosen, self._loads, self._facts, self._editor = loop, chosen, loads, facts, editor
        self._in_front: dict[str, Operand] = {}
        self._types: list[Type] = [members[0].operands[0].type for members in chosen]

    def ops(self) -> list[Op]:
        editor = self._editor
        with editor.collect() as front, editor.at(self._loop.loc):
            pointers = [self._facts.in_front(members[0].operands[1], editor) for members in self._chosen]
            for members, pointer, type_ in zip(self._chosen, pointers, self._types, strict=True):
                load = next(member for member in members if member.opcode == "load")
                with editor.at(load.loc):
                    editor.load(type_, pointer, load.attrs.align_bytes, metadata=load.attrs.metadata, name="first")
        firsts = tuple(op.result for op in front if isinstance(op, Leaf) and op.opcode == "load")
        with editor.collect() as constants, editor.at(self._loop.loc):
            self._load_constants()
        loop, sums = self._new(firsts)
        with editor.collect() as behind:
            for members, pointer, total in zip(self._chosen, pointers, sums, strict=True):
                with editor.at(members[0].loc):
                    editor.store(total, pointer, members[0].attrs.align_bytes, metadata=members[0].attrs.metadata)
        return [*front, *constants, loop, *behind]

    def _load_constants(self) -> None:
        """Once for each address and type."""
        made: dict[tuple[object, Type], Operand] = {}
        for op in self._loads:
            assert op.result is not None
            key = (self._facts.address(op.operands[0]) or op.operands[0], op.result.type)
            if key not in made:
                pointer = self._facts.in_front(op.operands[0], self._editor)
                made[key] = self._editor.again(op.result)
                self._editor.ops.append(Leaf("load", (pointer,), made[key], op.attrs, op.loc))
            self._in_front[op.result.name] = made[key]

    def _fresh(self, name: str) -> tuple[Value, ...]:
        return tuple(self._editor.fresh(name, type_) for type_ in self._types)

    def _new(self, firsts: tuple[Operand, ...]) -> tuple[Loop, tuple[Value, ...]]:
        loop, args, sums = self._loop, self._fresh("acc"), self._fresh("sum")
        inits, all_args, outs = (*loop.inits, *firsts), (*loop.args, *args), (*loop.results, *sums)
        if isinstance(loop, For):
            return replace(loop, inits=inits, args=all_args, body=self._body(args), results=outs), sums
        *ops, condition = loop.before.ops
        assert isinstance(condition, Condition)
        before = Block((*ops, Condition(condition.cond, (*condition.values, *args))))
        passed = self._fresh("acc")
        after = self._body(passed)
        return replace(loop, inits=inits, args=all_args, before=before, after_args=(*loop.after_args, *passed),
                       after=after, results=outs), sums  # fmt: skip

    def _body(self, starts: tuple[Value, ...]) -> Block:
        current: list[Operand] = list(starts)
        owner = {id(member): number for number, members in enumerate(self._chosen) for member in members}
        renaming = dict(self._in_front)
        ops: list[Op] = []
        for op in self._facts.body.ops[:-1]:
            if isinstance(op, Leaf) and op.result is not None and op.result.name in self._in_front:
                continue
            number = owner.get(id(op))
            if number is None:
                ops.append(rename(op, renaming))
            elif op.opcode == "load":
                renaming[op.result.name] = current[number]
            else:
                current[number] = swap(op.operands[0], renaming)
        yielded = swap_all(last_values(self._facts.body), renaming)
        return Block((*ops, Yield((*yielded, *current))))


def _runs_once(loop: Loop) -> bool:
    """At least."""
    if isinstance(loop, For):
        lower, upper = int_value(loop.lower), int_value(loop.upper)
        return lower is not None and upper is not None and lower < upper
    known = dict(zip((arg.name for arg in loop.args), loop.inits, strict=True))
    *ops, condition = loop.before.ops
    for op in ops:
        if isinstance(op, Leaf) and op.opcode == "icmp" and op.result == condition.cond:
            folded = fold_icmp(op.attrs.predicate, *(swap(operand, known) for operand in op.operands))
            return folded is not None and int_value(folded) not in (None, 0)
    return False
