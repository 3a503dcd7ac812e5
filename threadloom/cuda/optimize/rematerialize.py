"""What a thread would keep in memory over barriers is computed again from what the whole block shares.

    %in = icmp slt i32 %t, %i                        %in = icmp slt i32 %t, %i
    %done = if i1 %in { A; yield i8 1 }              if i1 %in { A; yield } else { yield }
            else { yield i8 0 }
    barrier threads                            ->    barrier threads
    ... yield i8 %done      (out of a loop)          ... yield i32 %i        (one number per block)
    %last = ... i8 %done                             %was = ... i32 %i
    %flag = trunc i8 %last to i1                     %flag = icmp slt i32 %t, %was

Two steps. An if that only says which side was taken gives way to its condition. Carried values and results of control
flow around barriers that all stem from one such expression (or from nothing: undef) carry the operands of the
expression that threads share, instead of its value, and it is computed again where it is asked. The split's minimum cut
(lower/split_cut.py) sees no further than the nearest loop or if; with this, a guard that is kept in a `bool` needs no
byte per thread, and narrow-threads finds the range of threads in it. Declines where the expression needs more than
`most_inputs` shared operands, or is long.
Source: rematerialisation (Briggs, Cooper, Torczon), over the values that PPoPP'23, section 3.2, cuts; not in the paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from threadloom.cuda.lower.editor import Editor
from threadloom.cuda.lower.effects import Memory
from threadloom.cuda.lower.scalars import Scalars
from threadloom.cuda.lower.separators import contains_meeting, meets
from threadloom.cuda.lower.traverse import expand, last_values, value_flow, walk
from threadloom.cuda.lower.uniformity import Uniformity
from threadloom.par.canonicalize import without_unused
from threadloom.par.constants import const, int_value
from threadloom.par.intrinsics import is_speculatable
from threadloom.par.ops import (
    I1,
    Block,
    Condition,
    Const,
    For,
    Function,
    If,
    Int,
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
from threadloom.par.walk import arguments, regions, results, substitute, with_regions

_TRUE, _FALSE = Const(I1, "true"), Const(I1, "false")
_NOTHING = ("undef", "poison")


@dataclass(frozen=True, slots=True)
class Rematerialize:
    most_inputs: int = 2  # numbers per block that are carried instead of a value per thread
    most_ops: int = 32  # of an expression that is computed again
    name: str = "rematerialize"

    def apply(self, module: Module) -> Module:
        return through_functions(module, self._function)

    def _function(self, function: Function, module: Module) -> Module:
        editor = Editor(function, module)

        def change(op: Op) -> list[Op] | None:
            if not meets(op, Level.THREADS):
                return None
            flagged = replace(op, body=_flags(op.body, editor))
            carried = self._carried(flagged, Memory(replace(function, body=Block((flagged,))), module), editor)
            return None if carried.body == op.body else [carried]

        body = expand(function.body, change)
        return module if body is function.body else editor.finish(replace(function, body=body))

    def _carried(self, parallel: Parallel, memory: Memory, editor: Editor) -> Parallel:
        plan = plan_webs(parallel, memory, self.most_inputs, self.most_ops)
        return _Carrier(plan, editor).parallel(parallel) if plan else parallel


# ------------------------------------------------------------ ifs that only say which side was taken


def _flags(block: Block, editor: Editor) -> Block:
    """Directly in `block` and around barriers below: results of ifs that are constants on both sides."""
    ops: list[Op] = []
    known: dict[str, Operand] = {}
    for op in block.ops:
        if contains_meeting(op, Level.THREADS):
            ops.append(with_regions(op, lambda region: _flags(region, editor)))
            continue
        ops.append(op)
        for index, result in enumerate(op.results if isinstance(op, If) else ()):
            with editor.collect() as made, editor.at(op.loc):
                value = _flag(op, index, {}, editor)
            if value is None:
                continue
            ops += made
            if value.type == result.type:
                known[result.name] = value
            else:
                wide = Leaf("zext", (value,), editor.again(result), loc=op.loc)
                ops.append(wide)
                known[result.name] = wide.result
    return _through_bytes(substitute(Block(tuple(ops)), known)) if known else Block(tuple(ops))


def _flag(op: If, index: int, inside: dict[str, Op], editor: Editor) -> Operand | None:
    """Result `index` of `op` as an i1, where it is 0 or 1 on every side. Conditions of ifs inside are computed again;
    `inside` has what cannot be seen from where the result is asked."""
    sides = []
    for block in (op.then, op.otherwise):
        value = last_values(block)[index]
        if isinstance(value, Value):
            found = _inner_flag(block, value, inside, editor)
        else:
            found = {0: _FALSE, 1: _TRUE}.get(int_value(value)) if isinstance(value.type, Int) else None
        if found is None:
            return None
        sides.append(found)
    yes, no = sides
    cond = _again(op.cond, inside, {}, editor)
    if cond is None or yes == no:
        return None if cond is None else yes
    if (yes, no) == (_TRUE, _FALSE):
        return cond
    if (yes, no) == (_FALSE, _TRUE):
        return editor.xor(cond, _TRUE, "not")
    return editor.select(cond, yes, no, name="flag")


def _inner_flag(block: Block, value: Value, inside: dict[str, Op], editor: Editor) -> Operand | None:
    for place, inner in enumerate(block.ops):
        if isinstance(inner, If) and value in inner.results:
            more = inside | {r.name: one for one in block.ops[:place] for r in results(one)}
            return _flag(inner, inner.results.index(value), more, editor)
    return None


def _again(operand: Operand, definitions: dict[str, Op], made: dict[str, Operand], editor: Editor) -> Operand | None:
    """`operand` computed once more, down to what `definitions` does not have; None where that cannot be."""
    if not isinstance(operand, Value) or (operand.name not in definitions and operand.name not in made):
        return operand
    if operand.name not in made:
        leaf = definitions[operand.name]
        if not isinstance(leaf, Leaf) or not is_speculatable(leaf):
            return None
        inputs = [_again(one, definitions, made, editor) for one in leaf.operands]
        if None in inputs:
            return None
        copy = replace(leaf, operands=tuple(inputs), result=editor.again(leaf.result))
        editor.ops.append(copy)
        made[operand.name] = copy.result
    return made[operand.name]


def _through_bytes(block: Block) -> Block:
    """Uses of `trunc (zext i1 %c) to i1` say %c."""
    wide = {op.result.name: op.operands[0] for op in walk(block.ops)
            if isinstance(op, Leaf) and op.opcode == "zext" and op.operands[0].type == I1}  # fmt: skip
    asked = {
        op.result.name: wide[op.operands[0].name]
        for op in walk(block.ops)
        if isinstance(op, Leaf) and op.opcode == "trunc" and op.result.type == I1
        and isinstance(op.operands[0], Value) and op.operands[0].name in wide
    }  # fmt: skip
    return substitute(block, asked) if asked else block


# ------------------------------------------------------------ what control flow around barriers carries


@dataclass(frozen=True, slots=True)
class Web:
    """Carried values and results that all are `source`, at one moment or another; `inputs` are its operands that all
    threads share and that change, `definitions` the leaves between them and it."""

    members: frozenset[str]
    source: Value
    inputs: tuple[Value, ...]
    definitions: dict[str, Op]


def plan_webs(parallel: Parallel, memory: Memory, most_inputs: int, most_ops: int) -> list[Web]:
    flow = value_flow(parallel.body.ops)
    meeting = {value.name for op in walk(parallel.body.ops) if contains_meeting(op, Level.THREADS)
               for value in (*results(op), *arguments(op))}  # fmt: skip
    scalars = Scalars(parallel, memory, Uniformity(parallel, memory))
    webs = []
    for members in _connected(parallel.body.ops, flow):
        sources = {
            value for name in members for value in flow.get(name, ()) if getattr(value, "name", "") not in members
        }
        values = [value for value in sources if isinstance(value, Value)]
        if not members <= meeting or len(values) != 1 or scalars.is_scalar(values[0]):
            continue
        if any(value.text not in _NOTHING for value in sources if isinstance(value, Const)):
            continue
        if not _shared_control(parallel.body.ops, members, scalars):
            continue
        stable, definitions = _before(parallel, members)
        inputs = _inputs(values[0], stable, definitions, scalars, most_ops)
        if inputs is None:
            continue
        if len(inputs) > most_inputs:
            decline("kept, not computed again", f"%{values[0].name} takes {len(inputs)} shared values", parallel.loc)
            continue
        own = {name: op for name, op in definitions.items() if name not in {value.name for value in inputs}}
        webs.append(Web(frozenset(members), values[0], inputs, own))
    return webs


def _connected(ops: Sequence[Op], flow: dict[str, tuple[Operand, ...]]) -> list[set[str]]:
    """Groups of values that take over from one another. Those that a loop passes to its body and out of it are one."""
    group: dict[str, set[str]] = {name: {name} for name in flow}

    def join(a: str, b: str) -> None:
        if group[a] is not group[b]:
            group[a] |= group[b]
            for name in group[b]:
                group[name] = group[a]

    for name, sources in flow.items():
        for source in sources:
            if isinstance(source, Value) and source.name in group:
                join(name, source.name)
    for op in walk(ops):
        pairs = zip(op.results, op.after_args if isinstance(op, While) else op.args, strict=True) if isinstance(
            op, For | While) else ()  # fmt: skip
        for result, arg in pairs:
            join(result.name, arg.name)
    return list({id(one): one for one in group.values()}.values())


def _shared_control(ops: Sequence[Op], members: set[str], scalars: Scalars) -> bool:
    """All threads take the same way through what carries `members`."""
    for op in walk(ops):
        if not any(value.name in members for value in (*results(op), *arguments(op))):
            continue
        match op:
            case If(cond=cond) | While(before=Block(ops=(*_, Condition(cond=cond)))):
                deciding: tuple[Operand, ...] = (cond,)
            case _:
                deciding = (op.lower, op.upper, op.step) if isinstance(op, For) else ()
        if not all(scalars.is_scalar(operand) for operand in deciding):
            return False
    return True


def _before(parallel: Parallel, members: set[str]) -> tuple[set[str], dict[str, Op]]:
    """Names that can be used all over the web (threads' indices, and what stands in front of its first operation), and
    what defines the others."""
    stable = {iv.name for iv in parallel.ivs}
    definitions: dict[str, Op] = {}
    in_front = True
    for op in parallel.body.ops:
        in_front &= not any(
            value.name in members for inner in walk((op,)) for value in (*results(inner), *arguments(inner))
        )
        if in_front:
            stable |= {value.name for value in results(op)}
            continue
        for inner in walk((op,)):
            definitions |= {value.name: inner for value in (*results(inner), *arguments(inner))}
    return stable, definitions


def _inputs(
    source: Value, stable: set[str], definitions: dict[str, Op], scalars: Scalars, most_ops: int
) -> tuple[Value, ...] | None:
    """What `source` is computed from, beside what is stable: integers that the threads share, of those nearest to it
    and those farthest from it the fewer. None: something else, or by too many operations."""
    sets = [_operands(source, stable, definitions, scalars, most_ops, near) for near in (True, False)]
    return min((one for one in sets if one is not None), key=len, default=None)


def _operands(
    source: Value, stable: set[str], definitions: dict[str, Op], scalars: Scalars, most_ops: int, near: bool
) -> tuple[Value, ...] | None:
    found: dict[str, Value] = {}
    queue, seen = [source], {source.name}
    while queue:
        value = queue.pop()
        if value.name in stable or value.name not in definitions:
            continue
        leaf = definitions[value.name]
        computed = isinstance(leaf, Leaf) and is_speculatable(leaf)
        if value is not source and scalars.is_scalar(value) and isinstance(value.type, Int) and (near or not computed):
            found[value.name] = value
            continue
        if not computed or len(seen) > most_ops:
            return None
        for operand in leaf.operands:
            if isinstance(operand, Value) and operand.name not in seen:
                seen.add(operand.name)
                queue.append(operand)
    return tuple(found.values())


class _Carrier:
    """Rewrites control flow so that members of webs become the webs' inputs."""

    def __init__(self, webs: list[Web], editor: Editor):
        self._editor = editor
        self._web = {name: web for web in webs for name in web.members}
        self._stands: dict[str, tuple[Value, ...]] = {}  # member -> what is carried for it
        self._computed: dict[str, Operand] = {}  # member -> its value, computed again

    def parallel(self, op: Parallel) -> Parallel:
        for inner in walk(op.body.ops):
            for value in (*results(inner), *arguments(inner)):
                if (web := self._web.get(value.name)) is not None:
                    self._stands[value.name] = tuple(self._editor.fresh(one.name, one.type) for one in web.inputs)
        body = self._block(op.body, ())
        return replace(op, body=without_unused(_through_bytes(substitute(body, self._computed))))

    # ------------------------------------------------------------ operands and definitions

    def _passed(self, targets: Sequence[Value], sources: Sequence[Operand]) -> tuple[Operand, ...]:
        """`sources` as they arrive at `targets`."""
        out: list[Operand] = []
        for target, source in zip(targets, sources, strict=True):
            web = self._web.get(target.name)
            out += [source] if web is None else self._parts(web, source)
        return tuple(out)

    def _parts(self, web: Web, source: Operand) -> Sequence[Operand]:
        if not isinstance(source, Value):
            return [const(one.type, 0) for one in web.inputs]  # undef: any value will do
        return self._stands[source.name] if source.name in web.members else web.inputs

    def _defined(self, values: Sequence[Value]) -> tuple[Value, ...]:
        return tuple(new for value in values for new in self._stands.get(value.name, (value,)))

    def _recomputed(self, values: Sequence[Value]) -> list[Op]:
        with self._editor.collect() as ops:
            for value in values:
                if (web := self._web.get(value.name)) is not None:
                    made = dict(zip((one.name for one in web.inputs), self._stands[value.name], strict=True))
                    again = _again(web.source, web.definitions, made, self._editor)
                    assert again is not None
                    self._computed[value.name] = again
        return ops

    # ------------------------------------------------------------ regions

    def _block(self, block: Block, args: Sequence[Value], targets: Sequence[Value] = ()) -> Block:
        ops = self._recomputed(args)
        for op in block.ops:
            match op:
                case Yield(values):
                    ops.append(Yield(self._passed(targets, values)))
                case Condition(cond, values):
                    ops.append(Condition(cond, self._passed(targets, values)))
                case _:
                    ops += self._op(op)
        return Block(tuple(ops))

    def _op(self, op: Op) -> list[Op]:
        match op:
            case If():
                new: Op = replace(op, then=self._block(op.then, (), op.results),
                                  otherwise=self._block(op.otherwise, (), op.results),
                                  results=self._defined(op.results))  # fmt: skip
            case For():
                new = replace(op, inits=self._passed(op.args, op.inits), args=self._defined(op.args),
                              body=self._block(op.body, op.args, op.args),
                              results=self._defined(op.results))  # fmt: skip
            case While():
                new = replace(op, inits=self._passed(op.args, op.inits), args=self._defined(op.args),
                              before=self._block(op.before, op.args, op.results),
                              after_args=self._defined(op.after_args),
                              after=self._block(op.after, op.after_args, op.args),
                              results=self._defined(op.results))  # fmt: skip
            case _:
                return [op if not regions(op) else with_regions(op, lambda region: self._block(region, ()))]
        return [new, *self._recomputed(results(op))]
