"""Which loops of a plan overlap their iterations, and what keeps the others from it.

A loop overlaps where an iteration takes longer than the initiation interval. Where none does, the greatest lower bound
says why: a dependence that the loop carries (iteration i+1 needs what iteration i makes last), one thread of control
that issues everything, or buffers of which memory holds no second slot. Such a plan is right, only serial;
`--pipelined` makes it an error.
"""

from __future__ import annotations

from dataclasses import dataclass

from threadloom.errors import CompileError, slug
from threadloom.sched.fold import UNBOUNDED, Modulo, critical_cycle
from threadloom.sched.search import Outcome
from threadloom.source import Loc
from threadloom.task.ops import Loop, TaskGraph

NOT_PIPELINED = slug("not-pipelined", "iterations of a loop cannot overlap, and --pipelined asks for it")

HAND_OVER = 0.05  # of an iteration


@dataclass(frozen=True, slots=True)
class Overlap:
    """`bound_by`: the greatest lower bound of the initiation interval ("recurrence", "resource:tc" ...); `carried`: the
    user's names of what the loop hands from iteration to iteration on the cycle that bounds it, and `through` the
    sTasks of that cycle; both empty where the bound is no recurrence."""

    loop: int
    axes: tuple[str, ...]
    loc: Loc | None
    overlaps: bool
    ii_cycles: int
    bound_by: str
    carried: tuple[str, ...] = ()
    through: tuple[str, ...] = ()

    def __str__(self) -> str:
        head = f"loop {self.loop} over {', '.join(self.axes)}" + (f" ({self.loc})" if self.loc else "")
        return f"{head} {'is bound' if self.overlaps else 'is not pipelined'}: {self.reason}"

    @property
    def one_thread(self) -> bool:
        """Whether a role's own time bounds it, as it does every loop of a core."""
        return self.bound_by.startswith("resource:role:")

    @property
    def reason(self) -> str:
        if self.carried:
            names = " and ".join(f"`{name}`" for name in self.carried)
            tasks = " -> ".join(self.through)
            return f"an iteration needs {names} of the one before, and {tasks} takes {self.ii_cycles} cycles"
        if self.one_thread:
            return "one thread issues all its sTasks, and no unit works beside it"
        return f"its buffers have no room for a second iteration, or nothing would be won (bound: {self.bound_by})"

    @property
    def remedy(self) -> str:
        if self.carried:
            return (
                "carry less: compute in the loop what does not depend on it, or cut the chain into independent ones "
                "(more rows of the grid); without --pipelined the plan is serial"
            )
        if self.one_thread:
            return "a device whose copies or products are asynchronous; without --pipelined the plan is serial"
        return "a narrower element type, or a device with more memory; without --pipelined the plan is serial"


def overlaps(outcome: Outcome) -> list[Overlap]:
    """Every loop of the best plan but the grid's."""
    best = outcome.candidates[0]
    graph = outcome.best.graph
    loops = {loop.id: loop for loop in graph.loops}
    schedules = (best.schedules or {}).items()
    return [_overlap(loops[number], made, graph) for number, made in schedules if number != 0 and made.problem.nodes]


def require_overlap(found: list[Overlap]) -> None:
    """Raises CompileError (`not-pipelined`) at the first loop whose iterations do not overlap."""
    for loop in found:
        if not loop.overlaps:
            raise CompileError(
                NOT_PIPELINED,
                f"iterations of the loop over {', '.join(loop.axes)} cannot overlap",
                why=loop.reason,
                try_=loop.remedy,
                loc=loop.loc,
            )


def _overlap(loop: Loop, made: Modulo, graph: TaskGraph) -> Overlap:
    overlapping = _overlapping(made)
    others = {name: cycles for name, cycles in made.bounds.items() if name not in ("recurrence", "capacity")}
    bound_by = max(others, key=lambda name: others[name], default="")
    carried, through = _cycle(loop, made, graph)
    # what carries nothing new, such as an accumulator, is named only where nothing else bounds the loop
    if carried and made.bounds["recurrence"] >= others.get(bound_by, 0) + overlapping:
        bound_by = "recurrence"
    else:
        carried, through = (), ()
    axes = tuple(axis.axis.name for axis in loop.axes)
    return Overlap(loop.id, axes, loop.loc, overlapping, made.ii, bound_by, carried, through)


def _overlapping(made: Modulo) -> bool:
    """Whether an sTask still runs when one of the next iteration starts, for more than what handing over takes. The
    same sTask of two workers is no overlap: each has rows of its own."""
    ends = [start + node.latency for start, node in zip(made.starts, made.problem.nodes, strict=True)]
    nodes = range(len(ends))
    tasks = [node.task for node in made.problem.nodes]
    pairs = ((a, b) for a in nodes for b in nodes if a == b or tasks[a] != tasks[b])
    return any(ends[a] - (made.starts[b] + made.ii) > HAND_OVER * made.ii for a, b in pairs)


def _cycle(loop: Loop, made: Modulo, graph: TaskGraph) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(carried names, sTasks) of the cycle of dependences that cannot go round in less than the recurrence bound."""
    problem, recurrence = made.problem, made.bounds.get("recurrence", 0)
    if not 1 < recurrence < UNBOUNDED:
        return (), ()
    nodes = critical_cycle(len(problem.nodes), problem.arcs, recurrence)
    tasks = tuple(dict.fromkeys(problem.nodes[node].task for node in nodes))
    written = {value for name in tasks for value in graph.task(name).writes}
    names = [arg.name.partition(".")[0] for _, arg, following, _ in loop.carried if following.name in written]
    return tuple(dict.fromkeys(names)), tasks
