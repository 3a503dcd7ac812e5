"""Begins a loop's next run in its last pass: the matrix unit gets the next tile's first product beside its last.

    loop 0 of a worker        loop 1 of it               the last pass of a tile does
      0: wait full.q            0: wait full.k             0: wait full.q       for the next tile
      0: run loop 1             0: issue dot_s             0: wait full.k       for its instance 0
      0: issue vector_t         1: issue dot_acc           0: issue dot_s       of its instance 0
                                0: wait tc.group           1: issue dot_acc     of this tile
                                0: issue vector_max

needs: an sProgram whose EUs do several tiles. keeps: everything else. Whether the instructions may be moved so far is
for the checker to say, and a refusal is normal (a tile with one slot for q). Not moved: products that add to a carried
accumulator, guarded ones, whatever is not needed to issue a product. Source: attention by hand (prototype study: +3 %
full, +10 % causal); here any kernel's products, decided on the sProgram.
"""

from __future__ import annotations

from dataclasses import replace

from threadloom.machine.model import Completion
from threadloom.sched.ops import Arrive, Fence, Inner, Instr, Issue, Role, Section, SProgram, Wait, Why
from threadloom.sched.semantics import Places, stages_of
from threadloom.task.ops import Kind, Method


def begin_ahead(program: SProgram) -> SProgram:
    """`program` with each role's innermost loop begun ahead, where workers issue products or a producer loads there."""
    sections = []
    for section in program.sections:
        inner = [at for at, i in enumerate(section.instrs) if isinstance(i, Inner)]
        role = next(r for r in program.roles if r.name == section.role)
        if section.loop == 0 and len(inner) == 1 and stages_of(program, 0) == 1:
            section = _with_ahead(program, section, inner[0], role)
        sections.append(section)
    return replace(program, sections=tuple(sections))


def _with_ahead(program: SProgram, section: Section, at: int, role: Role) -> Section:
    inner = section.instrs[at]
    body = next((s.instrs for s in program.sections if (s.loop, s.role) == (inner.loop, section.role)), ())
    late = any(isinstance(i, Issue) and i.stage for i in body)  # else a tile's last pass issues nothing
    if len({i.stage for i in body}) != 2 or not late or any(isinstance(i, Inner) for i in body):
        return section
    ahead, early = (_leading if role.kind == "worker" else _leading_loads)(program, body), 0
    if not any(isinstance(i, Issue) for i in body[:ahead] if i.stage == 0):
        return section
    while early < at and _may_be_early(program, section.instrs[at - early - 1]):
        early += 1
    instrs = list(section.instrs)
    instrs[at] = replace(inner, ahead=ahead, early=early)
    return replace(section, instrs=tuple(instrs))


def _may_be_early(program: SProgram, instr: Instr) -> bool:
    """Waits, and loads by a copy engine."""
    guarded = isinstance(instr, Issue) and any(g.task == instr.task for g in program.graph.guards)
    load = isinstance(instr, Issue) and instr.method is Method.BULK_COPY and not guarded
    return load or _is_ring_wait(program, instr)


def _leading_loads(program: SProgram, body: tuple[Instr, ...]) -> int:
    """How many instructions from the first on are loads of stage 0 and their waits."""
    fits = (i.stage == 0 and _may_be_early(program, i) for i in body)
    return next((position for position, fit in enumerate(fits) if not fit), len(body))


def _leading(program: SProgram, body: tuple[Instr, ...]) -> int:
    """How many instructions from the first on, in stage 0, do no more than issue products."""
    for position, instr in enumerate(body):
        if instr.stage == 0 and not _may_lead(program, instr):
            return position
    return len(body)


def _may_lead(program: SProgram, instr: Instr) -> bool:
    match instr:
        case Fence():
            return True
        case Wait():
            return _is_ring_wait(program, instr)
        case Arrive(reason=reason):
            return reason.why is Why.ORDER
        case Issue(task=name):
            task = program.graph.task(name)
            guarded = any(g.task == name for g in program.graph.guards)
            product = task.kind is Kind.DOT and _in_groups(program, instr)
            return product and not guarded and not _carried(program, task.writes)
    return False


def _in_groups(program: SProgram, instr: Issue) -> bool:
    return any(s.name == instr.completes and s.kind is Completion.MMA_GROUP for s in program.signals)


def _is_ring_wait(program: SProgram, instr: Instr) -> bool:
    rings = {s.name for s in program.signals if s.kind is Completion.MBARRIER}
    return isinstance(instr, Wait) and instr.signal in rings


def _carried(program: SProgram, values: tuple[str, ...]) -> bool:
    """Whether one of the values is carried by a loop."""
    places = Places(program)
    tiles = {places.tile(v) for v in values} - {None}
    carried = {places.tile(v.name) for loop in program.graph.loops for c in loop.carried for v in c}
    return bool(tiles & carried)
