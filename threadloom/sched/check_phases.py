"""Ring signals: counts are what the program gives, and one phase bit is enough to tell the phases apart.

For an entry with phases 0, 1, 2 ...: an arrival meant for phase k comes after phase k-1 is complete, else it is counted
there; a wait for phase k begins after phase k-1 is complete (else the bit of phase k-2 lets it pass) and returns before
phase k+1 can complete (else it lags two phases behind and hangs, or takes the phase after).
"""

from __future__ import annotations

from threadloom.sched.check_findings import Finding, Findings, along
from threadloom.sched.check_order import Contribution, Entry, Order, RingWait
from threadloom.sched.ops import Arrive, Issue, Signal, Wait


def check_counts(order: Order, signals: dict[str, Signal], findings: Findings, trips: str) -> None:
    """Every phase that gets anything gets exactly the signal's arrivals and bytes."""
    for entry, given in order.contributions.items():
        signal = signals[entry.signal]
        arrivals, bytes_ = sum(c.arrivals for c in given), sum(c.bytes for c in given)
        if arrivals != signal.arrivals:
            who = ", ".join(sorted({c.step.role for c in given if c.arrivals}))
            message = f"{entry} gets {arrivals} arrivals (from {who}), the signal says {signal.arrivals}"
            findings.add(_about(given, "wrong-arrivals", message), trips)
        if bytes_ != signal.bytes:
            message = f"{entry} gets {bytes_} bytes, the signal says {signal.bytes}"
            findings.add(_about(given, "wrong-bytes", message), trips)


def _about(given: list[Contribution], slug: str, message: str) -> Finding:
    step = given[0].step
    if isinstance(step.instr, Arrive):
        return along(step.instr.reason, slug, message, step.role, step.running)
    assert isinstance(step.instr, Issue)
    return Finding(slug, message, step.instr.task, "", step.instr.completes, step.role, step.running)


def check_phases(order: Order, findings: Findings, trips: str) -> None:
    for entry, given in order.contributions.items():
        if entry.phase > 0:
            _check_arrivals(order, entry, given, findings, trips)
    for wait in order.waits:
        _check_wait(order, wait, findings, trips)


def _check_arrivals(order: Order, entry: Entry, given: list[Contribution], findings: Findings, trips: str) -> None:
    previous = order.phases.get(entry.moved(-1))
    for c in given:
        if previous is None or not order.before(previous, c.gate):
            where = f"{entry.signal}[{entry.entry}]"
            message = f"{c.step} may count at {where} while phase {entry.phase - 1} is not complete"
            findings.add(_about([c], "early-arrival", message), trips)


def _check_wait(order: Order, wait: RingWait, findings: Findings, trips: str) -> None:
    assert isinstance(wait.step.instr, Wait)
    reason, entry = wait.step.instr.reason, wait.entry
    role, instance, where = wait.step.role, wait.step.running, f"{entry.signal}[{entry.entry}]"
    previous, following = order.phases.get(entry.moved(-1)), order.phases.get(entry.moved(+1))
    if entry.phase > 0 and (previous is None or not order.before(previous, wait.before)):
        message = (
            f"{wait.step} may begin before phase {entry.phase - 1} of {where} is complete; "
            f"the bit of phase {entry.phase - 2} lets it pass"
        )
        findings.add(along(reason, "wait-runs-ahead", message, role, instance), trips)
    if following is not None and not order.before(wait.node, following):
        message = (
            f"{wait.step} may still wait for phase {entry.phase} of {where} when phase "
            f"{entry.phase + 1} completes: it lags two phases behind"
        )
        findings.add(along(reason, "wait-lags-behind", message, role, instance), trips)
