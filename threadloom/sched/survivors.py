"""Runs the checker over all mutants of a program, and argues for each one that it accepts.

The argument for a survivor is computed, not believed: for every trip count tried, every demand of the *original*
program (this task must be done before that one starts, for the sake of this buffer) still holds in the mutant's own
happens-before order. The argument shows the demand nearest to what was changed, and the chain of waits that proves it
in the mutant. The adversarial simulator must agree.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from threadloom.errors import InternalError
from threadloom.machine.model import Completion, Device
from threadloom.sched.check import check, check_execution_of, cluster_eus
from threadloom.sched.check_data import DataChecker, Demand
from threadloom.sched.check_findings import Finding, Findings
from threadloom.sched.check_order import Order
from threadloom.sched.check_static import check_static
from threadloom.sched.check_trips import trip_cases
from threadloom.sched.mutate import Mutant
from threadloom.sched.ops import SProgram, Wait
from threadloom.sched.semantics import Trips
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
    cases = trip_cases(program)
    original = [_execution(program, device, trips, Findings()) for trips in cases]
    killed: list[Killed] = []
    survivors: list[Survivor] = []
    for mutant in mutants:
        if mutant.program != program:
            made = _try(mutant, device, cases, original)
            if isinstance(made, Killed):
                killed.append(made)
            else:
                survivors.append(made)
    return Report(tuple(killed), tuple(survivors))


Execution = tuple[Order, DataChecker]


def _execution(program: SProgram, device: Device, trips: Trips, findings: Findings) -> Execution:
    return check_execution_of(program, device, trips, findings, cluster_eus(program))


def _try(mutant: Mutant, device: Device, cases: list[Trips], original: list[Execution]) -> Killed | Survivor:
    """The checker's verdict; the mutant is tried on its own trip counts and on those of the original."""
    findings = check_static(mutant.program, device)
    own = {str(trips): trips for trips in (*trip_cases(mutant.program), *cases)} if not findings else {}
    changed: dict[str, Execution] = {}
    for text, trips in own.items():
        changed[text] = _execution(mutant.program, device, trips, findings)
        if findings:
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
