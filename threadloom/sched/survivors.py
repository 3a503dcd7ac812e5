"""Runs the checker over all mutants of a program, and argues for each one that it accepts.

The argument for a survivor is computed, not believed: for every trip count tried, every demand of the *original*
program (this task must be done before that one starts, for the sake of this buffer) still holds in the mutant's own
happens-before order. The argument shows the demand nearest to what was changed, and the chain of waits that proves it
in the mutant. The adversarial simulator must agree.

Mutants that are one program get one verdict (two operators may do the same at a place), and so do mutants that differ
only in which worker is which, where the program itself looks the same with its workers exchanged.
"""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, replace
from itertools import permutations

from threadloom.errors import InternalError
from threadloom.machine.model import Completion, Device
from threadloom.sched.check import check, check_execution
from threadloom.sched.check_data import DataChecker, Demand
from threadloom.sched.check_findings import Finding, Findings
from threadloom.sched.check_order import Order, Run
from threadloom.sched.check_static import check_static
from threadloom.sched.check_trips import trip_cases
from threadloom.sched.mutate import Mutant
from threadloom.sched.ops import SProgram, Wait
from threadloom.sched.semantics import Places, Trips
from threadloom.sched.simulate_values import Outcome, simulate_values


@dataclass(frozen=True, slots=True)
class Killed:
    mutant: Mutant
    finding: Finding


@dataclass(frozen=True, slots=True)
class Survivor:
    """An accepted mutant; `argument` is empty where none was found: then checker or mutant is at fault."""

    mutant: Mutant
    argument: str
    outcome: Outcome

    @property
    def equivalent(self) -> bool:
        return bool(self.argument) and self.outcome.right


@dataclass(frozen=True, slots=True)
class Report:
    killed: tuple[Killed, ...]
    survivors: tuple[Survivor, ...]

    @property
    def unexplained(self) -> list[Survivor]:
        return [s for s in self.survivors if not s.equivalent]

    @property
    def unnamed(self) -> list[Killed]:
        """Refused without a task or buffer to look at."""
        return [k for k in self.killed if not (k.finding.src or k.finding.dst or k.finding.buffer)]

    def __str__(self) -> str:
        by_operator: dict[str, list[int]] = {}
        for item in (*self.killed, *self.survivors):
            counts = by_operator.setdefault(item.mutant.operator, [0, 0])
            counts[isinstance(item, Survivor)] += 1
        lines = [f"{name:<18} refused {k:4d}, equivalent {s:4d}" for name, (k, s) in sorted(by_operator.items())]
        lines += [f"  {s.mutant}: {s.argument or 'NO ARGUMENT'}" for s in self.survivors]
        return "\n".join(lines)


def try_mutants(program: SProgram, device: Device, mutants: Iterable[Mutant]) -> Report:
    """`program` itself must be one that the checker accepts."""
    if found := check(program, device):
        raise InternalError(f"mutants of a program that is itself refused: {found[0]}")
    cases, places = trip_cases(program), Places(program)
    original = [check_execution(program, device, trips, Findings(), places) for trips in cases]
    exchanges = [names for names in _exchanges(program) if _shape(program, names) == _shape(program, {})]
    known: dict[Hashable, Killed | Survivor] = {}
    refused: Counter[str] = Counter()
    verdicts: list[Killed | Survivor] = []
    for mutant in mutants:
        if mutant.program != program:
            shapes = [(_shape(mutant.program, names), names) for names in ({}, *exchanges)]
            seen = next(((known[s], names) for s, names in shapes if s in known), None)
            made = _try(mutant, device, cases, original, refused) if seen is None else _exchanged_back(*seen)
            known[shapes[0][0]] = made
            verdicts.append(replace(made, mutant=mutant))
    return Report(
        tuple(v for v in verdicts if isinstance(v, Killed)), tuple(v for v in verdicts if isinstance(v, Survivor))
    )


def _exchanges(program: SProgram) -> list[dict[str, str]]:
    """Ways to exchange the names of the workers."""
    workers = [role.name for role in program.roles if role.kind == "worker"]
    return [dict(zip(workers, order, strict=True)) for order in permutations(workers)][1:]


def _shape(program: SProgram, names: dict[str, str]) -> Hashable:
    """All that the checker looks at, with roles renamed, and signals and buffers that carry a role in their names."""

    def renamed(text: str) -> str:
        return _renamed(text, names)

    parts = (program.roles, program.buffers, program.signals, program.sections)
    counts = frozenset((plan.loop, plan.stages, plan.most_trips) for plan in program.loops)
    return (counts, *(frozenset(renamed(repr(item)) for item in part) for part in parts))


def _renamed(text: str, names: dict[str, str]) -> str:
    return re.sub(r"worker\d+", lambda found: names.get(found[0], found[0]), text)


