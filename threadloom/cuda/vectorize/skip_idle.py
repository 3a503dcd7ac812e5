"""Groups of neighbouring threads of which none has work are passed over by one test.

    parallel threads (%x) = 0 to %n { %i = ...; if (%i < %m) { %f = load i8, ptr %flags + %i; if (%f) { B } } }
 -> parallel threads (%group) = 0 to (%n + 31) / 32 {
      if (32 %group + 32 <= %n) {
        %all = %i + <0 ... 31> < %m in all lanes
        if (%all) { %some = load <32 x i8> != 0 in some lane } else { %some = true }
      } else { %some = true }
      if (%some) { for %x = 32 %group to min(32 %group + 32, %n) { the body, as before } }
    }

Kernels that walk a frontier (breadth-first search, worklists) look at a flag per thread, and most are not set: 32 flags
cost as much as one before. A thread may look early, since no order of a barrier-free loop's threads is promised; those
of a group with work look again.

Needs: a body that is nothing but tests around tests around work; loads in them that are contiguous or the same for all.
Declines where the work could be masked by vectors (then lanes without work cost no branch), where the loop has become
vectors, and where a test's loads are scattered. Source: ours; not in the paper.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from threadloom.cuda.lower.editor import Editor
from threadloom.cuda.lower.effects import Memory, is_pure, orders_memory
from threadloom.cuda.lower.traverse import expand, walk
from threadloom.cuda.vectorize.emit import RegionVectorizer
from threadloom.cuda.vectorize.lanes import Steps
from threadloom.cuda.vectorize.shapes import Shapes
from threadloom.par.constants import const, int_value
from threadloom.par.ops import (
    I1,
    I8,
    Block,
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
    Vector,
    While,
    Yield,
)
from threadloom.par.passes import decline, through_functions
from threadloom.par.result_types import size_bytes
from threadloom.par.walk import results

_BYTES = (I1, I8, Int(16))  # what no vector stores under a mask


@dataclass(frozen=True, slots=True)
class Test:
    """Operations that a thread does, and whether it goes on."""

    ops: tuple[Leaf, ...]
    cond: Operand


@dataclass(frozen=True, slots=True)
class SkipIdle:
    group: int = 32
    most_tests: int = 3
    name: str = "skip-idle"

    def apply(self, module: Module) -> Module:
        return through_functions(module, self._function)

    def _function(self, function: Function, module: Module) -> Module:
        editor, memory = Editor(function, module), Memory(function, module)

        def change(op: Op) -> list[Op] | None:
            if not isinstance(op, Parallel) or op.level is not Level.THREADS:
                return None
            shapes = Shapes(op, memory)
            plan = self.plan_tests(op, shapes, memory)
            if plan is None:
                return None  # no tests around everything: not worth a word
            if isinstance(plan, str):
                decline("idle threads not skipped", plan, op.loc)
                return None
            return _skipping(op, plan, self.group, shapes, memory, editor)

        body = expand(function.body, change)
        return module if body is function.body else editor.finish(replace(function, body=body))

    def plan_tests(self, op: Parallel, shapes: Shapes, memory: Memory) -> tuple[Test, ...] | str | None:
        if any(isinstance(value.type, Vector) for inner in walk(op.body.ops) for value in results(inner)):
            return None
        tests, work = _tests(op.body, self.most_tests)
        loads = [leaf for test in tests for leaf in test.ops if leaf.opcode == "load"]
        if not loads:
            return None
        known = int_value(op.uppers[-1])
        if known is not None and known < self.group:
            return "fewer threads than a group"
        if any(leaf.attrs.volatile or leaf.attrs.ordering for leaf in loads):
            return "a test reads what others publish"
        if not all(leaf.opcode == "load" or is_pure(leaf, memory.callee(leaf)) for test in tests for leaf in test.ops):
            return "a test has effects"
        if not all(shapes.stride(leaf.operands[0]) in (0, size_bytes(leaf.result.type)) for leaf in loads):
            return "a test's loads are scattered"
        return tests if _cannot_be_masked(work, shapes) else "vectors mask the work"


def _tests(block: Block, most: int) -> tuple[tuple[Test, ...], tuple[Op, ...]]:
    """The tests around everything that `block` does, and that."""
    tests: list[Test] = []
    ops = block.ops
    while len(tests) < most:
        rest = [op for op in ops if not isinstance(op, Leaf | Yield)]
        if len(rest) != 1 or not isinstance(rest[0], If) or rest[0].results:
            break
        place = ops.index(rest[0])
        idle = all(isinstance(op, Yield) for op in (*rest[0].otherwise.ops, *ops[place + 1 :]))
        front = ops[:place]
        if not idle or not all(isinstance(op, Leaf) and op.result is not None for op in front):
            break
        tests.append(Test(tuple(op for op in front if isinstance(op, Leaf)), rest[0].cond))
        ops = rest[0].then.ops
    return tuple(tests), ops


def _cannot_be_masked(work: tuple[Op, ...], shapes: Shapes) -> bool:
    for op in walk(work):
        if isinstance(op, For | While) or (isinstance(op, Leaf) and orders_memory(op)):
            return True
        if isinstance(op, Leaf) and op.opcode == "store":
            type_ = op.operands[0].type
            if type_ in _BYTES or shapes.stride(op.operands[1]) not in (0, size_bytes(type_)):
                return True
    return False


def _skipping(op: Parallel, tests: tuple[Test, ...], group: int, shapes: Shapes, memory: Memory,
              editor: Editor) -> list[Op]:  # fmt: skip
    lower, upper, x = op.lowers[-1], op.uppers[-1], op.ivs[-1]
    with editor.collect() as front:
        groups = editor.sdiv(editor.add(editor.sub(upper, lower), group - 1), group, "groups")
    number = editor.fresh("group", x.type)
    with editor.collect() as body:
        first = editor.add(lower, editor.mul(number, group), name="first")
        end = editor.add(first, group, name="end")
        lanes = RegionVectorizer(editor, group, shapes, memory.callee, op.body.ops)
        lanes.forms |= {iv.name: lanes.form(iv) for iv in op.ivs[:-1]} | {x.name: Steps(first, 1)}
        whole = editor.icmp("sle", end, upper, "whole")
        some = _or_true(whole, editor, lambda: _some(tests, lanes, editor))
        with editor.if_(some):
            stop = editor.min(end, upper, name="stop")
            inside = Block((*op.body.ops, *(() if isinstance(op.body.ops[-1], Yield) else (Yield(),))))
            editor.ops.append(For(x, first, stop, const(x.type, 1), (), (), inside, (), op.loc))
    ivs, lowers = (*op.ivs[:-1], number), (*op.lowers[:-1], const(x.type, 0))
    return [*front, replace(op, ivs=ivs, lowers=lowers, uppers=(*op.uppers[:-1], groups), body=Block(tuple(body)))]


def _some(tests: tuple[Test, ...], lanes: RegionVectorizer, editor: Editor) -> Operand:
    """Whether some thread passes all tests, where all threads pass those before; else true."""
    test, *others = tests
    lanes.block(test.ops, None)
    passed = lanes.lanes_of(test.cond)
    if not others:
        return lanes.any(passed)
    bits = editor.cast("bitcast", passed, Int(lanes.width), name="mask.bits")
    all_ = editor.icmp("eq", bits, -1, "all.lanes")
    return _or_true(all_, editor, lambda: _some(tuple(others), lanes, editor))


def _or_true(cond: Operand, editor: Editor, answer: Callable[[], Operand]) -> Operand:
    """`answer()` where `cond` holds, else true."""
    with editor.if_(cond, ["some"]) as branch:
        branch.yield_(answer())
        branch.otherwise()
        branch.yield_(const(I1, 1))
    return branch.results[0]
