"""Where the threads of the block must meet: block-wide barriers of each loop's section.

Copies land in shared memory for the thread that issued them when its wait returns, and for the others after a barrier;
a slot may be written again when all threads have read what was there. A barrier stands

- after the last of a row of waits;
- before a copy into a slot whose last content some thread may still be reading.

Passes of a pipelined loop execute all barriers, whatever stages are active, so a barrier in the body lies between any
instruction of one pass and the same instruction of the next one. Barriers of inner loops do not count: those may run no
pass at all. What threads write themselves (vector results, element-wise fills) is surrounded by barriers of its own.
"""

from __future__ import annotations

from threadloom.sched.ops import Inner, Instr, Issue, Section, Wait
from threadloom.targets.cuda.sm80.plan import AmperePlan
from threadloom.task.ops import Kind


def barriers_of(plan: AmperePlan, section: Section) -> tuple[frozenset[int], frozenset[int]]:
    """(positions before which there is a barrier, positions after which there is one) in the section's list."""
    instrs = section.instrs
    after = {k for k, i in enumerate(instrs) if isinstance(i, Wait) and not _is_wait(instrs, k + 1)}
    before: set[int] = set()
    reads = [(k, i.stage, _reads(plan, i)) for k, i in enumerate(instrs)]
    for k, instr in enumerate(instrs):
        for value in _copied(plan, instr):
            if k not in before and _must_meet(plan, section, k, instr, value, reads, before, after):
                before.add(k)
    return frozenset(before), frozenset(after)


def _is_wait(instrs: tuple[Instr, ...], k: int) -> bool:
    return k < len(instrs) and isinstance(instrs[k], Wait)


def _copied(plan: AmperePlan, instr: Instr) -> list[str]:
    """Values in shared memory that the instruction loads."""
    if not isinstance(instr, Issue) or plan.task(instr.task).kind not in (Kind.LOAD, Kind.GATHER):
        return []
    return [v for v in plan.task(instr.task).writes if _is_shared(plan, v)]


def _is_shared(plan: AmperePlan, value: str) -> bool:
    return bool(plan.tiles.of(value)) and plan.shared_tile(value) is not None


def _reads(plan: AmperePlan, instr: Instr) -> frozenset[str]:
    """Tiles in shared memory that the instruction reads, with all that happens in an inner loop."""
    if isinstance(instr, Inner):
        inner = [s for s in plan.program.sections if s.loop == instr.loop]
        return frozenset(t for s in inner for i in s.instrs for t in _reads(plan, i))
    if not isinstance(instr, Issue):
        return frozenset()
    return frozenset(plan.tiles.of(v) for v in plan.task(instr.task).reads if _is_shared(plan, v))


def _must_meet(
    plan: AmperePlan,
    section: Section,
    at: int,
    instr: Issue,
    value: str,
    reads: list[tuple[int, int, frozenset[str]]],
    before: set[int],
    after: set[int],
) -> bool:
    """Whether some thread may still read the slot when another issues the copy at position `at`."""
    tile, slots = plan.tiles.of(value), plan.shared_tile(value).slots
    readers = [(k, stage) for k, stage, read in reads if tile in read]
    everywhere = {t.name for t in plan.tasks.values() if any(plan.tiles.of(v) == tile for v in t.reads)}
    if plan.home_loop(value) != section.loop or everywhere - _read_in(plan, section.loop):
        return True

    def barrier_between(low: float, high: float) -> bool:
        """Whether one stands after position `low` and before `high`; positions are those of instructions."""
        return any(low < b - 0.5 < high for b in before) or any(low < a + 0.5 < high for a in after)

    for k, stage in readers:
        passes = slots + instr.stage - stage  # from the pass that reads the old content to the one that copies
        if passes >= 2 and (before or after):
            continue
        if passes == 1 and (barrier_between(k, len(section.instrs)) or barrier_between(-1, at)):
            continue
        if passes <= 0 and barrier_between(k, at):
            continue
        return True
    return False


def _read_in(plan: AmperePlan, loop: int) -> set[str]:
    """sTasks issued in `loop` and in the loops inside it."""
    found: set[str] = set()
    for s in plan.program.sections:
        if s.loop == loop:
            found |= {i.task for i in s.instrs if isinstance(i, Issue)}
            for i in s.instrs:
                if isinstance(i, Inner):
                    found |= _read_in(plan, i.loop)
    return found