def _exchanged_back(made: Killed | Survivor, names: dict[str, str]) -> Killed | Survivor:
    """The verdict on a mutant whose workers, renamed by `names`, are those of the mutant that was tried."""
    back = {new: old for old, new in names.items()}
    if isinstance(made, Survivor):
        return replace(made, argument=_renamed(made.argument, back))
    found = made.finding
    texts = {field: _renamed(getattr(found, field), back) for field in ("message", "buffer", "role")}
    return replace(made, finding=replace(found, **texts))


Execution = tuple[Order, DataChecker]


def _try(
    mutant: Mutant, device: Device, cases: list[Trips], original: list[Execution], refused: Counter[str]
) -> Killed | Survivor:
    """The checker's verdict; the mutant is tried on its own trip counts and on those of the original, first on those at
    which mutants were `refused` before."""
    findings = check_static(mutant.program, device)
    own = {str(trips): trips for trips in (*trip_cases(mutant.program), *cases)} if not findings else {}
    changed: dict[str, Execution] = {}
    places = Places(mutant.program)
    for text in sorted(own, key=lambda text: -refused[text]):
        changed[text] = check_execution(mutant.program, device, own[text], findings, places)
        if findings:
            refused[text] += 1
            break
    if findings:
        return Killed(mutant, findings.list()[0])
    pairs = [(before, changed[str(trips)]) for before, trips in zip(original, cases, strict=True)]
    return Survivor(mutant, argue(mutant, pairs), _simulated(mutant.program, device, cases))


def _simulated(program: SProgram, device: Device, cases: list[Trips]) -> Outcome:
    """The worst outcome over two trip counts that are large enough to use every slot again."""
    large = [c for c in cases if sum(map(sum, c.counts.values())) < 14] or cases
    for trips in (large[len(large) // 2], large[-1]):
        outcome = simulate_values(program, trips, device, random_ones=2)
        if not outcome.right:
            return outcome
    return Outcome("right")


# ---------------------------------------------------------------- the argument


def argue(mutant: Mutant, pairs: list[tuple[Execution, Execution]]) -> str:
    """Why the mutant computes the same, from executions (original, mutant) of the same trip counts, the latter accepted
    by the checker; "" where some demand of the original is not among those that were proved in it."""
    total, best = 0, (0, "")
    for (order, checker), (changed, changed_checker) in pairs:
        kept = {demand.key: demand for demand in changed_checker.demands}
        for demand in checker.demands:
            own = kept.get(demand.key)
            if own is None:
                if mutant.operator == "fewer-slots":
                    continue  # its slots meet in other pairs, all of which the checker has proved
                if _left_to_another(changed_checker, demand.first) or _left_to_another(changed_checker, demand.second):
                    continue
                return ""
            total += 1
            near = _nearness(mutant, demand)
            if near > best[0]:
                before, after = _proof(order, demand), _proof(changed, own)
                near += before != after  # rather show a proof that had to take another way
                if after and near > best[0]:
                    how = "is proved as before by" if before == after else "is now proved by"
                    who = f"{demand.first.who} in {demand.first.step.role} before {demand.second.who}"
                    best = (near, f"; {who} in {demand.second.step.role} ({demand.buffer}) {how}: {after}")
    if not total:
        return ""
    return f"all {total} demands of the original hold in it over {len(pairs)} trip counts{best[1]}"


def _left_to_another(checker: DataChecker, run: Run) -> bool:
    """Whether another role does the task instance alone; the checker has proved that it does the whole of it."""
    roles = {other.step.role for other in checker.issuers.get((run.step.eu, run.who), [])}
    return bool(roles) and run.step.role not in roles


def _nearness(mutant: Mutant, demand: Demand) -> int:
    """How close the demand is to what the mutant changed; odd numbers are left for those proved in another way."""
    if (demand.first.who.task, demand.second.who.task, demand.buffer) == (mutant.src, mutant.dst, mutant.buffer):
        return 4
    return 2 if mutant.buffer == demand.buffer else 0


def _proof(order: Order, demand: Demand) -> str:
    """The shortest chain of waits from the first task's end to the second's start."""
    start, goal = demand.first.done, demand.second.start
    came: dict[int, int] = {goal: goal}
    queue = deque([goal])
    while queue and start not in came:
        node = queue.popleft()
        for pred in order.preds[node]:
            if pred not in came:
                came[pred] = node
                queue.append(pred)
    if start not in came:
        first, second = demand.first, demand.second
        in_unit = first.unit is second.unit and first.unit.completion is Completion.MMA_GROUP
        return f"the issue order of {first.unit.name}" if in_unit else ""
    waits, node = [], start
    while node != goal:
        node = came[node]
        step = order.steps[node]
        if step is not None and isinstance(step.instr, Wait):
            waits.append(f"{step.role} waits {step.instr.signal} at {step.running}")
    return ", ".join(waits) or f"the order of {demand.second.step.role}"
