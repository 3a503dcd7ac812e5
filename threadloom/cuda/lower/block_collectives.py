"""`__syncthreads_count`, `_and` and `_or` become votes and plain barriers.

    %r = call i32 @loom.syncthreads.count(i32 %p)
 -> %set = icmp ne i32 %p, 0; store it to the vote byte; barrier; %r = sum of all bytes; barrier

`and` counts the work-items whose predicate is 0; exited ones count in none of the three.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from threadloom.cuda.lower.editor import Editor
from threadloom.cuda.lower.separators import collective_scope
from threadloom.cuda.lower.traverse import expand, rename_block, walk
from threadloom.cuda.lower.votes import Votes
from threadloom.errors import InternalError
from threadloom.par.ops import I8, I32, Block, Function, Leaf, Level, Module, Op, Operand, Parallel


@dataclass(frozen=True, slots=True)
class LowerBlockCollectives:
    name: str = "lower-block-collectives"

    def apply(self, module: Module) -> Module:
        for function in module.functions:
            if function.body and any(collective_scope(op) == "block" for op in walk(function.body.ops)):
                module = self._function(function, module)
        return module

    def _function(self, function: Function, module: Module) -> Module:
        editor = Editor(function, module)

        def change(op: Op) -> list[Op] | None:
            if not isinstance(op, Parallel) or op.level is not Level.THREADS:
                return None
            votes, renaming = Votes(editor, op), {}
            direct = {id(inner) for inner in op.body.ops}  # elsewhere some work-items may have exited

            def collective(inner: Op) -> list[Op] | None:
                if collective_scope(inner) != "block":
                    return None
                with editor.collect() as ops, editor.at(inner.loc):
                    renaming[inner.result.name] = _combine(inner, votes, editor, id(inner) not in direct)
                return ops

            body = rename_block(expand(op.body, collective), renaming)
            if votes.front:
                body = Block((*votes.start, *body.ops))
            return [*votes.front, replace(op, body=body)]

        return editor.finish(replace(function, body=expand(function.body, change)))


def _combine(op: Leaf, votes: Votes, editor: Editor, aside: bool) -> Operand:
    kind = op.attrs.callee.removeprefix("loom.syncthreads.")
    predicate = op.operands[0]
    if kind == "count":
        return votes.combine(editor.cast("zext", editor.icmp("ne", predicate, 0, "set"), I8), "add", aside)
    test = {"or": "ne", "and": "eq"}.get(kind)
    if test is None:
        raise InternalError(f"unknown block collective {op.attrs.callee}")
    some = votes.combine(editor.cast("zext", editor.icmp(test, predicate, 0, "set"), I8), "or", aside)
    return editor.cast("zext", editor.icmp("ne" if kind == "or" else "eq", some, 0, f"sync.{kind}"), I32)
