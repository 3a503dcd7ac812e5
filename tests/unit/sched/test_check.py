"""The checker accepts right programs and names what is wrong with the others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from check_plans import gemm_core, gemm_hopper, gemm_ping_pong

import threadloom
from threadloom.errors import CompileError
from threadloom.sched import decisions
from threadloom.sched.check import check, refuse_unproved
from threadloom.sched.ops import Arrive, Fence, Instr, Issue, Section, SProgram, Wait
from threadloom.sched.semantics import Trips
from threadloom.sched.simulate_values import simulate_values


def edit(program: SProgram, loop: int, role: str, change) -> SProgram:
    """`program` with the instructions of one section changed."""

    def changed(section: Section) -> Section:
        if (section.loop, section.role) != (loop, role):
            return section
        return replace(section, instrs=tuple(change(section.instrs)))

    return replace(program, sections=tuple(changed(s) for s in program.sections))


def without(kind: type[Instr], **fields: object):
    def drop(instrs):
        return [i for i in instrs if not (isinstance(i, kind) and all(getattr(i, k) == v for k, v in fields.items()))]

    return drop


def slugs(program: SProgram) -> set[str]:
    return {finding.slug for finding in check(program)}


@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("lag", [0, 1])
@pytest.mark.parametrize("slots", [2, 3, 4])
def test_hopper_gemm_is_proved(slots, lag, persistent):
    assert check(gemm_hopper(slots=slots, lag=lag, persistent=persistent)) == []


def test_cluster_gemm_is_proved():
    assert check(gemm_hopper(cluster=2)) == []


def test_core_gemm_is_proved():
    assert check(gemm_core()) == []


def test_one_slot_and_a_late_release_deadlocks():
    """The producer needs the slot that the worker releases only after the next dot."""
    found = check(gemm_hopper(slots=1, lag=1))
    assert {f.slug for f in found} == {"deadlock-cycle"}
    assert "empty_a" in found[0].message and "full" in found[0].message


def test_dot_without_wait_reads_too_early():
    broken = edit(gemm_hopper(), 1, "worker0", without(Wait, signal="full"))
    finding = next(f for f in check(broken) if f.slug == "read-too-early")
    assert (finding.src, finding.dst, finding.buffer, finding.role) == ("load_a", "dot", "a", "worker0")


def test_producer_without_wait_overwrites():
    broken = edit(gemm_hopper(), 1, "producer", without(Wait))
    edges = {(f.src, f.dst, f.buffer) for f in check(broken, first_only=False) if f.slug == "overwrite"}
    assert {("dot", "load_b", "b"), ("dot", "load_a", "a")} <= edges


def test_release_before_the_matrix_unit_has_read():
    """Arriving without the group wait: the wgmma may still read the slot."""
    broken = edit(gemm_hopper(), 1, "worker1", without(Wait, signal="mma"))
    assert "overwrite" in slugs(broken)


def test_a_pending_group_too_many():
    def more(instrs):
        return [replace(i, pending=i.pending + 1) if isinstance(i, Wait) and i.signal == "mma" else i for i in instrs]

    assert "overwrite" in slugs(edit(gemm_hopper(), 1, "worker0", more))


def test_missing_fences():
    for buffer in ("acc0", "c0"):
        broken = edit(gemm_hopper(), 0, "worker0", without(Fence, buffer=buffer))
        assert [(f.slug, f.buffer) for f in check(broken)] == [("missing-fence", buffer)]


def test_a_role_that_never_arrives_deadlocks():
    broken = edit(gemm_hopper(), 1, "worker1", without(Arrive, signal="empty_a"))
    assert {"wrong-arrivals", "deadlock-missing-arrivals"} & slugs(broken)


def test_counts_of_signals():
    program = gemm_hopper()
    more = tuple(replace(s, arrivals=s.arrivals + 1) if s.name == "empty_a" else s for s in program.signals)
    fewer = tuple(replace(s, bytes=s.bytes - 16) if s.name == "full" else s for s in program.signals)
    assert "wrong-arrivals" in slugs(replace(program, signals=more))
    assert "wrong-bytes" in slugs(replace(program, signals=fewer))


def test_early_arrival():
    """The waits for empty_a keep the data of b safe too, but a worker may arrive at empty_b twice in one phase."""
    broken = edit(gemm_hopper(), 1, "producer", without(Wait, signal="empty_b"))
    assert slugs(broken) == {"early-arrival"}


def test_phase_aliasing():
    """A worker that never waits while the other one does: nothing keeps it from lagging two phases behind."""
    program = edit(gemm_hopper(), 1, "worker1", lambda instrs: [instrs[0]])
    program = edit(program, 0, "worker1", without(Issue))
    program = replace(
        program, signals=tuple(replace(s, arrivals=1) if s.kind == "mbarrier" else s for s in program.signals)
    )
    assert "wait-lags-behind" in {f.slug for f in check(program, first_only=False)}


def test_a_store_that_still_reads():
    broken = edit(gemm_hopper(), 0, "worker0", without(Wait, signal="stores"))
    finding = next(f for f in check(broken) if f.slug == "overwrite")
    assert (finding.src, finding.dst, finding.buffer) == ("store", "cast", "c0")


def test_a_task_left_out():
    broken = edit(gemm_hopper(), 0, "worker1", without(Issue, task="cast"))
    assert slugs(broken) & {"no-writer", "issued-twice", "not-issued"}


def test_registers_and_shared_memory_are_counted():
    assert slugs(gemm_hopper(slots=5)) == {"out-of-memory"}
    program = gemm_hopper()
    poor = tuple(replace(r, registers=80) if r.kind == "worker" else r for r in program.roles)
    assert slugs(replace(program, roles=poor)) == {"out-of-registers"}


def test_unknown_names_are_found():
    broken = edit(gemm_hopper(), 1, "worker0", lambda instrs: [replace(instrs[0], signal="fulll"), *instrs[1:]])
    assert slugs(broken) == {"unknown-name"}
    assert str(check(broken)[0]) == "unknown-name: there is no signal 'fulll'"


def test_refused_before_compiling():
    with pytest.raises(CompileError) as refused:
        refuse_unproved(gemm_hopper(slots=1))
    assert refused.value.slug == "schedule-refused"
    assert "deadlock" in str(refused.value)


def test_turns_on_a_shared_unit():
    """Ping-pong: worker0's first turn is free, every other one is given by the other worker."""
    assert check(gemm_ping_pong()) == []


