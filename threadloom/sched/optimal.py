"""Optimal modulo schedules of one loop by constraint solving (OR-Tools CP-SAT), with a proof or a bound.

For a fixed ii: start = r + ii*q per node; dependences and slots are linear, units are circular disjunctions (a boolean
per pair that excludes each other) or cumulative with a copy one period earlier. ii is tried at the lower bound first,
which decides nearly every case at once, then bisected below the greedy schedule, whose order is the hint. Source:
prototype study (formulations compared there); ours, not in the paper.

The limit is counted work of the solver (its deterministic time), and one thread searches: the same problem gets the
same schedule on a busy machine.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from threadloom.errors import CompileError, slug
from threadloom.sched import greedy
from threadloom.sched.bounds import MAX_SLOTS, choose_slots, in_space, lower_bounds
from threadloom.sched.fold import UNBOUNDED, Modulo, fold
from threadloom.sched.pipeline import Problem, Use

if TYPE_CHECKING:
    from ortools.sat.python import cp_model

NEEDS_SOLVER = slug("optimal-needs-solver", "the optimal policy is asked for where OR-Tools is not installed")

MOST_STAGES = 6
LONGEST_II = 4096  # time units; longer loops are solved in coarser units
LEAST_S = 0.05  # not worth another try
WORK_PER_S = 0.25  # of the solver's deterministic time in a second of CPU time (measured: 0.2 to 0.3 on these models)
CAPACITY = 1000  # of a unit: demands are in thousandths


def schedule(problem: Problem, limit_s: float = 4.0) -> Modulo | None:
    """The best schedule found within the limit (work of about so many seconds); `proven` where no smaller ii exists.

    None where nothing fits.
    `bounds["proved"]` of the result is the largest ii below which the solver has shown that nothing exists.
    """
    return solve(problem, limit_s)[0]


def solve(problem: Problem, limit_s: float) -> tuple[Modulo | None, float]:
    """`schedule`, and what was spent of the limit."""
    cp_model = _solver()
    bounds = lower_bounds(problem)
    if max(bounds.values(), default=0) >= UNBOUNDED:
        return None, 0.0
    best = greedy.schedule(problem, keys=len(greedy.KEYS))
    low = max([1, *bounds.values()])
    if best is None or not problem.nodes or best.ii <= low:
        return best and replace(best, proven=True, bounds={**bounds, "proved": low}), 0.0
    unit = max(1, -(-best.ii // LONGEST_II))
    proved, high, probe, spent_s = low, best.ii, low, 0.0
    while proved < high and (left := limit_s - spent_s) > LEAST_S:
        outcome = _at(cp_model, problem, -(-probe // unit), unit, left, best)
        spent_s += outcome.spent_s
        if outcome.made is not None:
            best, high = outcome.made, min(probe, outcome.made.ii)
        elif outcome.infeasible and unit == 1:
            proved = probe + 1
        elif outcome.infeasible:
            proved = min(high, probe + 1)  # shown for durations rounded up only: stop searching below, claim nothing
        else:
            break
        probe = (proved + high) // 2
    shown = proved if unit == 1 else low
    made = replace(best, proven=best.ii <= shown, bounds={**bounds, "proved": min(shown, best.ii)})
    return made, spent_s


def _solver():
    try:
        from ortools.sat.python import cp_model
    except ImportError as error:
        raise CompileError(
            NEEDS_SOLVER,
            "policy `optimal` needs OR-Tools, which is not installed",
            try_="pip install 'threadloom[optimal]', or policy `joint`",
        ) from error
    return cp_model


@dataclass(frozen=True, slots=True)
class _Outcome:
    made: Modulo | None
    infeasible: bool
    spent_s: float


def _at(cp_model, problem: Problem, ii: int, unit: int, limit_s: float, hint: Modulo) -> _Outcome:
    """A schedule with initiation interval `ii` (in units of `unit` cycles), folded back to exact cycles."""
    model = _Model(cp_model, problem, ii, unit)
    model.hint(hint)
    solver = cp_model.CpSolver()
    solver.parameters.max_deterministic_time = limit_s * WORK_PER_S
    solver.parameters.num_workers = 1
    solver.parameters.random_seed = 1
    status = solver.Solve(model.model)
    spent_s = solver.ResponseProto().deterministic_time / WORK_PER_S
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return _Outcome(None, status == cp_model.INFEASIBLE, spent_s)
    starts = [(solver.Value(r) + ii * solver.Value(q)) * unit for r, q in zip(model.r, model.q, strict=True)]
    slots = {name: solver.Value(v) for name, v in model.slots.items()}
    made = fold(problem, starts, ii * unit, _most(problem, slots), "optimal")
    return _Outcome(made, False, spent_s)


def _most(problem: Problem, slots: dict[str, int]) -> dict[str, int]:
    """Raise slots to what fits: more never hurts, and fewest slots make fragile schedules."""
    generous = choose_slots(problem)
    if generous is None:
        return slots
    raised = {name: max(count, generous[name]) for name, count in slots.items()}
    for space in problem.spaces:
        pools = in_space(problem, space)
        if sum(space.taken(p.bytes, raised[p.name]) for p in pools) > space.free_bytes:
            raised |= {p.name: slots[p.name] for p in pools}
    return raised


class _Model:
    """The constraint model at one ii."""

    def __init__(self, cp_model, problem: Problem, ii: int, unit: int):
        self.problem, self.ii, self.unit = problem, ii, unit
        self.model: cp_model.CpModel = cp_model.CpModel()
        count = range(len(problem.nodes))
        self.r = [self.model.NewIntVar(0, ii - 1, f"r{i}") for i in count]
        self.q = [self.model.NewIntVar(0, MOST_STAGES - 1, f"q{i}") for i in count]
        self.s = [r + ii * q for r, q in zip(self.r, self.q, strict=True)]
        self.slots: dict[str, cp_model.IntVar] = {}
        self.model.Add(self.r[0] == 0)  # any rotation of a schedule is one too
        for arc in problem.arcs:
            self.model.Add(self.s[arc.dst] + arc.distance * ii >= self.s[arc.src] + self._up(arc.latency))
        for users in problem.resources().values():
            self._unit(users)
        for pairs in problem.queues().values():
            self._queue(pairs)
        self._buffers()

    def _queue(self, pairs: list[tuple[int, int]]) -> None:
        """Executions come in the order of issues (see fold.py)."""
        for at, (a_issue, a_run) in enumerate(pairs):
            for b_issue, b_run in pairs[at + 1 :]:
                k = self.model.NewIntVar(-MOST_STAGES, MOST_STAGES, "")
                for a, b in ((a_issue, b_issue), (a_run, b_run)):
                    self.model.Add(self.s[a] - self.s[b] >= k * self.ii)
                    self.model.Add(self.s[a] - self.s[b] <= (k + 1) * self.ii - 1)

    def _up(self, cycles: int) -> int:
        return -(-cycles // self.unit)

    def _unit(self, users: list[tuple[int, Use]]) -> None:
        for _, use in users:
            if self._up(use.cycles) > self.ii:
                self.model.AddBoolOr([])  # longer than the period: infeasible
                return
        if all(a.demand + b.demand > 1.0 for i, (_, a) in enumerate(users) for _, b in users[i + 1 :]):
            for i, (a, use) in enumerate(users):
                for b, other in users[i + 1 :]:
                    self._exclude(a, self._up(use.cycles), b, self._up(other.cycles))
            return
        intervals, demands = [], []
        for node, use in users:
            for start in (self.r[node], self.r[node] - self.ii):
                intervals.append(self.model.NewFixedSizeIntervalVar(start, self._up(use.cycles), ""))
                demands.append(max(1, round(CAPACITY * use.demand)))
        self.model.AddCumulative(intervals, demands, CAPACITY)

    def _exclude(self, a: int, a_cycles: int, b: int, b_cycles: int) -> None:
        first = self.model.NewBoolVar("")
        self.model.Add(self.r[b] - self.r[a] >= a_cycles).OnlyEnforceIf(first)
        self.model.Add(self.r[a] + self.ii - self.r[b] >= b_cycles).OnlyEnforceIf(first)
        self.model.Add(self.r[a] - self.r[b] >= b_cycles).OnlyEnforceIf(~first)
        self.model.Add(self.r[b] + self.ii - self.r[a] >= a_cycles).OnlyEnforceIf(~first)

    def _buffers(self) -> None:
        problem = self.problem
        for pool in problem.pools:
            most = 1 if pool.fixed else MAX_SLOTS.get(pool.space, 1)
            slots = self.slots[pool.name] = self.model.NewIntVar(1, most, f"k{pool.name}")
            for reader, distance in pool.readers:
                if reader != pool.producer:
                    end = self.s[reader] + self._up(problem.nodes[reader].latency) + distance * self.ii
                    self.model.Add(end - self.s[pool.producer] <= slots * self.ii)
        for space in problem.spaces:
            pools = in_space(problem, space)
            first = {p.tile: p for p in reversed(pools)}
            for p in pools:  # workers that have a buffer each of one tile run the same code
                self.model.Add(self.slots[p.name] == self.slots[first[p.tile].name])
            if pools:
                self.model.Add(sum(space.taken(p.bytes, 1) * self.slots[p.name] for p in pools) <= space.free_bytes)

    def hint(self, made: Modulo) -> None:
        base = made.starts[0]
        for node, start in enumerate(made.starts):
            at = max(0, start - base) // self.unit
            self.model.AddHint(self.r[node], at % self.ii)
            self.model.AddHint(self.q[node], min(MOST_STAGES - 1, at // self.ii))
