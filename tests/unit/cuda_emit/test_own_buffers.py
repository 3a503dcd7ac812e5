"""Workers that have a buffer each of one tile run the same code on them: as many slots."""

from __future__ import annotations

from dataclasses import replace

import pytest

import threadloom as tl
from threadloom.errors import CompileError
from threadloom.examples.w4_matmul import w4_matmul
from threadloom.sched.ops import AxisTile, Partition, SProgram
from threadloom.sched.search import plan
from threadloom.targets.cuda.emit import emit
from threadloom.targets.cuda.time_plan import packed_facts

KERNEL = w4_matmul.tile(T=tl.f16)
DIMS = {"M": 256, "N": 192, "K": 1024, "K_p_128_m_1_div_128": 8}
TILES = (AxisTile("m", 128, 64), AxisTile("n", 96, 96))


def planned(policy: str) -> SProgram:
    """What dequantises 96 rows of weights in each of two workers: an odd number of slots would fit."""
    only = Partition(TILES, workers=2, order=("m", "n"), group=16, persistent=True)
    return plan(KERNEL, DIMS, "h200", policy, only=only).best


def own_slots(program: SProgram) -> list[int]:
    return [b.slots for b in program.buffers if b.tile == "weights"]


@pytest.mark.parametrize("policy", ["joint", "optimal"])
def test_plans_give_every_worker_as_many_slots(policy: str):
    program = planned(policy)
    assert len(own_slots(program)) == 2 and len(set(own_slots(program))) == 1
    emit(program, packed_facts(KERNEL, DIMS), DIMS)


def test_an_edited_plan_with_other_numbers_has_no_code():
    program = planned("joint")
    buffers = [replace(b, slots=b.slots + 1) if b.name == "weights.worker0" else b for b in program.buffers]
    with pytest.raises(CompileError, match="different numbers of slots"):
        emit(replace(program, buffers=tuple(buffers)), packed_facts(KERNEL, DIMS), DIMS)