def test_a_turn_that_nobody_gives_deadlocks():
    broken = edit(gemm_ping_pong(), 1, "worker1", without(Arrive, signal="turn0"))
    assert "deadlock-missing-arrivals" in slugs(broken)


def test_turns_that_wait_for_each_other_deadlock():
    def both_wait(instrs):
        return [replace(i, reason=replace(i.reason, distance=0)) if isinstance(i, Wait) else i for i in instrs]

    found = check(edit(gemm_ping_pong(), 1, "worker0", both_wait))
    assert {f.slug for f in found} == {"deadlock-cycle"}
    assert "turn0" in found[0].message and "turn1" in found[0].message


def test_a_turn_given_before_the_first_wait_would_be_lost():
    """Worker1 does not wait for its turn: its first arrival may come before worker0's free turn has passed."""
    broken = edit(gemm_ping_pong(), 1, "worker1", without(Wait, signal="turn1"))
    finding = next(f for f in check(broken) if f.slug == "wait-lags-behind")
    assert (finding.src, finding.dst, finding.buffer) == ("dot", "dot", "tc")
    outcome = simulate_values(broken, Trips({0: (1,), 1: (3,)}), random_ones=8)
    assert outcome.kind == "deadlock"


def test_every_decision_is_acted_on_by_a_target():
    """But for what only says how the graph was cut."""
    targets = Path(threadloom.__file__).parent / "targets"
    text = "\n".join(file.read_text() for file in targets.rglob("*.py"))
    assert [key for key in decisions.TABLE if f'"{key}"' not in text] == ["granularity"]
