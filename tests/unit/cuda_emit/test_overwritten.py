"""What lies beyond the end of an axis is overwritten a second time only where that may be needed."""

from __future__ import annotations

from dataclasses import replace

import pytest

import threadloom as tl
from threadloom.examples.flash_attention import flash_attention
from threadloom.sched.begin_ahead import begin_ahead
from threadloom.sched.ops import AxisTile, Partition
from threadloom.sched.search import plan
from threadloom.targets.cuda import nvrtc
from threadloom.targets.cuda.compile import DeviceTensor, facts_of
from threadloom.targets.cuda.emit import emit
from threadloom.targets.cuda.overwritten import is_overwritten
from threadloom.targets.cuda.registers import Scope
from threadloom.targets.cuda.time_plan import packed
from threadloom.writer import Writer

HEAD = "if (n_at + 128 > end)"


def overwritten_twice(between: list[str], with_: str = "0", head: str = HEAD, array: str = "s") -> bool:
    scope = Scope(Writer())
    w = scope.writer
    w.line("{")
    assert not is_overwritten(scope, "s", HEAD, "n_at", "0")
    with w.block(HEAD):
        w.line("for (int i = 0; i < 64; i++) if (i >= end) s[i] = 0;")
    for line in between:
        w.line(line)
    return is_overwritten(scope, array, head, "n_at", with_)


def test_zeros_that_are_there_are_not_written_again():
    between = ["for (...) sums[i] = i == 0 ? s[i] : sums[i] + s[i];", "{", "acc[i] = 0;", "}", "pin(s);  // s is read"]
    assert overwritten_twice(between)


@pytest.mark.parametrize(
    "line",
    [
        "s[i] = exp2_fast(s[i]);", "s[2 * i] += 1;", "load(s);", "const i32 n_at = 128;", "}", "} else {",
        "s[place[i]] = 3;",
    ],
)  # fmt: skip
def test_zeros_that_may_be_gone_are(line: str):
    assert not overwritten_twice([line])


@pytest.mark.parametrize("other", [{"with_": "-LOOM_INF"}, {"head": "if (n_at + 64 > end)"}, {"array": "t"}])
def test_other_arrays_values_and_ends_are_other_things(other: dict[str, str]):
    assert not overwritten_twice([], **other)


def test_another_writer_is_another_place():
    scope = Scope(Writer())
    assert not is_overwritten(scope, "s", HEAD, "n_at", "0")
    scope.writer = Writer()
    assert not is_overwritten(scope, "s", HEAD, "n_at", "0")


@pytest.mark.parametrize("ahead", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_attention_of_64_wide_heads_with_128_keys_does_not_spill(ahead: bool):
    """The shipped plan; 112 and 128 bytes were spilled for a second test of where the keys end."""
    dims = {"B": 2, "H": 32, "HKV": 32, "SQ": 8192, "SK": 8192, "D": 64}
    tiles = AxisTile("m", 192, 64), AxisTile("n", 128, 128)
    only = Partition(tiles, (), ("b", "h", "m"), workers=3, persistent=True)
    program = plan(flash_attention.tile(T=tl.bf16), dims, "h200", only=only).best
    program = begin_ahead(program) if ahead else program
    facts = {}
    for t in program.graph.kernel.tensors:
        shape = tuple(d if isinstance(d, int) else dims[d] for d in t.dims)
        facts[t.name] = facts_of(t, DeviceTensor(0, shape, packed(shape)))
    text = emit(replace(program, decisions=()), facts, dims).text
    made = nvrtc.compile_source(text, "sm_90a")
    assert made.spill_bytes == 0 and not made.serialised
