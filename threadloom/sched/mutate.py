"""Mutation of sPrograms: every way in which a schedule's synchronisation is typically wrong, at every place of a plan.

An operator takes a program to its mutants. The checker must refuse each of them and name what breaks; a mutant that it
accepts must be one that computes the same: `survivors.py` computes why (a wait that other waits imply, a slot more than
is needed), and the simulator must find nothing against it either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from threadloom.machine.model import GROUPS, Completion
from threadloom.sched.ops import (
    Arrive,
    Buffer,
    Fence,
    Inner,
    Instr,
    Issue,
    Section,
    Signal,
    SProgram,
    Wait,
    Why,
)
from threadloom.sched.semantics import describe


@dataclass(frozen=True, slots=True)
class Mutant:
    """`program` after `operator` at `site`; src -> dst over `buffer`: the edge that the changed instruction serves."""

    operator: str
    site: str
    program: SProgram
    buffer: str = ""
    src: str = ""
    dst: str = ""

    def __str__(self) -> str:
        return f"{self.operator} at {self.site}"


Operator = Callable[[SProgram], Iterator[Mutant]]
OPERATORS: dict[str, Operator] = {}


def operator(make: Operator) -> Operator:
    """Register an operator under its name."""
    OPERATORS[make.__name__.replace("_", "-")] = make
    return make


def mutants(program: SProgram) -> Iterator[Mutant]:
    """All mutants of all operators."""
    for make in OPERATORS.values():
        yield from make(program)
    if program.combine is not None:
        from threadloom.sched.mutate_parts import part_mutants

        yield from part_mutants(program)


# ---------------------------------------------------------------- editing


@dataclass(frozen=True, slots=True)
class _Site:
    """Instruction number `at` of section number `number`."""

    number: int
    at: int
    section: Section
    instr: Instr

    def __str__(self) -> str:
        section = self.section
        return f"loop {section.loop}, {section.role}, instruction {self.at} ({describe(self.instr)})"


def _sites(program: SProgram, *kinds: type[Instr]) -> Iterator[_Site]:
    for number, section in enumerate(program.sections):
        for at, instr in enumerate(section.instrs):
            if isinstance(instr, kinds):
                yield _Site(number, at, section, instr)


def _with(program: SProgram, site: _Site, instrs: list[Instr]) -> SProgram:
    sections = list(program.sections)
    sections[site.number] = replace(site.section, instrs=tuple(instrs))
    return replace(program, sections=tuple(sections))


def _mutant(operator: str, program: SProgram, site: _Site, instrs: list[Instr]) -> Mutant:
    made = Mutant(operator, str(site), _with(program, site, instrs))
    match site.instr:
        case Wait(reason=reason) | Arrive(reason=reason) | Fence(reason=reason):
            return replace(made, buffer=reason.buffer, src=reason.src, dst=reason.dst)
    return made


def _replaced(operator: str, program: SProgram, site: _Site, instr: Instr) -> Mutant:
    instrs = list(site.section.instrs)
    instrs[site.at] = instr
    return _mutant(operator, program, site, instrs)


def _dropped(operator: str, program: SProgram, site: _Site) -> Mutant:
    instrs = list(site.section.instrs)
    del instrs[site.at]
    return _mutant(operator, program, site, instrs)


def _moved(operator: str, program: SProgram, site: _Site, to: int) -> Mutant:
    instrs = list(site.section.instrs)
    instr = instrs.pop(site.at)
    instrs.insert(to, instr)
    return _mutant(operator, program, site, instrs)


def _signals(program: SProgram) -> dict[str, Signal]:
    return {signal.name: signal for signal in program.signals}


# ---------------------------------------------------------------- waits


@operator
def drop_wait(program: SProgram) -> Iterator[Mutant]:
    for site in _sites(program, Wait):
        yield _dropped("drop-wait", program, site)


@operator
def late_wait(program: SProgram) -> Iterator[Mutant]:
    """The wait comes after the next task, arrival or inner loop instead of before it."""
    for site in _sites(program, Wait):
        rest = site.section.instrs[site.at + 1 :]
        step = next((n for n, i in enumerate(rest) if isinstance(i, Issue | Arrive | Inner)), None)
        if step is not None:
            yield _moved("late-wait", program, site, site.at + 1 + step)


@operator
def last_wait(program: SProgram) -> Iterator[Mutant]:
    """The wait comes at the end of its section."""
    for site in _sites(program, Wait):
        if site.at + 1 < len(site.section.instrs):
            yield _moved("last-wait", program, site, len(site.section.instrs) - 1)


@operator
def more_pending(program: SProgram) -> Iterator[Mutant]:
    signals = _signals(program)
    for site in _sites(program, Wait):
        if signals[site.instr.signal].kind in GROUPS:
            yield _replaced("more-pending", program, site, replace(site.instr, pending=site.instr.pending + 1))


@operator
def wrong_phase(program: SProgram) -> Iterator[Mutant]:
    """A wait for a value takes the phase of a free slot, and the reverse: the phase bit is turned."""
    signals = _signals(program)
    for site in _sites(program, Wait):
        if signals[site.instr.signal].kind in GROUPS:
            continue
        reason = site.instr.reason
        why = Why.DEPENDENCE if reason.why is Why.SLOT_FREE else Why.SLOT_FREE
        turned = replace(reason, why=why, distance=0 if why is Why.DEPENDENCE else reason.distance)
        yield _replaced("wrong-phase", program, site, replace(site.instr, reason=turned))


@operator
def wrong_distance(program: SProgram) -> Iterator[Mutant]:
    signals = _signals(program)
    for site in _sites(program, Wait):
        reason = site.instr.reason
        if signals[site.instr.signal].kind in GROUPS or reason.why is Why.SLOT_FREE:
            continue
        for distance in (reason.distance - 1, reason.distance + 1):
            if distance >= 0:
                changed = replace(site.instr, reason=replace(reason, distance=distance))
                yield _replaced("wrong-distance", program, site, changed)


@operator
def wrong_signal(program: SProgram) -> Iterator[Mutant]:
    """The wait is for another signal of the same kind."""
    signals = _signals(program)
    for site in _sites(program, Wait):
        kind = signals[site.instr.signal].kind
        others = [s.name for s in program.signals if s.kind is kind and s.name != site.instr.signal]
        for other in others[:2]:
            yield _replaced("wrong-signal", program, site, replace(site.instr, signal=other))


# ---------------------------------------------------------------- arrivals and fences


@operator
def drop_arrive(program: SProgram) -> Iterator[Mutant]:
    for site in _sites(program, Arrive):
        yield _dropped("drop-arrive", program, site)


@operator
def early_arrive(program: SProgram) -> Iterator[Mutant]:
    """The slot is released, or the turn given, before the instruction that should come first."""
    for site in _sites(program, Arrive):
        before = site.section.instrs[: site.at]
        step = next((n for n in range(len(before) - 1, -1, -1) if isinstance(before[n], Issue | Wait | Inner)), None)
        if step is not None:
            yield _moved("early-arrive", program, site, step)


@operator
def first_arrive(program: SProgram) -> Iterator[Mutant]:
    for site in _sites(program, Arrive):
        if site.at > 0:
            yield _moved("first-arrive", program, site, 0)


@operator
def drop_fence(program: SProgram) -> Iterator[Mutant]:
    for site in _sites(program, Fence):
        yield _dropped("drop-fence", program, site)


@operator
def early_fence(program: SProgram) -> Iterator[Mutant]:
    """The fence comes before the write that it should follow."""
    for site in _sites(program, Fence):
        before = site.section.instrs[: site.at]
        step = next((n for n in range(len(before) - 1, -1, -1) if isinstance(before[n], Issue | Inner)), None)
        if step is not None:
            yield _moved("early-fence", program, site, step)


@operator
def turned_fence(program: SProgram) -> Iterator[Mutant]:
    for site in _sites(program, Fence):
        fence = site.instr
        yield _replaced("turned-fence", program, site, replace(fence, before=fence.after, after=fence.before))


# ---------------------------------------------------------------- stages, order, tasks


@operator
def wrong_stage(program: SProgram) -> Iterator[Mutant]:
    stages = {plan.loop: plan.stages for plan in program.loops}
    for site in _sites(program, Wait, Arrive, Fence, Issue):
        for stage in (site.instr.stage - 1, site.instr.stage + 1):
            if 0 <= stage < stages.get(site.section.loop, 1):
                yield _replaced("wrong-stage", program, site, replace(site.instr, stage=stage))


@operator
def swap_order(program: SProgram) -> Iterator[Mutant]:
    """Two neighbours change places."""
    for site in _sites(program, Wait, Arrive, Fence, Issue, Inner):
        if site.at + 1 < len(site.section.instrs):
            yield _moved("swap-order", program, site, site.at + 1)


@operator
def drop_issue(program: SProgram) -> Iterator[Mutant]:
    for site in _sites(program, Issue):
        yield _dropped("drop-issue", program, site)


@operator
def wrong_completion(program: SProgram) -> Iterator[Mutant]:
    """A task completes at another signal of the same kind."""
    signals = _signals(program)
    for site in _sites(program, Issue):
        own = signals.get(site.instr.completes)
        if own is not None:
            for other in [s.name for s in program.signals if s.kind is own.kind and s.name != own.name][:2]:
                yield _replaced("wrong-completion", program, site, replace(site.instr, completes=other))


# ---------------------------------------------------------------- buffers and signals


@operator
def fewer_slots(program: SProgram) -> Iterator[Mutant]:
    """A buffer has one slot less than its ring signals have entries."""
    for at, buffer in enumerate(program.buffers):
        if buffer.slots > 1:
            buffers = list(program.buffers)
            buffers[at] = replace(buffer, slots=buffer.slots - 1)
            yield _buffer_mutant("fewer-slots", program, buffers, buffer.name)


@operator
def longer_ring(program: SProgram) -> Iterator[Mutant]:
    """A ring signal has one entry more than its buffer has slots."""
    yield from _changed_signals(program, "longer-ring", lambda s: [replace(s, slots=s.slots + 1)])


@operator
def wrong_arrivals(program: SProgram) -> Iterator[Mutant]:
    def change(signal: Signal) -> list[Signal]:
        return [replace(signal, arrivals=n) for n in (signal.arrivals - 1, signal.arrivals + 1) if n >= 0]

    yield from _changed_signals(program, "wrong-arrivals", change)


@operator
def wrong_bytes(program: SProgram) -> Iterator[Mutant]:
    def change(signal: Signal) -> list[Signal]:
        return [replace(signal, bytes=n) for n in (signal.bytes - 16, signal.bytes + 16) if n >= 0]

    yield from _changed_signals(program, "wrong-bytes", change)


@operator
def no_multicast(program: SProgram) -> Iterator[Mutant]:
    """One EU loads for itself what the others count on."""
    for at, buffer in enumerate(program.buffers):
        if buffer.multicast > 1:
            buffers = list(program.buffers)
            buffers[at] = replace(buffer, multicast=1)
            yield _buffer_mutant("no-multicast", program, buffers, buffer.name)


@operator
def own_arrive(program: SProgram) -> Iterator[Mutant]:
    """A slot that a cluster fills is released in the role's own EU only."""
    together = {b.name for b in program.buffers if b.multicast > 1}
    for site in _sites(program, Arrive):
        reason = site.instr.reason
        if reason.buffer in together:
            yield _replaced("own-arrive", program, site, replace(site.instr, reason=replace(reason, buffer="")))


