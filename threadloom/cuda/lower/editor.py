"""A builder that goes on in an existing function: fresh names, copies of code, declarations and globals it needs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from threadloom.cuda.lower.traverse import Renaming, rename, walk
from threadloom.par.builder import Builder, ModuleBuilder
from threadloom.par.ops import Array, Block, Const, Function, Int, Leaf, Module, Op, Operand, Value
from threadloom.par.walk import arguments, results

_COPY_NUMBER = re.compile(r"(\.\d+)+$")


class Editor(Builder):
    """Builds new operations for `function`; `finish` adds what they call to the module."""

    def __init__(self, function: Function, module: Module):
        self.additions = ModuleBuilder()
        super().__init__(self.additions, function.result)
        self.original = module
        self.defined_elsewhere: set[str] = set()  # callees that the caller adds to the module himself
        self.start: list[Op] = []  # goes to the very start of the function: uses parameters only
        self.top: list[Op] = []  # goes to the start of the function: sizes that must be known outside its parallels
        for value in _all_values(function):
            self._taken.setdefault(value.name, 0)

    def again(self, value: Value) -> Value:
        """A fresh value for a copy of `value`: `acc` becomes `acc.1`."""
        return self.fresh(_COPY_NUMBER.sub("", value.name) or value.name, value.type)

    def copy(self, ops: Iterable[Op], renaming: Renaming) -> tuple[Op, ...]:
        """`ops` once more, with fresh names for all that they define; uses follow `renaming`."""
        ops = tuple(ops)
        mapping: dict[str, Operand] = dict(renaming)
        for op in walk(ops):
            for value in (*results(op), *arguments(op)):
                mapping[value.name] = self.again(value)
        return tuple(rename(op, mapping) for op in ops)

    @contextmanager
    def collect(self) -> Iterator[list[Op]]:
        """What is built inside the `with` goes to the list instead of the current region."""
        outer, self.ops = self.ops, []
        try:
            yield self.ops
        finally:
            self.ops = outer

    def text(self, string: str, hint: str) -> Const:
        """The address of a constant, zero-terminated string."""
        raw = string.encode() + b"\0"
        body = "".join(chr(byte) if 32 <= byte < 127 and byte not in (34, 92) else f"\\{byte:02X}" for byte in raw)
        taken = {variable.name for variable in self.original.globals}
        name, number = hint, 0
        while name in taken:
            name, number = f"{hint}.{number}", number + 1
        return self.additions.global_(name, Array(len(raw), Int(8)), f'c"{body}"', constant=True)

    def finish(self, function: Function) -> Module:
        """The module with `function` in its place and with the declarations and globals that were added."""
        if (self.start or self.top) and function.body is not None:
            ops = function.body.ops  # `top` goes behind the sizes that earlier passes put there: they may be needed
            place = next((i for i, op in enumerate(ops) if not isinstance(op, Leaf)), len(ops))
            function = replace(function, body=Block((*self.start, *ops[:place], *self.top, *ops[place:])))
        added = self.additions.build()
        known = {existing.name for existing in self.original.functions} | self.defined_elsewhere
        functions = tuple(function if old.name == function.name else old for old in self.original.functions)
        declared = tuple(new for new in added.functions if new.name not in known)
        variables = {variable.name: variable for variable in (*self.original.globals, *added.globals)}
        return replace(self.original, functions=(*functions, *declared), globals=tuple(variables.values()))


def _all_values(function: Function) -> Iterator[Value]:
    yield from (param.value for param in function.params)
    for op in walk(function.body.ops if function.body else ()):
        if type(op) is Leaf:  # most are
            if op.result is not None:
                yield op.result
            continue
        yield from results(op)
        yield from arguments(op)
