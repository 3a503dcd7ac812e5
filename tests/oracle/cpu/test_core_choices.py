"""Packing and prefetching on a core stand in the plan, and its text decides them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from threadloom.cli import main
from threadloom.examples.flash_attention import flash_attention
from threadloom.examples.matmul import matmul
from threadloom.examples.softmax import softmax
from threadloom.lang.bind import Call
from threadloom.machine.cpu import host
from threadloom.sched.check import check
from threadloom.sched.ops import SProgram
from threadloom.sched.search import plan
from threadloom.sched.text import parse, print_program
from threadloom.targets.cpu.ahead import multiplications
from threadloom.targets.cpu.compile import cpu_schedule, form_for, lower, target_of
from threadloom.targets.cpu.emit import emit_llvm
from threadloom.targets.cpu.plan import InPlace

RNG = np.random.default_rng(5)


def arrays(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def product() -> Call:
    return matmul.bind(a=arrays(512, 512), b=arrays(512, 512), bias=arrays(512))


def attention() -> Call:
    return flash_attention.bind(q=arrays(1, 2, 512, 64), k=arrays(1, 2, 512, 64), v=arrays(1, 2, 512, 64), scale=0.1)


def rows() -> Call:
    return softmax.bind(x=arrays(256, 2048))


PLANNED: dict[str, SProgram] = {}


def planned(call: Call) -> SProgram:
    """Planned once for each kernel: its calls have the same extents here."""
    if call.kernel.name not in PLANNED:
        PLANNED[call.kernel.name] = plan(call.kernel, call.dims, host()).best
    return PLANNED[call.kernel.name]


def edited(program: SProgram, pattern: str, text: str) -> SProgram:
    """The plan read back from its text, in which `pattern` was replaced."""
    changed, count = re.subn(pattern, text, print_program(program), flags=re.MULTILINE)
    assert count
    return parse(changed, program.graph)


def code(program: SProgram, call: Call) -> str:
    schedule = cpu_schedule(program)
    return emit_llvm(lower(schedule, form_for(schedule, call.arrays, call.dims), target_of(host()))[1])


@pytest.mark.parametrize("make", [product, rows])
def test_without_the_decisions_nothing_is_fetched_ahead(make):
    call = make()
    program = planned(call)
    assert "call void @llvm.prefetch" in code(program, call)
    without = edited(program, r"^decide prefetch = .*\n", "")
    assert "call void @llvm.prefetch" not in code(without, call)


@pytest.mark.parametrize(("make", "name", "steps"), [(rows, "x", 3), (product, "b", 2)])
def test_the_distance_is_the_plans(make, name, steps):
    call = make()
    program = planned(call)
    further = edited(program, rf"^decide prefetch = {name} 1 l(\d)$", rf"decide prefetch = {name} {steps} l\1")
    before, after = code(program, call), code(further, call)
    assert before != after
    assert before.count("call void @llvm.prefetch") == after.count("call void @llvm.prefetch")


@pytest.mark.parametrize("name", ["k 1 l1", "v 2 l3", "acc.2 0 l1", "acc.2 1 l2"])
def test_what_nobody_decided_can_be_asked_for(name):
    """A strip of rows in place, and a block of accumulators."""
    call = attention()
    program = planned(call)
    asked = edited(program, r"^decide unpacked = k$", rf"decide unpacked = k\ndecide prefetch = {name}")
    count = [code(made, call).count("call void @llvm.prefetch") for made in (program, asked)]
    assert count[0] == 0 and count[1] > 0


def test_the_cache_is_the_plans():
    call = rows()
    program = planned(call)
    nearer = edited(program, r"^decide prefetch = x 1 l2$", "decide prefetch = x 1 l1")
    assert re.search(r"prefetch.*i32 0, i32 2, i32 1", code(program, call))
    assert not re.search(r"prefetch.*i32 0, i32 2, i32 1", code(nearer, call))


@pytest.mark.parametrize("make", [product, attention])
def test_what_the_plan_says_of_operands_is_what_the_code_does(make):
    call = make()
    program = planned(call)
    schedule = cpu_schedule(program)
    made, _ = lower(schedule, form_for(schedule, call.arrays, call.dims), target_of(host()))
    sources = {}
    for step in multiplications(made):
        sources[step.lanes_value.name] = isinstance(step.lanes_operand, InPlace)
        sources[step.rows_value.name] = isinstance(step.rows_operand, InPlace)
    said = {value: key == "unpacked" for key, value in program.decisions if key in ("pack", "unpacked")}
    assert said and all(sources[value] is in_place for value, in_place in said.items())
    shared = {value for key, value in program.decisions if key == "share_packing"}
    assert shared == {step.pack.value.name for step in made.shared}
    panels = {b.tile for b in program.buffers if b.layout.startswith("panel")}
    assert not panels & {value for value, in_place in said.items() if in_place}


def test_an_operand_is_packed_where_the_plan_says_so():
    call = attention()
    program = planned(call)
    packed = edited(program, r"^decide unpacked = ([kv])$", r"decide pack = \1")
    schedule = cpu_schedule(packed)
    made, _ = lower(schedule, form_for(schedule, call.arrays, call.dims), target_of(host()))
    assert not any(isinstance(step.lanes_operand, InPlace) for step in multiplications(made))
    assert not any(isinstance(step.rows_operand, InPlace) for step in multiplications(made))


def test_edited_choices_run_and_agree(tmp_path: Path, capsys):
    small = ("flash_attention", "--shape", "B=1,H=2,HKV=2,SQ=512,SK=512,D=64")
    assert main(["dump", *small, "--to", str(tmp_path)]) == 0
    file = tmp_path / "03-sched.sprog"
    text = file.read_text()
    changed = text.replace("unpacked = k", "pack = k\ndecide prefetch = v 4 l3\ndecide prefetch = acc.2 3 l1")
    assert changed != text
    file.write_text(changed)
    assert main(["run", *small, "--from", str(file), "--repeat", "1"]) == 0


@pytest.mark.parametrize(
    ("decision", "slug"),
    [("prefetch = b soon l2", "bad-decision"), ("prefetch = b 1 l9", "bad-decision"), ("pakc = b", "unknown-decision")],
)
def test_a_decision_that_says_nothing_is_refused(decision, slug):
    program = planned(product())
    wrong = edited(program, r"^decide pack = b$", f"decide {decision}")
    assert [finding.slug for finding in check(wrong, host())] == [slug]


def test_the_register_block_is_the_plans():
    call = product()
    smaller = edited(planned(call), r"^decide register_rows = \d+$", "decide register_rows = 3")
    assert check(smaller, host()) == []
    schedule = cpu_schedule(smaller)
    made, _ = lower(schedule, form_for(schedule, call.arrays, call.dims), target_of(host()))
    assert {step.row_block for step in multiplications(made)} == {3}


def test_another_register_block_runs_and_agrees(tmp_path: Path, capsys):
    small = ("matmul", "--shape", "M=70,N=80,K=90")
    assert main(["dump", *small, "--to", str(tmp_path)]) == 0
    file = tmp_path / "03-sched.sprog"
    changed = re.sub(r"register_rows = \d+", "register_rows = 2", file.read_text())
    file.write_text(re.sub(r"register_vectors = \d+", "register_vectors = 1", changed))
    assert main(["run", *small, "--from", str(file), "--repeat", "1"]) == 0


@pytest.mark.parametrize(
    ("pattern", "text", "slug"),
    [
        (r"^decide register_rows = \d+$", "decide register_rows = 99", "bad-decision"),
        (r"^decide register_rows = \d+$", "decide register_rows = no", "bad-decision"),
        (r"^decide register_rows = \d+\n", "", "bad-decision"),
        (r"^decide register_vectors = \d+$", "decide register_vectors = 3", "bad-decision"),
        (r"group 1,", "group 4,", "not-on-a-core"),
        (r"workers 1,", "workers 2,", "not-on-a-core"),
        (r"cluster 1\b", "cluster 2", "not-on-a-core"),
    ],
)
def test_what_a_core_cannot_do_is_refused(pattern, text, slug):
    """Not silently left out: the code would not be what the plan says."""
    found = check(edited(planned(product()), pattern, text), host())
    assert [finding.slug for finding in found] == [slug]


def test_a_register_block_and_its_operands_fill_the_registers():
    """Beside the block: the vectors of a row of one operand, and an element of the other."""
    narrow = edited(planned(product()), r"^decide register_vectors = \d+$", "decide register_vectors = 1")
    most = int(host().fact("vector_registers", 16))
    for rows, slugs in ((most - 2, []), (most - 1, ["bad-decision"])):
        found = check(edited(narrow, r"^decide register_rows = \d+$", f"decide register_rows = {rows}"), host())
        assert [finding.slug for finding in found] == slugs


def test_the_order_of_issues_makes_no_other_code():
    """A core finishes a task before it begins the next (docs/cpu-target.md); an order that is wrong is refused."""
    call = attention()
    program = planned(call)
    load = r"(?P<before>(?:^  0: issue .*\n)*?)(?P<load>^  0: issue load_v .*\n)"
    earlier = edited(program, r"^(section loop 1 of core\n)" + load, r"\1\g<load>\g<before>")
    assert earlier != program and check(earlier, host()) == []
    assert code(earlier, call) == code(program, call)
    late = edited(program, r"^(  0: issue dot_s .*\n)((?:  0: .*\n)+)", r"\2\1")
    assert check(late, host())
