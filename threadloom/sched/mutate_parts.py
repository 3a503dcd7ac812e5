"""Mutation of split reductions: every way in which parts are typically made or combined wrongly.

The mutants are whole: kernel and tasks of a program are changed alike, so that the simulator, which runs tasks, and the
checker, which reads the kernel, judge the same thing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from threadloom.sched.mutate import Mutant, Operator
from threadloom.sched.ops import SProgram
from threadloom.task.ops import TaskGraph
from threadloom.tile.ops import Axis, Block, Grid, If, Load, LoopAxis, Map, Op, Store, Stream, Subscript, Term
from threadloom.tile.uses import walk

Change = Callable[[Op], Op]
PART_OPERATORS: dict[str, Operator] = {}  # for programs with a `combine`
OTHER = {"add": "sub", "maximum": "minimum", "minimum": "maximum", "mul": "add", "and": "or", "or": "and", "xor": "or"}


def operator(make: Operator) -> Operator:
    PART_OPERATORS[make.__name__.replace("_", "-")] = make
    return make


def part_mutants(program: SProgram) -> Iterator[Mutant]:
    for make in PART_OPERATORS.values():
        yield from make(program)


def _changed(program: SProgram, change: Change, axes: Callable[[Axis], Axis] = lambda a: a) -> SProgram:
    """The program with every operation of its kernel and tasks changed, and axes replaced."""
    graph = program.graph
    tasks = tuple(replace(t, ops=tuple(map(change, t.ops))) for t in graph.tasks)
    body = Block(tuple(_inside(op, change, axes) for op in graph.kernel.body.ops))
    kernel = replace(graph.kernel, body=body, axes=tuple(map(axes, graph.kernel.axes)))
    loops = tuple(replace(loop, axes=_axes(loop.axes, axes)) for loop in graph.loops)
    return replace(program, graph=replace(graph, kernel=kernel, tasks=tasks, loops=loops))


def _axes(old: tuple[LoopAxis, ...], axes: Callable[[Axis], Axis]) -> tuple[LoopAxis, ...]:
    return tuple(replace(a, axis=axes(a.axis)) for a in old)


def _inside(op: Op, change: Change, axes: Callable[[Axis], Axis]) -> Op:
    op = change(op)

    def block(of: Block) -> Block:
        return Block(tuple(_inside(o, change, axes) for o in of.ops))

    match op:
        case Grid() | Stream():
            return replace(op, axes=_axes(op.axes, axes), body=block(op.body))
        case If():
            return replace(op, then=block(op.then), otherwise=block(op.otherwise))
    return op


def _only(old: Op, new: Op) -> Change:
    return lambda op: new if op == old else op


def _combining(program: SProgram) -> Stream:
    """The loop over the parts."""
    between = {t.name for t in program.graph.kernel.tensors}
    assert program.combine is not None
    grid = next(op for op in program.combine.graph.kernel.body.ops if isinstance(op, Grid))
    loops = [op for op in grid.body.ops if isinstance(op, Stream)]
    return next(s for s in loops if any(isinstance(o, Load) and o.tensor in between for o in s.body.ops))


def _with_combine(program: SProgram, change: Change, axes: Callable[[Axis], Axis] = lambda a: a) -> SProgram:
    assert program.combine is not None
    return replace(program, combine=_changed(program.combine, change, axes))


@operator
def forget_the_last_part(program: SProgram) -> Iterator[Mutant]:
    axis = _combining(program).axes[0].axis
    made = _with_combine(program, lambda op: op, lambda a: replace(a, dim=a.dim - 1) if a == axis else a)
    yield Mutant("forget-the-last-part", f"axis {axis.name}", made)


@operator
def combine_otherwise(program: SProgram) -> Iterator[Mutant]:
    """Another function where parts meet."""
    loop = _combining(program)
    for op in loop.body.ops:
        if isinstance(op, Map) and op.fn in OTHER and op.result in loop.body.ops[-1].values:
            made = _with_combine(program, _only(op, replace(op, fn=OTHER[op.fn])))
            yield Mutant("combine-otherwise", f"{op.fn} of {op.result.name}", made)


@operator
def forget_a_weight(program: SProgram) -> Iterator[Mutant]:
    """A part is added without being scaled to the common reference."""
    loop = _combining(program)
    for op in loop.body.ops:
        if isinstance(op, Map) and op.fn == "mul" and op.args[0].type == op.result.type:
            made = _with_combine(program, _only(op, Map(op.result, "maximum", (op.args[0], op.args[0]), op.loc)))
            yield Mutant("forget-a-weight", f"of {op.args[0].name}", made)


@operator
def read_another_part(program: SProgram) -> Iterator[Mutant]:
    """Always the first part."""
    axis = _combining(program).axes[0].axis.name
    for op in _combining(program).body.ops:
        if isinstance(op, Load) and op.subscripts and op.subscripts[0] == Subscript((Term(1, axis=axis),)):
            made = replace(op, subscripts=(Subscript((), 0), *op.subscripts[1:]))
            yield Mutant("read-another-part", op.tensor, _with_combine(program, _only(op, made)))


@operator
def store_over_another_part(program: SProgram) -> Iterator[Mutant]:
    """Every part at the place of the first."""
    for op in walk(program.graph.kernel.body):
        if isinstance(op, Store):
            made = replace(op, subscripts=(Subscript((), 0), *op.subscripts[1:]))
            yield Mutant("store-over-another-part", op.tensor, _changed(program, _only(op, made)))


@operator
def begin_at_the_start(program: SProgram) -> Iterator[Mutant]:
    """A part does those before it, too; or all of them do the rest."""
    for loop in program.graph.loops:
        for axis in loop.axes:
            for bound in ("start", "stop"):
                if getattr(axis, bound) is not None and loop.id:
                    yield Mutant("begin-at-the-start", f"{bound} of {axis.axis.name}", _unbounded(program, axis, bound))


def _unbounded(program: SProgram, axis: LoopAxis, bound: str) -> SProgram:
    def without(op: Op) -> Op:
        if isinstance(op, Stream):
            return replace(op, axes=tuple(replace(a, **{bound: None}) if a == axis else a for a in op.axes))
        return op

    made = _changed(program, without)
    graph: TaskGraph = made.graph
    loops = tuple(
        replace(p, axes=tuple(replace(a, **{bound: None}) if a == axis else a for a in p.axes)) for p in graph.loops
    )
    return replace(made, graph=replace(graph, loops=loops))
