"""Devices with several blocks on an EU."""

from __future__ import annotations

import pytest

import threadloom as tl
from threadloom.examples.softmax import softmax
from threadloom.machine.devices import device
from threadloom.machine.shares import shares
from threadloom.sched.check import check
from threadloom.sched.search import plan, proved_program


@pytest.mark.parametrize("parts", [2, 3, 4])
def test_blocks_share_what_an_sm_has(parts):
    whole, part = device("h200"), device(f"h200/{parts}")
    assert part.eu_count == parts * whole.eu_count and part.max_worker_roles == 1
    entry = 65536 // (256 * parts) // 8 * 8  # registers that ptxas gives each of 256 threads
    assert part.fact("worker_regs_1") + part.fact("producer_regs") <= 2 * entry  # else it hangs
    assert parts * (part.memory("smem").capacity_bytes.value + 1024) <= 228 * 1024
    for unit, shared in zip(whole.seus, part.seus, strict=True):
        assert [r.per_cycle.value for r in unit.rates] == [parts * r.per_cycle.value for r in shared.rates]


def test_products_are_shared_by_two_blocks_at_most():
    assert [d.name for d in shares(device("h200"), products=True)] == ["h200", "h200/2"]
    assert len([d for d in shares(device("h200"), products=False) if d.fact("producer_regs")]) >= 4
    assert not any(d.name.endswith("-direct") for d in shares(device("h200"), products=False, loops=True))
    assert shares(device("a100"), products=False) == [device("a100")]


def test_plans_of_shares_are_proved():
    outcome = plan(softmax.tile(T=tl.bf16), {"M": 16384, "N": 4096}, "h200")
    found = {c.context.device.name: c for c in outcome.candidates}
    assert len(found) > 2
    for name, candidate in found.items():
        program = proved_program(candidate)
        assert program.device == name and check(program, device(name)) == []


@pytest.mark.parametrize("blocks", [3, 6])
def test_blocks_that_load_themselves_have_no_producer(blocks):
    part = device(f"h200/{blocks}-direct")
    assert part.eu_count == blocks * device("h200").eu_count
    assert part.fact("worker_regs_1") * 128 * blocks <= 65536
    dims = {"M": 1000, "N": 4096}
    program = plan(softmax.tile(T=tl.bf16), dims, part).best
    assert [r.kind for r in program.roles] == ["worker"] and not program.partition.persistent
    assert all(b.space == "reg" for b in program.buffers) and check(program, part) == []


def test_rows_are_loaded_straight_into_registers_where_that_is_predicted_to_be_faster():
    outcome = plan(softmax.tile(T=tl.bf16), {"M": 16384, "N": 4096}, "h200")
    assert outcome.best.device.endswith("-direct")
