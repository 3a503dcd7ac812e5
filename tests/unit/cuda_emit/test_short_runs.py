"""Loops of three stages whose runs may be shorter than that: every instance is done once, as docs/sprogram.md says."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.unit.sched.test_clusters import H200, planned, product
from threadloom.sched.check import check
from threadloom.sched.ops import Arrive, Inner, Issue, Section, SProgram, Wait
from threadloom.targets.cuda.emit import emit
from threadloom.targets.cuda.kernel_plan import KernelPlan
from threadloom.targets.cuda.places import Places
from threadloom.targets.cuda.registers import Scope
from threadloom.targets.cuda.section import RoleEmitter
from threadloom.targets.cuda.time_plan import packed_facts
from threadloom.writer import Writer

DIMS = {"M": 4096, "N": 4096, "K": 4096}


def with_late_release(program: SProgram) -> SProgram:
    """The product of iteration i is waited for, and its slots are released, in iteration i + 2."""
    sections = []
    for section in program.sections:
        instrs = [
            replace(i, stage=2, **({"pending": 2} if isinstance(i, Wait) else {}))
            if section.loop == 1 and isinstance(i, Wait | Arrive) and i.stage == 1
            else i
            for i in section.instrs
        ]
        sections.append(replace(section, instrs=tuple(instrs)))
    loops = tuple(replace(x, stages=3) if x.loop == 1 else x for x in program.loops)
    return replace(program, sections=tuple(sections), loops=loops)


def test_a_release_two_iterations_late_skips_what_does_not_exist():
    program = with_late_release(planned(1))
    assert check(program, H200) == []
    text = emit(program, packed_facts(product.tile(), DIMS), DIMS).text
    first, second = (part for part in text.split("// epilogue ")[1:3])
    assert "if (count_2 - 2 >= 0) {" in first and "if (count_2 - 1 >= 0) {" in second
    for part in (first, second.partition("// worker")[0]):
        released = part[part.index(">= 0) {") :]
        assert "barrier_arrive(empty_a" in released and "barrier_arrive(empty_b" in released


class Passes(RoleEmitter):
    """Notes the passes of a loop in place of writing them: instances by stage and their conditions, as C text."""

    __slots__ = ("seen",)

    def instance_pass(self, loop, section, instances, guards=None, begun=0, begins=None):
        self.seen.append(tuple({s: plain(text) for s, text in found.items()} for found in (instances, guards or {})))


def plain(text: str) -> str:
    """A C condition or number as Python's; variables without the numbers that keep their names apart."""
    return re.sub(r"\b(count|t)_\d+", r"\1", text).replace("&&", "and")


def passes(stages: tuple[int, ...]) -> list[tuple[dict[int, str], dict[int, str]]]:
    """Of a worker's loop with a product in each of `stages`."""
    program = planned(1)
    issue = next(i for s in program.sections for i in s.instrs if isinstance(i, Issue) and i.task.startswith("dot"))
    section = Section(1, "worker0", tuple(replace(issue, stage=stage) for stage in stages))
    others = tuple(s for s in program.sections if (s.loop, s.role) != (1, "worker0"))
    plan = KernelPlan(replace(program, sections=(*others, section)), packed_facts(product.tile(), DIMS), DIMS)
    scope = Scope(Writer())
    role = next(r for r in program.roles if r.name == "worker0")
    emitter = Passes(plan, role, scope, Places(plan, scope, worker=True))
    emitter.seen = []
    emitter.run_loop(Inner(1))
    return [one for at, one in enumerate(emitter.seen) if one not in emitter.seen[:at]]  # the steady state comes twice


@pytest.mark.parametrize("stages", [(0, 1), (0, 1, 2), (0, 2), (0, 1, 2, 3)], ids=str)
def test_each_instance_of_each_stage_is_done_once_in_order(stages):
    """docs/sprogram.md, section 1: in pass t every stage s does instance t - s, where that exists."""
    written = passes(stages)
    for count in range(1, 7):
        done = []
        for instances, guards in written:
            steady = any(re.search(r"\bt\b", i) for i in instances.values())
            for t in range(max(stages), count) if steady else (0,):
                known = {"t": t, "count": count}
                made = [s for s in instances if eval(guards.get(s, "True"), {}, known)]
                done.append([(s, eval(instances[s], {}, known)) for s in made])
        wanted = [[(s, t - s) for s in stages if 0 <= t - s < count] for t in range(count + max(stages))]
        assert [sorted(x) for x in done if x] == [x for x in wanted if x], (count, written)
