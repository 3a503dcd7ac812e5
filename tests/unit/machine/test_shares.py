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
    assert len(shares(device("h200"), products=False)) == 4
    assert shares(device("a100"), products=False) == [device("a100")]


def test_plans_of_shares_are_proved():
    outcome = plan(softmax.tile(T=tl.bf16), {"M": 16384, "N": 4096}, "h200")
    found = {c.context.device.name: c for c in outcome.candidates}
    assert len(found) > 2
    for name, candidate in found.items():
        program = proved_program(candidate)
        assert program.device == name and check(program, device(name)) == []
