"""The pass driver: frozen passes in a straight list, checked between, dumped by number.

A pass is a frozen dataclass whose fields are its options, with `name` and `apply(module) -> module`. A pass that
finds nothing to do, or declines, returns the module it got and says why by `decline(...)`; the reasons are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from threadloom.errors import InternalError
from threadloom.par.ops import Function, Module
from threadloom.par.text import print_module
from threadloom.par.verify import problems, verify
from threadloom.source import Loc


class Pass(Protocol):
    @property
    def name(self) -> str: ...

    def apply(self, module: Module) -> Module: ...


@dataclass(frozen=True, slots=True)
class Declined:
    """Why a pass left something as it was: `reason` in a few words, `detail` about the one place."""

    reason: str
    detail: str = ""
    loc: Loc | None = None


@dataclass(frozen=True, slots=True)
class Applied:
    """What one pass of a pipeline did."""

    name: str
    changed: bool
    declined: tuple[Declined, ...]

    def counts(self) -> Counter[str]:
        return Counter(one.reason for one in self.declined)


@dataclass(frozen=True, slots=True)
class Result:
    module: Module
    steps: tuple[Applied, ...]


_declined: ContextVar[list[Declined] | None] = ContextVar("declined", default=None)
Hook = Callable[[str, Module, Module], None]  # pass name, module before, module after


def decline(reason: str, detail: str = "", loc: Loc | None = None) -> None:
    """Called by a pass for each thing it does not do."""
    if (collected := _declined.get()) is not None:
        collected.append(Declined(reason, detail, loc))


@contextmanager
def collected_declines() -> Iterator[list[Declined]]:
    collected: list[Declined] = []
    token = _declined.set(collected)
    try:
        yield collected
    finally:
        _declined.reset(token)


def run_passes(module: Module, passes: Sequence[Pass], *, dump_folder: Path | None = None, hook: Hook | None = None,
               locs: bool = True, verify_each: bool = True) -> Result:  # fmt: skip
    """Apply `passes` in order. Every module between them is verified; with `dump_folder` each one that changed is
    written as `NN-name.par`, which parses back; `hook` sees before and after (the tests compare interpretations).

    verify_each=False verifies the last module only (a compiler that users wait for); where that is malformed, all
    passes run once more and the error names the one to blame."""
    if not verify_each:
        result = _apply(module, passes, dump_folder, hook, locs, False)
        if not problems(result.module):
            return result
    return _apply(module, passes, dump_folder, hook, locs, True)


def _apply(module: Module, passes: Sequence[Pass], dump_folder: Path | None, hook: Hook | None, locs: bool,
           verify_each: bool) -> Result:  # fmt: skip
    if verify_each:
        verify(module, "the input")
    _dump(dump_folder, 0, "input", module, locs)
    steps = []
    for number, one in enumerate(passes, 1):
        with collected_declines() as declined:
            after = one.apply(module)
        changed = after != module
        if changed:
            _dump(dump_folder, number, one.name, after, locs)
            if verify_each:
                verify(after, f"pass {one.name}")
            if hook is not None:
                hook(one.name, module, after)
        steps.append(Applied(one.name, changed, tuple(declined)))
        module = after
    return Result(module, tuple(steps))


def _dump(folder: Path | None, number: int, name: str, module: Module, locs: bool) -> None:
    if folder is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{number:02}-{name}.par").write_text(print_module(module, locs))
    except OSError as error:
        raise InternalError(f"cannot write the dump {folder}: {error}") from error


def map_functions(module: Module, change: Callable[[Function], Function]) -> Module:
    """`module` with each function that has a body changed; the same object where none changes."""
    functions = tuple(function if function.body is None else change(function) for function in module.functions)
    return module if functions == module.functions else replace(module, functions=functions)


def through_functions(module: Module, change: Callable[[Function, Module], Module]) -> Module:
    """`change(function, module)` for each function with a body, one after the other: it may also add to the module."""
    for function in module.functions:
        if function.body is not None:
            module = change(function, module)
    return module
