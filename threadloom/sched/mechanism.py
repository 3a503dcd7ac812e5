"""The mechanism that policies are written on: a Plan in simulated time (PipeThreader, section 4: Append, Wait).

A policy appends sTask instances to specialised units one after the other; the Plan knows when each may start
(dependences, units, slots of buffers chosen up front), keeps the simulated time, and at the end folds the trace into a
modulo schedule. Policies decide only *what next*. docs/howto-policy.md has an example of 30 lines.
"""

from __future__ import annotations

from dataclasses import dataclass

from threadloom.errors import CompileError, slug
from threadloom.sched.bounds import choose_slots, in_space, lower_bounds
from threadloom.sched.fold import Modulo, fold, serial
from threadloom.sched.pipeline import Arc, Node, Problem

BAD_POLICY = slug("bad-policy", "a scheduling policy asked for something that no schedule can do")

NEVER = 1 << 62
EU = 0  # all EUs run the same sProgram, so a plan is made for one


@dataclass(frozen=True, slots=True)
class Placed:
    """One appended instance: when it starts and when its result can be used."""

    node: int
    instance: int
    start: int
    done: int


class Plan:
    """A schedule under construction. Nodes are numbered as in `problem.nodes`; public calls take names too."""

    def __init__(self, problem: Problem, slots: dict[str, int] | None = None, policy: str = "user"):
        self.problem, self.policy = problem, policy
        chosen = slots if slots is not None else choose_slots(problem)
        if chosen is None:
            raise CompileError(BAD_POLICY, "one slot for each buffer does not fit the memory of the EU")
        self.slots: dict[str, int] = chosen
        self.now = 0
        count = len(problem.nodes)
        self._placed: list[list[Placed]] = [[] for _ in range(count)]
        self._order: dict[tuple[int, int, int], Arc] = {}
        self._needs: list[list[tuple[int, int]]] = [[] for _ in range(count)]
        for arc in problem.arcs:
            self._needs[arc.dst].append((arc.src, arc.distance))
        for pool in problem.pools:
            for reader, distance in pool.readers:
                if reader != pool.producer:
                    self._needs[pool.producer].append((reader, self.slots[pool.name] - distance))
        self._busy: dict[str, list[tuple[int, int, float]]] = {name: [] for name in problem.resources()}
        self._wake = [0] * count  # a task need not be looked at again before this moment
        self._dependents: list[set[int]] = [{node} for node in range(count)]
        for node, needs in enumerate(self._needs):
            for src, _ in needs:
                self._dependents[src].add(node)
        self._execution = {issue: run for pairs in problem.queues().values() for issue, run in pairs}
        self._queue: dict[str, list[int]] = {unit: [] for unit in problem.queues()}  # issued, not yet executing

    # ------------------------------------------------ the public mechanism

    def append(self, task: str | int, unit: tuple[int, str]) -> Placed:
        """Start the next instance of `task` on `unit` (EU, sEU) as early as dependences, slots and units allow."""
        node = self.number(task)
        item = self.problem.nodes[node]
        if unit != (EU, item.seu.name):
            raise CompileError(BAD_POLICY, f"{item.name} cannot run on {unit}")
        if item.issued_by >= 0 and self.instances(item.issued_by) == self.instances(node):
            self.append(item.issued_by, unit)
        ready = self.ready_at(node)
        if ready is None:
            raise CompileError(
                BAD_POLICY,
                f"{self.problem.nodes[node].name}[{len(self._placed[node])}] was appended before what it needs",
                why=f"it needs {', '.join(self._missing(node))}",
                try_="append the tasks that it needs first",
            )
        return self._start(node, self._first_gap(node, max(ready, self.now)))

    def wait(self, task: str | int, tasks: list[str | int]) -> None:
        """The next instance of `task` starts after the latest ones of `tasks` are done, although no data asks it."""
        node = self.number(task)
        for other in map(self.number, tasks):
            if not self._placed[other]:
                raise CompileError(BAD_POLICY, f"nothing to wait for: {self.problem.nodes[other].name} never started")
            distance = len(self._placed[node]) - (len(self._placed[other]) - 1)
            if (other, node, distance) not in self._order:
                self._order[other, node, distance] = Arc(other, node, self.problem.nodes[other].latency, distance)
                self._needs[node].append((other, distance))
                self._dependents[other].add(node)

    def barrier(self) -> None:
        """A barrier sTask: whatever is appended from here on starts after all that was appended so far is done."""
        started = [i for i, placed in enumerate(self._placed) if placed]
        for node in range(len(self.problem.nodes)):
            self.wait(node, [i for i in started if i != node])

    def check_valid(self) -> list[str]:
        """What is wrong with the plan so far: memories too small for the chosen slots (by live ranges, since a slot
        is held from its producer's start to its last reader's end). Empty where it is valid."""
        found = []
        for space in self.problem.spaces:
            used = sum(space.taken(p.bytes, self.slots[p.name]) for p in in_space(self.problem, space))
            if used > space.free_bytes:
                found.append(
                    f"{space.name}{'@' + space.role if space.role else ''}: {used} of {space.free_bytes} bytes"
                )
        return found

    @property
    def time(self) -> int:
        """Simulated cycles until everything appended so far is done."""
        return max((p[-1].done for p in self._placed if p), default=0)

    def finish(self) -> Modulo:
        """Fold the trace into a modulo schedule; the serial order where the trace does not repeat."""
        bounds = lower_bounds(self.problem)
        made = self.folded() or serial(self.problem, self.slots)
        return Modulo(self.problem, made.ii, made.starts, made.slots, made.policy, made.order, bounds)

    # ------------------------------------------------ queries for policies

    def number(self, task: str | int) -> int:
        return task if isinstance(task, int) else self.problem.index(task)

    def node(self, task: str | int) -> Node:
        return self.problem.nodes[self.number(task)]

    def instances(self, task: str | int) -> int:
        """How many instances of `task` were appended."""
        return len(self._placed[self.number(task)])

    def ready_at(self, node: int) -> int | None:
        """When the next instance's needs are met; None where something it needs was not appended yet."""
        at, i = 0, len(self._placed[node])
        if self.problem.nodes[node].issued_by >= 0:
            queue = self._queue[self.problem.nodes[node].seu.name]
            if not queue or queue[0] != node:
                return None
        for src, distance in self._needs[node]:
            if i >= distance:
                placed = self._placed[src]
                if i - distance >= len(placed):
                    return None
                at = max(at, placed[i - distance].done)
        return at

    def startable(self, node: int) -> bool:
        """Whether the next instance can start at `now`."""
        if self._wake[node] > self.now:
            return False
        ready = self.ready_at(node)
        if ready is None or ready > self.now:
            self._wake[node] = NEVER if ready is None else ready
            return False
        for use in self.problem.nodes[node].uses:
            ends = [end for _, end, _ in self._busy[use.resource] if end > self.now]
            if ends:
                load = use.demand + sum(d for _, end, d in self._busy[use.resource] if end > self.now)
                if load > 1.0 + 1e-9:
                    self._wake[node] = min(ends)
                    return False
        return True

    def startable_nodes(self, iterations: int) -> list[int]:
        """Nodes with fewer than so many instances whose next one can start at `now`."""
        now, wake, placed = self.now, self._wake, self._placed
        return [n for n in range(len(placed)) if wake[n] <= now and len(placed[n]) < iterations and self.startable(n)]

    def in_flight(self, node: int) -> int:
        """How many of the instances that the next one needs are not done at `now`."""
        i = len(self._placed[node])
        return sum(
            1
            for s, d in self._needs[node]
            if 0 <= i - d < len(self._placed[s]) and self._placed[s][i - d].done > self.now
        )

    def advance(self) -> bool:
        """Move `now` to the next moment at which something ends; False where nothing is in flight."""
        ends = [e for users in self._busy.values() for _, e, _ in users if e > self.now]
        ends += [p[-1].done for p in self._placed if p and p[-1].done > self.now]
        if not ends:
            return False
        self.now = min(ends)
        for users in self._busy.values():
            users[:] = [u for u in users if u[1] > self.now]
        return True

    # ------------------------------------------------ internals

    def _missing(self, node: int) -> list[str]:
        i = len(self._placed[node])
        return [f"{self.problem.nodes[s].name}[{i - d}]" for s, d in self._needs[node] if i - d >= len(self._placed[s])]

    def _first_gap(self, node: int, earliest: int) -> int:
        """First start at or after `earliest` at which every unit has room for the whole of the task."""
        at = earliest
        while True:
            blocked = 0
            for use in self.problem.nodes[node].uses:
                crossing = [u for u in self._busy[use.resource] if u[0] < at + use.cycles and u[1] > at]
                if sum(d for _, _, d in crossing) + use.demand > 1.0 + 1e-9:
                    blocked = max(blocked, min(end for _, end, _ in crossing))
            if not blocked:
                return at
            at = blocked

    def start_now(self, node: int) -> Placed:
        """Append a startable task at `now` without checking again."""
        return self._start(node, self.now)

    def _start(self, node: int, at: int) -> Placed:
        item = self.problem.nodes[node]
        placed = Placed(node, len(self._placed[node]), at, at + item.latency)
        self._placed[node].append(placed)
        if item.is_issue:
            self._queue[item.seu.name].append(self._execution[node])
        elif item.issued_by >= 0:
            queue = self._queue[item.seu.name]
            queue.pop(0)
            if queue:
                self._wake[queue[0]] = 0
        for dependent in self._dependents[node]:
            self._wake[dependent] = 0
        for use in item.uses:
            self._busy[use.resource].append((at, at + use.cycles, use.demand))
        return placed

    def folded(self) -> Modulo | None:
        """Fold around the middle of the trace, or around a neighbour where that order contradicts itself."""
        length = min((len(p) for p in self._placed), default=0)
        if length < 3:
            return self._fold_at(0, 1) if length else None
        middle, window = length // 2, max(1, min(8, length // 3))
        tries = [m for m in (middle, middle + 1, middle - 1) if m >= 0 and m + window < length]
        found = [made for m in tries if (made := self._fold_at(m, window)) is not None]
        return min(found, key=lambda made: made.ii, default=None)

    def _fold_at(self, instance: int, window: int) -> Modulo | None:
        starts = [p[instance].start for p in self._placed]
        if all(len(p) > instance + window for p in self._placed):
            spans = [p[instance + window].start - p[instance].start for p in self._placed]
            ii = max(1, round(sum(spans) / len(spans) / window))
        else:
            ii = max(1, self.time)
        return fold(self.problem, starts, ii, self.slots, self.policy, tuple(self._order.values()))
