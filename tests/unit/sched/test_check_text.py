"""The text form of sPrograms."""

from __future__ import annotations

from dataclasses import replace

import pytest
from check_plans import gemm_core, gemm_hopper
from hypothesis import given, settings
from hypothesis import strategies as st

from threadloom.errors import CompileError
from threadloom.sched.check import check
from threadloom.sched.mutate import mutants
from threadloom.sched.text import parse, print_program

PROGRAMS = [gemm_hopper(), gemm_hopper(cluster=2, slots=2), gemm_hopper(lag=0, persistent=False), gemm_core()]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.device)
def test_parses_back(program):
    decided = replace(program, decisions=(("pack", "a b"), ("nontemporal", "c = d")), predicted_ns=0.1 + 0.2)
    partition = replace(program.partition, sequential=("m",), longest_first=True, group=7, splits=3)
    plan = replace(program.loops[0], starts_cycles=(("issue dot@worker0", 1.5), ("dot@worker0", 2.0)))
    decided = replace(decided, loops=(plan, *program.loops[1:]))
    for item in (program, decided, replace(program, partition=partition), replace(program, policy="")):
        assert parse(print_program(item), item.graph) == item


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 150))
def test_mutants_parse_back(number):
    program = [m.program for m in mutants(PROGRAMS[1])][number % 120]
    assert parse(print_program(program), program.graph) == program


def test_comments_and_edits():
    text = print_program(gemm_hopper())
    edited = "# by hand\n" + text.replace("0: wait full for", "0: wait full for").replace(
        "  0: wait empty_a for slot-free dot -> load_a over a, distance 4\n", "  # 0: wait empty_a\n"
    )
    program = parse(edited, gemm_hopper().graph)
    assert check(program) != []


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("wait full for", "wate full for", "this is no instruction"),
        ("role worker1 worker", "roll worker1 worker", "no line of an sProgram looks like this"),
        ("cluster 1", "cluster one", "are numbers"),
        ("persistent", "persistant", "has no persistant"),
        ("signal full mbarrier", "signal full mbarier", "'mbarier' is not a valid Completion"),
        ("by bulk-copy", "by bulk", "'bulk' is not a valid Method"),
        ("sprogram gemm", "sprogram other", "the task graph is of kernel gemm"),
    ],
)
def test_errors_name_the_line(tmp_path, old, new, why):
    text = print_program(gemm_hopper()).replace(old, new, 1)
    file = tmp_path / "plan.sched"
    file.write_text(text)
    with pytest.raises(CompileError) as caught:
        parse(text, gemm_hopper().graph, str(file))
    assert caught.value.slug == "bad-schedule-text"
    assert why in str(caught.value)
    assert new.split()[0] in str(caught.value) and f"{file}:" in str(caught.value)


def test_an_empty_text():
    with pytest.raises(CompileError, match="the first line must be"):
        parse("", gemm_hopper().graph)


def test_an_instruction_before_any_section():
    with pytest.raises(CompileError, match="cannot read"):
        parse("0: run loop 1", gemm_hopper().graph)
