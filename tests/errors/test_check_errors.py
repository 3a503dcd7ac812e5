"""What a user who writes or edits a schedule is told."""

from __future__ import annotations

from dataclasses import replace

import pytest
from check_plans import gemm_hopper

from threadloom.errors import CompileError
from threadloom.sched.check import check, refuse_unproved
from threadloom.sched.text import parse, print_program


def test_schedule_refused_names_edge_buffer_and_trip_counts():
    text = print_program(gemm_hopper())
    edited = text.replace("  0: wait full for dependence load_a -> dot over a\n", "", 1)
    with pytest.raises(CompileError) as caught:
        refuse_unproved(parse(edited, gemm_hopper().graph))
    assert caught.value.slug == "schedule-refused"
    for word in ("gemm", "dot[0] in worker0 may start before load_a[0]", "load_a -> dot over a", "loop 1: 1"):
        assert word in str(caught.value)


def test_bad_schedule_text_points_at_the_line(tmp_path):
    text = print_program(gemm_hopper()).replace("0: issue dot", "0: isue dot", 1)
    file = tmp_path / "gemm.sched"
    file.write_text(text)
    with pytest.raises(CompileError) as caught:
        parse(text, gemm_hopper().graph, str(file))
    assert caught.value.slug == "bad-schedule-text"
    assert "isue dot" in str(caught.value) and "^^^^" in str(caught.value)


def test_stages_that_a_loop_has_not_are_all_found():
    program = gemm_hopper()
    first = program.sections[1]
    broken = replace(first, instrs=tuple(replace(i, stage=7) for i in first.instrs))
    found = check(replace(program, sections=(program.sections[0], broken, *program.sections[2:])))
    assert [f.slug for f in found] == ["wrong-stage"] * 4
