"""A `for` with barriers inside whose bounds are not scalar becomes a `while`, so that only conditions can diverge.

    %r = for %i = i32 %lo to %hi step %st carry (%a = T %x) { B; barrier; yield T %y }
 -> %i.out, %r = while (%i = i32 %lo, %a = T %x) { %go = icmp slt i32 %i, %hi; condition i1 %go, i32 %i, T %a
    } do (%i.1, %a.1) { B'; barrier; %next = add i32 %i.1, %st; yield i32 %next, T %y' }

Needs: step > 0 (the meaning of `for`). Keeps: everything else.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from threadloom.cuda.lower.editor import Editor
from threadloom.cuda.lower.effects import Memory
from threadloom.cuda.lower.scalars import Scalars
from threadloom.cuda.lower.separators import has_meeting, meets
from threadloom.cuda.lower.traverse import expand, last_values, rename_block
from threadloom.cuda.lower.uniformity import Uniformity
from threadloom.par.ops import Block, Condition, For, Function, Level, Module, Op, While, Yield
from threadloom.par.passes import through_functions


@dataclass(frozen=True, slots=True)
class ForToWhile:
    level: Level

    @property
    def name(self) -> str:
        return f"for-to-while-{self.level}"

    def apply(self, module: Module) -> Module:
        return through_functions(module, self._function)

    def _function(self, function: Function, module: Module) -> Module:
        editor, memory = Editor(function, module), Memory(function, module)
        changed = False

        def change(op: Op) -> list[Op] | None:
            nonlocal changed
            if not meets(op, self.level):
                return None
            scalars = Scalars(op, memory, Uniformity(op, memory))

            def loop(inner: Op) -> list[Op] | None:
                if not isinstance(inner, For) or not has_meeting(inner.body.ops, self.level):
                    return None
                if all(scalars.is_scalar(bound) for bound in (inner.lower, inner.upper, inner.step)):
                    return None
                return [to_while(inner, editor)]

            new = replace(op, body=expand(op.body, loop))
            changed = changed or new != op
            return [new]

        body = expand(function.body, change)
        return editor.finish(replace(function, body=body)) if changed else module


def to_while(op: For, editor: Editor) -> While:
    """What `op` means, as a `while`."""
    with editor.collect() as before:
        go_on = editor.icmp("slt", op.iv, op.upper, "go")
    before.append(Condition(go_on, (op.iv, *op.args)))
    iv, args = editor.again(op.iv), tuple(editor.again(arg) for arg in op.args)
    renaming = {old.name: new for old, new in zip((op.iv, *op.args), (iv, *args), strict=True)}
    body = rename_block(op.body, renaming)
    with editor.collect() as step:
        following = editor.add(iv, op.step, ("nsw",), "next")
    after = Block((*body.ops[:-1], *step, Yield((following, *last_values(body)))))
    results = (editor.again(op.iv), *op.results)
    return While((op.lower, *op.inits), (op.iv, *op.args), Block(tuple(before)), (iv, *args), after, results, op.loc)
