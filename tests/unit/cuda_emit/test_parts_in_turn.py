"""Workers that change parts of their tiles from head to head, because a mask leaves one of them more to do."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache

import numpy as np
import pytest

from threadloom.examples import chunk_scan
from threadloom.sched.ops import AxisTile, Partition, SProgram
from threadloom.sched.parts_in_turn import loop_of_turns
from threadloom.sched.search import plan
from threadloom.sched.text import parse, print_program
from threadloom.targets.cuda import nvrtc
from threadloom.targets.cuda.emit import emit
from threadloom.targets.cuda.time_plan import packed_facts

SHAPE = {"B": 1, "C": 4, "L": 256, "H": 8, "P": 64, "N": 128, "G": 1}


@lru_cache
def planned(workers: int = 2) -> tuple[SProgram, object]:
    call = chunk_scan.chunk_scan.bind(**chunk_scan.inputs(np.random.default_rng(0), **SHAPE, dtype=np.float16))
    rows = 64 * workers
    tiles = (AxisTile("m", rows, 64), AxisTile("p", 64, 64), AxisTile("k", 128, 128), AxisTile("h", 8, 8))
    order = ("m", "b", "chunk", "h", "p")
    only = Partition(tiles, ("h",), order, 1, 1, workers, 1, persistent=True, longest_first=True)
    return plan(call.kernel, call.dims, "h200", only=only).best, call


@pytest.mark.slow
def test_the_decision_is_the_plans_and_is_read_back():
    program, _ = planned()
    walk = next(loop.id for loop in program.graph.loops if [a.axis.name for a in loop.axes] == ["h"])
    assert ("parts_in_turn", str(walk)) in program.decisions
    assert parse(print_program(program), program.graph) == program
    assert "parts_in_turn" not in dict(planned(1)[0].decisions)


@pytest.mark.slow
@pytest.mark.parametrize(
    "change",
    [dict(workers=1), dict(workers=3), dict(longest_first=False), dict(sequential=()), dict(begins_ahead=True)],
    ids=str,
)
def test_not_for_other_plans(change):
    program, _ = planned()
    assert loop_of_turns(program.graph, program.partition) is not None
    assert loop_of_turns(program.graph, replace(program.partition, **change)) is None


def test_nothing_that_lives_on_is_cut():
    """What a loop around the walk carries from head to head belongs to one worker's rows."""
    program, _ = planned()
    walk = loop_of_turns(program.graph, program.partition)
    made = next(t for t in program.graph.tiles if t.carried is not None and "m" in t.type.axes)
    for loop in (0, walk):
        tiles = tuple(replace(t, carried=loop) if t is made else t for t in program.graph.tiles)
        assert loop_of_turns(replace(program.graph, tiles=tiles), program.partition) is None


def test_positions_follow_the_part_and_barriers_the_worker():
    program, call = planned()
    source = emit(program, packed_facts(call.kernel, call.dims), call.dims)
    worker = source.text[source.text.index("// worker0, worker1") :]
    part = worker.index("const i32 part = worker ^ ((")
    inside = worker[part:]
    assert "worker * 64" not in inside and "part * 64" in inside and "m_mine_2" in inside
    assert re.search(r"\bm_mine\b", inside) is None
    assert "smem_c_desc = descriptor_k_major(smem_c + (part * 64) * 128)" in inside
    (staged,) = set(re.findall(r"bulk_store\(&map_store_out, (staged_\w+) \+", inside))
    assert f"const u32 {staged} = worker == 0 ?" in worker[:part]
    cubin = nvrtc.compile_source(source.text, "sm_90a")
    assert cubin.spill_bytes == 0 and not cubin.serialised
