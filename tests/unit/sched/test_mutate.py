"""Every mutation operator at its first site of the straight Hopper product; all sites are the slow suite's business."""

from __future__ import annotations

import pytest
from check_plans import gemm_core, gemm_hopper

from threadloom.errors import InternalError
from threadloom.machine.devices import device
from threadloom.sched.mutate import OPERATORS, Mutant, mutants
from threadloom.sched.survivors import try_mutants

H200 = device("h200")
OF_CLUSTERS = {"no-multicast", "own-arrive", "wrong-mask", "multicast-own"}


def test_operators_cover_the_kinds_of_mistakes():
    assert len(OPERATORS) >= 20
    assert {"drop-wait", "more-pending", "drop-fence", "fewer-slots", "wrong-phase", "wrong-bytes"} <= set(OPERATORS)


@pytest.mark.parametrize("name", sorted(set(OPERATORS) - OF_CLUSTERS - {"claim-longer-runs"}))
def test_mutants_are_refused_or_explained(name):
    program = gemm_hopper(slots=2, persistent=False)
    found = list(OPERATORS[name](program))
    assert found, "the operator applies nowhere"
    report = try_mutants(program, H200, found[:: max(1, len(found) // 3)])
    assert [str(s) for s in report.unexplained] == []
    assert [str(k.finding) for k in report.unnamed] == []


def test_a_lost_multicast_is_refused():
    program = gemm_hopper(slots=2, cluster=2, persistent=False)
    for name in OF_CLUSTERS - {"multicast-own"}:  # that one goes by the names that policies give
        found = list(OPERATORS[name](program))
        report = try_mutants(program, H200, found)
        assert found and len(report.killed) == len(found), name


def test_refusals_name_edge_and_buffer():
    program = gemm_hopper(slots=2, persistent=False)
    report = try_mutants(program, H200, list(OPERATORS["drop-wait"](program))[:2])
    edges = {(k.finding.src, k.finding.dst, k.finding.buffer) for k in report.killed}
    assert edges & {("load_a", "load_a", "a"), ("dot", "load_a", "a"), ("dot", "load_b", "b")}


def test_a_redundant_wait_survives_with_its_reason():
    """The loop has waited for its last product already: the wait before the epilogue is implied."""
    program = gemm_hopper(slots=2, persistent=False)
    drops = [m for m in OPERATORS["drop-wait"](program) if (m.src, m.dst) == ("dot", "cast")]
    report = try_mutants(program, H200, drops[:1])
    assert not report.killed
    assert "dot[0] in worker0 before cast[0] in worker0 (acc0) is" in report.survivors[0].argument
    assert "worker0 waits mma at 0" in report.survivors[0].argument


def test_a_serial_program_has_few_ways_to_be_wrong():
    report = try_mutants(gemm_core(), device("cpu"), mutants(gemm_core()))
    assert len(report.killed) >= 10 and not report.unexplained and not report.unnamed
    assert "swap-order" in str(report)


def test_mutants_of_a_refused_program_prove_nothing():
    broken = gemm_hopper(slots=1)
    with pytest.raises(InternalError, match="itself refused"):
        try_mutants(broken, H200, [Mutant("none", "nowhere", broken)])


@pytest.mark.slow
def test_verdicts_for_exchanged_workers_are_those_of_a_trial():
    """Workers of a straight product do the same; what is found for one stands for the other, in its own names."""
    program = gemm_hopper(slots=2, persistent=False)
    assert len([r for r in program.roles if r.kind == "worker"]) == 2
    found = [m for name in ("drop-wait", "drop-fence", "last-wait") for m in OPERATORS[name](program)]
    together, alone = try_mutants(program, H200, found), [try_mutants(program, H200, [m]) for m in found]
    said = {str(k.mutant): (k.finding.slug, k.finding.role) for k in together.killed}
    # Which fault is seen first may differ.
    assert set(said) == {str(k.mutant) for report in alone for k in report.killed}
    for mutant, (_, role) in said.items():
        for mine, other in (("worker0", "worker1"), ("worker1", "worker0")):
            assert f", {mine}," not in mutant or role != other
    assert len(together.survivors) == sum(len(report.survivors) for report in alone)