@operator
def wrong_mask(program: SProgram) -> Iterator[Mutant]:
    """A buffer is loaded for fewer or more EUs than the cluster has."""
    for at, buffer in enumerate(program.buffers):
        for count in (buffer.multicast // 2, 2 * buffer.multicast) if buffer.multicast > 1 else ():
            if count > 1:
                buffers = list(program.buffers)
                buffers[at] = replace(buffer, multicast=count)
                yield _buffer_mutant("wrong-mask", program, buffers, buffer.name)


@operator
def multicast_own(program: SProgram) -> Iterator[Mutant]:
    """What differs from EU to EU is loaded together, with all arrivals as they would have to be."""
    cluster = program.partition.cluster
    loaded = {i.completes for s in program.sections for i in s.instrs if isinstance(i, Issue)}
    released = {}
    for site in _sites(program, Arrive):
        released.setdefault(site.instr.reason.buffer, set()).add(site.instr.signal)
    for at, buffer in enumerate(program.buffers):
        if cluster > 1 and buffer.multicast == 1 and not buffer.role and f"full.{buffer.name}" in loaded:
            buffers, wider = list(program.buffers), released.get(buffer.name, set())
            buffers[at] = replace(buffer, multicast=cluster)
            signals = tuple(
                replace(s, arrivals=s.arrivals * cluster) if s.name in wider else s for s in program.signals
            )
            yield _buffer_mutant("multicast-own", replace(program, signals=signals), buffers, buffer.name)


def _changed_signals(program: SProgram, name: str, change: Callable[[Signal], list[Signal]]) -> Iterator[Mutant]:
    for at, signal in enumerate(program.signals):
        if signal.kind is not Completion.MBARRIER:
            continue
        for changed in change(signal):
            signals = list(program.signals)
            signals[at] = changed
            text = f"signal {signal.name}: slots {changed.slots}, arrivals {changed.arrivals}, bytes {changed.bytes}"
            yield Mutant(name, text, replace(program, signals=tuple(signals)))


def _buffer_mutant(name: str, program: SProgram, buffers: list[Buffer], buffer: str) -> Mutant:
    return Mutant(name, f"buffer {buffer}", replace(program, buffers=tuple(buffers)), buffer)


@operator
def claim_longer_runs(program: SProgram) -> Iterator[Mutant]:
    """A loop that fills slots for another is said to run longer than there are slots."""
    for at, made in enumerate(program.loops):
        if made.most_trips:
            for most in (made.most_trips + 1, 0):
                loops = (*program.loops[:at], replace(made, most_trips=most), *program.loops[at + 1 :])
                site = f"loop {made.loop}, at most {most or 'any number of'} trips"
                yield Mutant("claim-longer-runs", site, replace(program, loops=loops))
