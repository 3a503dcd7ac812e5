"""Register blocking over threads: R neighbouring rows of a loop over threads run through its inner loops together.

    parallel threads (%y, %x) = (0, 0) to (%ny, %nx) {
      %r = for %k ... carry (%acc = 0.0) { %a = load a[%y][%k]; %b = load b[%k][%x]; yield fmuladd(%a, %b, %acc) }
      store %r, c[%y][%x]
    }
 -> parallel threads (%rows, %x) = (0, 0) to (%ny / 2, %nx) {
      %r, %r.1 = for %k ... carry (%acc = 0.0, %acc.1 = 0.0) {
        %b = load b[%k][%x]                          # once: it is the same in all rows
        %a = load a[%y][%k]; %a.1 = load a[%y.1][%k]
        yield fmuladd(%a, %b, %acc), fmuladd(%a.1, %b, %acc.1)
      }
      store both
    }
    parallel threads (%y, %x) = (%ny / 2 * 2, 0) to (%ny, %nx) { as before }      # what is left over

R independent sums hide the latency of one, and a load shared by R rows is paid once. Any order of the threads of a
barrier-free loop is a legal one, so the only question is profit: there must be a loop that all rows run alike and that
loads something which does not depend on the row. Declines for atomics and fences (threads that wait for each other
must not move in lock-step), parallel regions inside, and too much code.
Source: unroll-and-jam (Callahan, Carr, Kennedy) applied to the loop over threads; not in the paper.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from threadloom.cuda.lower.editor import Editor
from threadloom.cuda.lower.effects import Memory, is_pure, orders_memory
from threadloom.cuda.lower.traverse import expand, last_values, rename, swap, walk
from threadloom.cuda.lower.uniformity import Uniformity
from threadloom.cuda.lower.waits import waits
from threadloom.par.constants import const, int_value
from threadloom.par.ops import (
    Block,
    Condition,
    Float,
    For,
    Function,
    If,
    Leaf,
    Level,
    Module,
    Op,
    Operand,
    Parallel,
    Value,
    While,
    Yield,
)
from threadloom.par.passes import decline, through_functions
from threadloom.par.walk import arguments, results


@dataclass(frozen=True, slots=True)
class JamRows:
    rows: int = 4  # times two vectors of each (vectorize_threads.py) hides the latency of eight sums
    most_ops: int = 500  # operations of the jammed loop
    name: str = "jam-rows"

    def apply(self, module: Module) -> Module:
        return through_functions(module, self._function)

    def _function(self, function: Function, module: Module) -> Module:
        editor, memory = Editor(function, module), Memory(function, module)

        def change(op: Op) -> list[Op] | None:
            if not isinstance(op, Parallel) or op.level is not Level.THREADS or len(op.ivs) < 2:
                return None
            return None if waits(op.body.ops, memory) else self._jam(op, memory, editor)

        body = expand(function.body, change)
        return module if body is function.body else editor.finish(replace(function, body=body))

    def _jam(self, op: Parallel, memory: Memory, editor: Editor) -> list[Op] | None:
        row = len(op.ivs) - 2
        facts = Uniformity(replace(op, ivs=(op.ivs[row],), lowers=(op.lowers[row],), uppers=(op.uppers[row],)), memory)
        inside = list(walk(op.body.ops))
        if not any(_shares_loads(loop, facts) for loop in inside if isinstance(loop, For | While)):
            return None  # nothing to win: not worth a word
        if any(isinstance(one, Parallel) or orders_memory(one) for one in inside):
            decline("rows not jammed", "atomics, fences or a parallel region inside", op.loc)
            return None
        rows, known = self.rows, int_value(op.uppers[row])
        while rows > 1 and (rows * len(inside) > self.most_ops or (known is not None and known < rows)):
            rows //= 2
        if rows == 1:
            decline("rows not jammed", f"{len(inside)} operations are too many, or there are too few rows", op.loc)
            return None
        return _jammed(op, row, rows, _Jam(editor, facts, memory, rows), editor)


def _shares_loads(loop: For | While, facts: Uniformity) -> bool:
    """All rows run `loop` alike; it loads the same for all of them, and sums up something of their own."""
    if not _alike(loop, facts):
        return False
    body = list(walk((loop,)))
    shared = any(isinstance(one, Leaf) and one.opcode == "load" and not facts.varies(one.result) for one in body)
    return shared and any(facts.varies(arg) and isinstance(arg.type, Float) for arg in loop.args)


def _alike(op: For | While, facts: Uniformity) -> bool:
    if isinstance(op, For):
        return not any(facts.varies(bound) for bound in (op.lower, op.upper, op.step))
    condition = op.before.ops[-1]
    assert isinstance(condition, Condition)
    return not facts.varies(condition.cond)


def _jammed(op: Parallel, row: int, rows: int, jam: _Jam, editor: Editor) -> list[Op]:
    lower, upper, iv = op.lowers[row], op.uppers[row], op.ivs[row]
    group = editor.fresh("rows", iv.type)
    with editor.collect() as front:
        groups = editor.sdiv(editor.sub(upper, lower), rows, "groups")
        rest = editor.add(lower, editor.mul(groups, rows, name="rest"), name="rest")
    renaming = {old.name: editor.again(old) for old in op.ivs if old is not iv}
    with editor.collect() as ops:
        first = editor.add(lower, editor.mul(group, rows), name=f"{iv.name}.first")
        for number, names in enumerate(jam.names):
            names.update(renaming)
            names[iv.name] = editor.add(first, number, name=iv.name)
        jam.shared.update(renaming)
        ops.extend(jam.ops(op.body.ops))

    def along(old: tuple, new: object) -> tuple:
        return (*old[:row], new, *old[row + 1 :])

    ivs = along(tuple(renaming.get(one.name, one) for one in op.ivs), group)
    main = replace(op, ivs=ivs, lowers=along(op.lowers, const(iv.type, 0)), uppers=along(op.uppers, groups),
                   body=Block(tuple(ops)))  # fmt: skip
    known, start = int_value(upper), int_value(lower)
    if known is not None and start is not None and (known - start) % rows == 0:
        return [*front, main]
    return [*front, main, replace(op, lowers=along(op.lowers, rest))]


class _Jam:
    """Operations once where they are the same in all rows, else once per row; loops that all rows run alike, once."""

    def __init__(self, editor: Editor, facts: Uniformity, memory: Memory, rows: int):
        self._editor, self._facts, self._memory = editor, facts, memory
        self.names: list[dict[str, Operand]] = [{} for _ in range(rows)]  # what stands for a value in each row
        self.shared: dict[str, Operand] = {}  # what stands for a value that all rows share

    def ops(self, ops: Iterable[Op]) -> list[Op]:
        return [new for op in ops for new in self._op(op)]

    def _op(self, op: Op) -> list[Op]:
        match op:
            case Leaf(result=Value() as result) if not self._facts.varies(result) and self._is_free(op):
                return self._once(op)
            case For() | While() if _alike(op, self._facts):
                return [self._loop(op)]
            case If() if not self._facts.varies(op.cond):
                return [self._if(op)]
        return [self._copied(op, names) for names in self.names]

    def _is_free(self, op: Leaf) -> bool:
        return op.opcode == "load" or is_pure(op, self._memory.callee(op))

    def _once(self, op: Op) -> list[Op]:
        new = rename(op, {**self.shared, **self._define(results(op))})
        return [new]

    def _define(self, values: Iterable[Value]) -> dict[str, Operand]:
        """Fresh names for values that all rows share."""
        made: dict[str, Operand] = {value.name: self._editor.again(value) for value in values}
        self.shared.update(made)
        for names in self.names:
            names.update(made)
        return made

    def _targets(self, values: tuple[Value, ...]) -> tuple[Value, ...]:
        """Definitions: one of a value that all rows share, one per row of any other."""
        found: list[Value] = []
        for value in values:
            if not self._facts.varies(value):
                found.append(self._define((value,))[value.name])
                continue
            for names in self.names:
                names[value.name] = self._editor.again(value)
                found.append(names[value.name])
        return tuple(found)

    def _values(self, targets: tuple[Value, ...], values: tuple[Operand, ...]) -> tuple[Operand, ...]:
        """What goes to `targets`, in the order in which _targets gives them."""
        found: list[Operand] = []
        for target, value in zip(targets, values, strict=True):
            if self._facts.varies(target):
                found += [swap(value, names) for names in self.names]
            else:
                found.append(swap(value, self.shared))
        return tuple(found)

    def _copied(self, op: Op, names: dict[str, Operand]) -> Op:
        values = [value for one in walk((op,)) for value in (*results(one), *arguments(one))]
        inner = {value.name: self._editor.again(value) for value in values}
        names.update({value.name: inner[value.name] for value in results(op)})
        return rename(op, {**names, **inner})

    def _block(self, block: Block, targets: tuple[Value, ...]) -> Block:
        *ops, last = block.ops
        new = self.ops(ops)
        values = self._values(targets, last_values(block))
        end = Condition(swap(last.cond, self.shared), values) if isinstance(last, Condition) else Yield(values)
        return Block((*new, end))

    def _loop(self, op: For | While) -> Op:
        inits = self._values(op.args, op.inits)
        if isinstance(op, For):
            bounds = [swap(bound, self.shared) for bound in (op.lower, op.upper, op.step)]
            iv = self._define((op.iv,))[op.iv.name]
            args = self._targets(op.args)
            body = self._block(op.body, op.args)
            return For(iv, *bounds, inits, args, body, self._targets(op.results), op.loc)
        args = self._targets(op.args)
        before = self._block(op.before, op.after_args)
        after_args = self._targets(op.after_args)
        after = self._block(op.after, op.args)
        return While(inits, args, before, after_args, after, self._targets(op.results), op.loc)

    def _if(self, op: If) -> Op:
        cond = swap(op.cond, self.shared)
        then, otherwise = self._block(op.then, op.results), self._block(op.otherwise, op.results)
        return If(cond, then, otherwise, self._targets(op.results), op.loc)
