"""The checker: proves an sProgram right for every trip count and every completion order, or says what is wrong.

Needs: an SProgram and the Device it was made for. Shares no code with the policies.
Proved, by happens-before (`check_order.py`): no deadlock; phases and counts of ring signals (`check_phases.py`); every
read gets the content it means, no slot is overwritten while it is used, proxy fences, nothing in flight at the end
(`check_data.py`); names, units, memory (`check_static.py`); multicast loads are
common to a cluster (`check_clusters.py`); that the two programs of a split reduction fit together
(`check_parts.py`; the second is proved like the first). `check_trips.py` says why the trip counts tried stand for
all.
Not handled: values that depend on data-dependent guards are taken as always written; memory outside the EU.
Source: DESIGN.md "checker"; PipeThreader (OSDI'25) section 5 has `check_valid` for capacity only.
"""

from __future__ import annotations

from threadloom.errors import CompileError, slug
from threadloom.machine.devices import device as device_named
from threadloom.machine.model import Device
from threadloom.sched.check_data import DataChecker, check_exit, check_issued
from threadloom.sched.check_findings import Finding, Findings
from threadloom.sched.check_order import Order, OrderBuilder, check_progress
from threadloom.sched.check_parts import check_parts
from threadloom.sched.check_phases import check_counts, check_phases
from threadloom.sched.check_static import check_static
from threadloom.sched.check_trips import trip_cases
from threadloom.sched.ops import SProgram
from threadloom.sched.semantics import Places, Reference, Trips, streams

REFUSED = slug("schedule-refused", "the checker found that a schedule could deadlock or compute a wrong value")


def check(program: SProgram, device: Device | None = None, *, first_only: bool = True) -> list[Finding]:
    """The findings of the smallest trip counts that show any (of all, if not `first_only`); [] is a proof."""
    device = device or device_named(program.device)
    findings = check_static(program, device)
    check_parts(program, findings)
    if findings:
        return findings.list()
    places = Places(program)
    for trips in trip_cases(program):
        check_execution(program, device, trips, findings, places)
        if findings and first_only:
            return findings.list()
    if (after := program.combine) is None:
        return findings.list()
    same = device if after.device == program.device else None
    return [*findings.list(), *check(after, same, first_only=first_only)]


def check_execution(
    program: SProgram, device: Device, trips: Trips, findings: Findings, places: Places
) -> tuple[Order, DataChecker]:
    """Check the executions with these trip counts; gives the order of events and the demands that were checked on it.
    `places`: of the program."""
    text, eus = str(trips), cluster_eus(program)
    builder = OrderBuilder(program, device, streams(program, trips, eus), places)
    order = builder.build()
    check_counts(order, builder.signals, findings, text)
    proceeds = check_progress(order, builder.signals, findings, text)
    checker = DataChecker(program, order, Reference(program, trips, places), eus, findings, text)
    if proceeds:
        check_phases(order, findings, text)
        checker.check()
        check_issued(checker)
        check_exit(order, findings, text)
    return order, checker


def cluster_eus(program: SProgram) -> int:
    """How many EUs must be looked at together: those of a cluster if they share a buffer."""
    return program.partition.cluster if any(b.multicast > 1 for b in program.buffers) else 1


def refuse_unproved(program: SProgram, device: Device | None = None) -> None:
    """Raise where the checker finds anything; for plans that a user wrote or edited."""
    if found := check(program, device):
        raise CompileError(
            REFUSED,
            f"the schedule of {program.graph.kernel.name} is not safe: {found[0]}",
            why=f"{len(found)} finding(s) by the checker",
            try_="mend the schedule, or let a policy make it",
        )
