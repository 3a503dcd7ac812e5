"""Code by which a worker begins the next tile's run of a loop in the last pass of this one (`Inner.ahead`).

    epilogue of this tile                       prologue of the next
      const i32 next_tile = ...;                  if (!begun) {  what was not done ahead
      begun = next_tile < tiles;                    ...
      if (begun) { waits of the next tile }       }
      its first product                           the rest
      this tile's last product ...

The product is issued whether or not there is a next tile: of what lies in its operands' slots, and nobody reads the
result. A product in a branch that is left while it runs would make ptxas serialise all products of the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from threadloom.sched.ops import Fence, Inner, Instr, Issue, Section
from threadloom.targets.cuda import issue
from threadloom.targets.cuda.unsupported import no_code
from threadloom.task.ops import Loop

if TYPE_CHECKING:
    from threadloom.targets.cuda.section import RoleEmitter


def begins_ahead(section: Section) -> Inner | None:
    """The instruction by which a tile begins the next tile's run of an inner loop."""
    return next((i for i in section.instrs if isinstance(i, Inner) and i.ahead + i.early), None)


def begin_next_tile(e: RoleEmitter, inner: Inner) -> None:
    """Find out whether there is a next tile whose run has an instance, and do what stands before that run."""
    w, loop, outer = e.scope.writer, e.plan.loop(inner.loop), e.section(0)
    following = e.scope.fresh("next_tile")
    w.line(f"const i32 {following} = {e.next_tile};")
    w.line(f"{e.begun} = {following} < tiles;")
    _declare_next_slots(e)
    at = outer.instrs.index(inner)
    early = outer.instrs[at - inner.early : at]
    bounded = any((a.start, a.stop) != (None, None) for a in loop.axes)
    placed = bounded or any(isinstance(i, Issue) for i in early)
    with w.block(f"if ({e.begun})"), _at_tile(e, following) if placed else nullcontext():
        count = e.places.enter_loop(loop) if placed else ""
        if bounded:
            w.line(f"{e.begun} = {count} > 0;")
        with w.block(f"if ({e.begun})") if bounded else nullcontext():
            e.expected.clear()
            with _next_slots(e):
                for instr in early:
                    e.instruction(e.plan.loop(0), instr, outer.instrs)
            if e.role.kind == "producer":
                _load_next(e, loop, inner.ahead)


def _load_next(e: RoleEmitter, loop: Loop, ahead: int) -> None:
    """The first `ahead` instructions of the loop, loads and their waits, for the first instance of the next run."""
    e.places.enter_instance(loop, "0", 0)
    e.scope.places = e.places.at(0)
    issue.emit_scalars(e, loop.id)
    e.expected.clear()
    instrs = e.section(loop.id).instrs
    for instr in instrs[:ahead]:
        e.instruction(loop, instr, instrs)


def begin_next(e: RoleEmitter, loop: Loop, instr: Instr, instrs: tuple[Instr, ...]) -> None:
    """One of the loop's leading instructions, for the first instance of the next tile's run. A producer's loads have
    been issued by `begin_next_tile`, where their places are known."""
    if e.role.kind == "producer":
        return
    if isinstance(instr, Issue):
        with _next_slots(e):
            e.instruction(loop, instr, instrs)
        e.begun_groups += 1
        e.begun_results += [home.name for v in e.plan.task(instr.task).writes if (home := e.homes.of(v)) is not None]
    elif not isinstance(instr, Fence):  # of registers: every product begins with its own
        with e.scope.writer.block(f"if ({e.begun})"):
            e.instruction(loop, instr, instrs)


def end_of_tile(e: RoleEmitter) -> None:
    """Wait for what was begun ahead: with products in flight from one tile to the next, ptxas takes any use of an
    accumulator for one of theirs and serialises all products (C7514)."""
    if e.begun_groups:
        e.scope.writer.line("mma_wait<0>();  // the next tile's products; this tile's end ran beside them")
        for name in e.begun_results:
            e.scope.writer.line(f"pin({name});")
    e.begun_groups = 0
    e.begun_results.clear()


@contextmanager
def _next_slots(e: RoleEmitter) -> Iterator[None]:
    """While code is written that uses the next tile's slots of what loop 0 makes."""
    outside = dict(e.rings)
    for (loop, slots, stage), name in outside.items():
        if loop == 0 and slots > 1:
            e.rings[loop, slots, stage] = f"next_{name}"
    yield
    e.rings.clear()
    e.rings.update(outside)


def _declare_next_slots(e: RoleEmitter) -> None:
    """The counters that `_next_slots` names, one tile further on than those of loop 0. Not before they are needed: they
    would take registers from the loop."""
    for (loop, slots, _), name in e.rings.items():
        if loop == 0 and slots > 1:
            e.scope.writer.line(f"Ring<{slots}> next_{name} = {name};")
            e.scope.writer.line(f"next_{name}.advance();")


@contextmanager
def _at_tile(e: RoleEmitter, tile: str) -> Iterator[None]:
    """In a block for another tile of the grid: its places, and scalars of loop 0 that depend on them."""
    places, scope, outer = e.places, e.scope, e.plan.loop(0)
    if any((a.start, a.stop) != (None, None) for a in outer.axes):
        raise no_code("a grid with bounds", "its tiles are not known ahead", outer.axes[0].axis.loc)
    outside = places.grid, places.loops, places.around, dict(places.starts), dict(places.stops), dict(places.trips)
    registers, names, ready = dict(scope.registers), set(scope.names), e.ready
    e.ready = set()
    places.enter_tile(outer, tile, lambda: issue.emit_ready_scalars(e, 0))
    scope.places = places.at(0)
    issue.emit_scalars(e, 0)
    yield
    places.grid, places.loops, places.around, places.starts, places.stops, places.trips = outside
    scope.registers, e.ready = registers, ready
    scope.names.clear()
    scope.names.update(names)
