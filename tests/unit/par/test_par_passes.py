"""The pass driver: dumps, verification between passes, reasons for declining."""

from dataclasses import dataclass, replace

import pytest

from threadloom.errors import InternalError
from threadloom.par.canonicalize import Canonicalize
from threadloom.par.ops import Block, Module
from threadloom.par.passes import decline, map_functions, run_passes
from threadloom.par.text import parse

SOURCE = "define i32 @f(i32 %n) {\n  %unused = add i32 %n, 1\n  return i32 %n\n}\n"


@dataclass(frozen=True, slots=True)
class Breaks:
    """Drops the return."""

    name: str = "break-it"

    def apply(self, module: Module) -> Module:
        return map_functions(module, lambda function: replace(function, body=Block(())))


@dataclass(frozen=True, slots=True)
class Declines:
    reason: str
    name: str = "decline"

    def apply(self, module: Module) -> Module:
        decline(self.reason)
        decline(self.reason)
        return module


def test_dumps_are_numbered_and_parse_back(tmp_path):
    result = run_passes(parse(SOURCE), [Declines("no loop"), Canonicalize()], dump_folder=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["00-input.par", "02-canonicalize.par"]
    assert parse((tmp_path / "02-canonicalize.par").read_text()) == result.module
    assert [step.changed for step in result.steps] == [False, True]


def test_a_pass_that_breaks_the_ir_is_named_and_its_output_kept(tmp_path):
    with pytest.raises(InternalError, match="after pass break-it"):
        run_passes(parse(SOURCE), [Breaks()], dump_folder=tmp_path)
    assert (tmp_path / "01-break-it.par").exists()


def test_reasons_are_counted():
    (step,) = run_passes(parse(SOURCE), [Declines("no loop")]).steps
    assert step.counts() == {"no loop": 2}


def test_the_hook_sees_before_and_after():
    seen = []
    before = parse(SOURCE)
    result = run_passes(before, [Canonicalize()], hook=lambda *args: seen.append(args))
    assert seen == [("canonicalize", before, result.module)]
