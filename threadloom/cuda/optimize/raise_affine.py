"""A `while` that counts in steps of a constant up to a bound becomes a `for`.

    %i.out, %s.out = while (%i = i32 %lo, %s = float 0.0) { %go = icmp slt i32 %i, %n; condition i1 %go, %i, %s
    } do (%j, %t) { B; %next = add nsw i32 %j, 4; yield i32 %next, float %u }
 -> %s.out = for %i = i32 %lo to %n step 4 carry (%s = float 0.0) { B'; yield float %u }

C++ loops are raised as `while`, since any of them may do anything. Of a `for` it is known how often it runs and that
it ends: later passes run its rows alike, keep as many sums as registers hold, and drop it where nobody reads its
results; LLVM gets a counter that does not wrap. The counter's value after the loop, where it is read, is carried.

Needs: the test is all that the loop does before its body, and is `<` or `<=` between the counter and what the loop
does not change; `add` of a positive constant, with nsw unless that is 1 and the test `<` (then it cannot wrap).
Declines for loops that are left early, unsigned tests, counters that fall, double or step by a value.
Source: PPoPP'23, section 5 (raising to the affine dialect, whose loops have bounds); ours raises loops only: addresses
become polynomials where a pass asks for them (affine.py).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

from threadloom.cuda.lower.editor import Editor
from threadloom.cuda.lower.effects import Memory, is_pure
from threadloom.cuda.lower.traverse import expand, free_values, last_values, rename_block, swap, walk
from threadloom.par.constants import const, int_value
from threadloom.par.ops import Block, Condition, For, Function, Int, Leaf, Module, Op, Operand, Value, While, Yield
from threadloom.par.passes import decline, through_functions
from threadloom.par.walk import operands

_MIRRORED = {"sgt": "slt", "sge": "sle"}


@dataclass(frozen=True, slots=True)
class Counted:
    """A `while` that is a `for`: argument `position` counts from its start to `bound` (`or_equal`: and with it)."""

    position: int
    bound: Operand
    or_equal: bool
    step: int
    following: Operand  # the counter of the next iteration, in the body


@dataclass(frozen=True, slots=True)
class RaiseAffine:
    name: str = "raise-affine"

    def apply(self, module: Module) -> Module:
        return through_functions(module, self._function)

    def _function(self, function: Function, module: Module) -> Module:
        editor, memory = Editor(function, module), Memory(function, module)
        body = function.body.ops if function.body else ()
        uses = Counter(o.name for op in walk(body) for o in operands(op) if isinstance(o, Value))

        def change(op: Op) -> list[Op] | None:
            if not isinstance(op, While):
                return None
            plan = plan_counted(op, memory, uses)
            if isinstance(plan, str):
                decline("loop stays a while", plan, op.loc)
                return None
            return _counted(op, plan, uses, editor)

        raised = expand(function.body, change)
        return module if raised is function.body else editor.finish(replace(function, body=raised))


def plan_counted(loop: While, memory: Memory, uses: Counter[str]) -> Counted | str:
    """How `loop` counts, or why it does not."""
    *tests, end = loop.before.ops
    if not isinstance(end, Condition) or not all(
        isinstance(op, Leaf) and op.result and is_pure(op, memory.callee(op)) for op in tests
    ):
        return "it does more than test before each iteration"
    test = next((op for op in tests if op.result == end.cond), None)
    if test is None or test.opcode != "icmp":
        return "its test is no comparison"
    found = _compared(loop, test)
    if isinstance(found, str):
        return found
    position, predicate, bound = found
    read = [value for result, value in zip(loop.results, end.values, strict=True) if uses[result.name]]
    if any(value not in loop.args for value in read) or len(set(read)) < len(read):
        return "a value of its test is read behind it"
    following = last_values(loop.after)[position]
    step = _step(loop, position, following, predicate)
    return step if isinstance(step, str) else Counted(position, bound, predicate == "sle", step, following)


def _compared(loop: While, test: Leaf) -> tuple[int, str, Operand] | str:
    """(position of the counter, slt or sle, bound)."""
    (left, right), predicate = test.operands, test.attrs.predicate
    if left not in loop.args:
        left, right = right, left
        predicate = _MIRRORED.get(predicate, "")
    if left not in loop.args or not isinstance(left.type, Int):
        return "its test compares no counter"
    if predicate not in ("slt", "sle"):
        return "its test is not < or <= between signed numbers"
    if isinstance(right, Value) and right.name in _changing(loop):
        return "its bound changes"
    if predicate == "sle" and int_value(right) == (1 << left.type.bits - 1) - 1:
        return "its bound is the largest number"
    return loop.args.index(left), predicate, right


def _changing(loop: While) -> set[str]:
    """What the test computes from the arguments, and those."""
    names = {value.name for value in loop.args}
    for op in loop.before.ops:
        if isinstance(op, Leaf) and op.result and names & free_values((op,)).keys():
            names.add(op.result.name)
    return names


def _step(loop: While, position: int, following: Operand, predicate: str) -> int | str:
    counter = loop.args[position]
    again = {a.name for a, v in zip(loop.after_args, last_values(loop.before), strict=True) if v == counter}
    leaf = next((op for op in loop.after.ops if isinstance(op, Leaf) and op.result == following), None)
    if leaf is None or leaf.opcode != "add":
        return "its counter is not the one before plus a constant"
    numbers = [int_value(operand) for operand in leaf.operands]
    counts = [isinstance(operand, Value) and operand.name in again for operand in leaf.operands]
    step = next((n for n, other in zip(numbers, reversed(counts), strict=True) if n is not None and other), None)
    if step is None:
        return "its counter is not the one before plus a constant"
    if step <= 0:
        return "its counter falls"
    if "nsw" not in leaf.attrs.flags and not (step == 1 and predicate == "slt"):
        return "its counter may wrap"
    return step


def _counted(loop: While, plan: Counted, uses: Counter[str], editor: Editor) -> list[Op]:
    forwarded, counter = last_values(loop.before), loop.args[plan.position]
    left = {value.name: result for result, value in zip(loop.results, forwarded, strict=True)
            if isinstance(value, Value) and uses[result.name]}  # fmt: skip
    starts = list(zip(loop.args, loop.inits, last_values(loop.after), strict=True))
    carried = [one for one in starts if one[0] != counter]
    results = [left.get(arg.name) or editor.again(arg) for arg, _, _ in carried]
    if counter.name in left:
        carried.append((editor.again(counter), *starts[plan.position][1:]))
        results.append(left[counter.name])
    again = {arg.name: value for arg, value in zip(loop.after_args, forwarded, strict=True)}
    yielded = tuple(swap(value, again) for _, _, value in carried)
    changing = _changing(loop)
    fixed = [op for op in loop.before.ops if isinstance(op, Leaf) and op.result and op.result.name not in changing]
    tests = [op for op in loop.before.ops[:-1] if op not in fixed]
    inside = (*tests, *rename_block(loop.after, again).ops[:-1], Yield(yielded))
    with editor.collect() as front:
        high = editor.add(plan.bound, 1, name="end") if plan.or_equal else plan.bound
    args, inits = tuple(arg for arg, _, _ in carried), tuple(init for _, init, _ in carried)
    step, body = const(counter.type, plan.step), Block(_without(inside, loop.before.ops, plan.following))
    start = loop.inits[plan.position]
    return [*fixed, *front, For(counter, start, high, step, inits, args, body, tuple(results), loop.loc)]


def _without(ops: tuple[Op, ...], tests: tuple[Op, ...], following: Operand) -> tuple[Op, ...]:
    """`ops` without the test and the step of the counter, where nothing else uses them."""
    spare = {op.result for op in tests if isinstance(op, Leaf)} | {following}
    kept: list[Op] = []
    used: set[str] = set()
    for op in reversed(ops):
        if isinstance(op, Leaf) and op.result in spare and op.result.name not in used:
            continue
        kept.append(op)
        used |= free_values((op,)).keys()
    return tuple(reversed(kept))
