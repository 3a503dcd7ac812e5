"""The rules of level `task`, as data. They are checked from the graph alone, not with the code that built it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from threadloom.errors import CompileError, slug
from threadloom.task.ops import Kind, STask, TaskGraph
from threadloom.tile.canonicalize import depends_on_axes
from threadloom.tile.ops import (
    AtomicAdd,
    Bound,
    Cast,
    Const,
    DimSize,
    Dot,
    Full,
    Index,
    Load,
    Map,
    Reduce,
    Scan,
    Store,
)
from threadloom.tile.uses import operands, results

INVALID_TASK = slug("invalid-task-graph", "an sTask-graph breaks a rule of its level")

_ALLOWED: dict[Kind, tuple[type, ...]] = {
    Kind.LOAD: (Load,),
    Kind.GATHER: (Load,),
    Kind.STORE: (Store,),
    Kind.ATOMIC: (AtomicAdd,),
    Kind.DOT: (Dot, Map),
    Kind.VECTOR: (Map, Cast, Full, Reduce, Scan),
    Kind.SCALAR: (Map, Cast, Load),
}
_FREE = (Const, Index, Bound, DimSize, Map, Cast, Full)  # what an sTask may repeat beside its own operations

Rule = Callable[[TaskGraph], Iterator[str]]


def verify_graph(graph: TaskGraph) -> None:
    """Raise one error that names every broken rule."""
    broken = [what for rule in RULES for what in rule(graph)]
    if broken:
        what = broken[0] if len(broken) == 1 else "".join(f"\n    - {b}" for b in broken)
        raise CompileError(INVALID_TASK, f"graph of {graph.kernel.name}: {what}", loc=graph.kernel.loc)


def names_are_unique(graph: TaskGraph) -> Iterator[str]:
    names = [t.name for t in graph.tasks]
    for name in sorted({n for n in names if names.count(n) > 1}):
        yield f"two sTasks are called {name}"
    tiles = [v for t in graph.tiles for v in t.values]
    for name in sorted({n for n in tiles if tiles.count(n) > 1}):
        yield f"value {name} lives in two Tiles"


def loops_hold_every_task_once(graph: TaskGraph) -> Iterator[str]:
    items = [i for loop in graph.loops for i in loop.items]
    for task in graph.tasks:
        if items.count(task.name) != 1:
            yield f"{task.name} stands in {items.count(task.name)} loops"
        elif not any(loop.id == task.loop and task.name in loop.items for loop in graph.loops):
            yield f"{task.name} does not stand in its loop {task.loop}"
    for loop in graph.loops:
        if loop.id != 0 and items.count(loop.id) != 1:
            yield f"loop {loop.id} stands in {items.count(loop.id)} loops"
        for item in loop.items:
            if isinstance(item, str) and all(t.name != item for t in graph.tasks):
                yield f"loop {loop.id} holds {item}, which does not exist"


def kinds_match_operations(graph: TaskGraph) -> Iterator[str]:
    for task in graph.tasks:
        for op in task.ops:
            if not isinstance(op, _ALLOWED[task.kind] + _FREE):
                yield f"{task.name} is {task.kind} and holds a {type(op).__name__.lower()}"


def reads_and_writes_are_true(graph: TaskGraph) -> Iterator[str]:
    """`reads` covers what the operations need from outside, `writes` is made inside; both belong to some Tile."""
    scalars = {s.name for s in graph.kernel.scalars}
    conditions = {(g.task, g.cond) for g in graph.guards}
    tiles = {v for t in graph.tiles for v in t.values}
    for task in graph.tasks:
        made = {r.name for op in task.ops for r in results(op)}
        needed = {v.name for op in task.ops for v in operands(op)} - made - scalars
        for name in sorted(needed - set(task.reads)):
            yield f"{task.name} needs {name}, which it does not list among its reads"
        for name in task.reads:
            if name not in needed and (task.name, name) not in conditions:
                yield f"{task.name} lists {name} among its reads and does not need it"
        for name in sorted(set(task.writes) - made):
            yield f"{task.name} lists {name} among its writes and does not make it"
        for name in sorted({*task.reads, *task.writes} - tiles):
            yield f"value {name} of {task.name} has no Tile"


def operations_are_in_order(graph: TaskGraph) -> Iterator[str]:
    for task in graph.tasks:
        later = {r.name for op in task.ops for r in results(op)}
        for op in task.ops:
            for value in operands(op):
                if value.name in later and value.name not in task.reads:
                    yield f"{task.name} reads {value.name} before it makes it"
            later -= {r.name for r in results(op)}


def axes_are_known(graph: TaskGraph) -> Iterator[str]:
    known = {a.name for a in graph.kernel.axes}
    for task in graph.tasks:
        for axis in sorted(({a for op in task.ops for a in depends_on_axes(op)} | set(task.axes)) - known):
            yield f"{task.name} uses axis {axis}, which the kernel has not"


def every_read_has_an_edge(graph: TaskGraph) -> Iterator[str]:
    names = {t.name for t in graph.tasks}
    for edge in graph.edges:
        for end in (edge.src, edge.dst):
            if end not in names:
                yield f"an edge names {end}, which does not exist"
        if edge.distance < 0:
            yield f"edge {edge.src} -> {edge.dst} has distance {edge.distance}"
    for task in graph.tasks:
        for name in task.reads:
            if not any(e.dst == task.name and e.value == name for e in graph.edges):
                yield f"{task.name} reads {name}, and no edge says from whom"


def items_follow_their_makers(graph: TaskGraph) -> Iterator[str]:
    """Within a loop's items a maker stands before the reader of the same iteration."""
    position = _positions(graph)
    carried = {v.name for loop in graph.loops for c in loop.carried for v in c}
    for edge in graph.edges:
        if edge.distance or edge.value in carried or edge.src not in position or edge.dst not in position:
            continue
        if position[edge.src] >= position[edge.dst]:
            yield f"{edge.src} makes {edge.value} after {edge.dst} reads it"


def _positions(graph: TaskGraph) -> dict[str, tuple[int, ...]]:
    """Where each sTask stands in the loop tree; comparable."""
    loops = {loop.id: loop for loop in graph.loops}
    found: dict[str, tuple[int, ...]] = {}

    def visit(loop: int, path: tuple[int, ...]) -> None:
        for at, item in enumerate(loops[loop].items):
            if isinstance(item, int) and item in loops:
                visit(item, (*path, at))
            elif isinstance(item, str):
                found[item] = (*path, at)

    visit(0, ())
    return found


def kept_values_are_read_by_like_loops(graph: TaskGraph) -> Iterator[str]:
    """What a loop makes anew in each iteration can be read outside it only by a loop that goes through it again."""
    loops = {loop.id: loop for loop in graph.loops}
    position = _positions(graph)
    carried = {v.name for loop in graph.loops for c in loop.carried for v in c}
    home = {t.name: t.loop for t in graph.tasks}
    for loop in graph.loops:
        source = loops.get(loop.like) if loop.like is not None else loop
        if source is None or (source is not loop and (source.carried or source.axes != loop.axes)):
            yield f"loop {loop.id} is like loop {loop.like}, which is no plain loop over the same axes"
    for edge in graph.edges:
        if edge.value in carried or edge.src not in position or edge.dst not in position:
            continue
        around, at = set(), home.get(edge.dst)
        while at is not None and at in loops:
            around |= {at, loops[at].like}
            at = loops[at].parent
        if home.get(edge.src) not in around:
            yield f"{edge.dst} reads {edge.value}, which loop {home.get(edge.src)} makes anew in each iteration"


def carried_values_share_a_tile(graph: TaskGraph) -> Iterator[str]:
    home = {v: t.name for t in graph.tiles for v in t.values}
    for loop in graph.loops:
        for group in loop.carried:
            homes = {home.get(v.name) for v in group}
            if len(homes) != 1:
                yield f"loop {loop.id} carries {group[1].name} through several Tiles"


def guards_name_scalars(graph: TaskGraph) -> Iterator[str]:
    tasks: dict[str, STask] = {t.name: t for t in graph.tasks}
    scalars = {s.name for s in graph.kernel.scalars}
    for guard in graph.guards:
        if guard.task not in tasks:
            yield f"a guard names {guard.task}, which does not exist"
        elif guard.cond not in tasks[guard.task].reads and guard.cond not in scalars:
            yield f"{guard.task} is guarded by {guard.cond}, which it does not read"


RULES: tuple[Rule, ...] = (
    names_are_unique,
    loops_hold_every_task_once,
    kinds_match_operations,
    reads_and_writes_are_true,
    operations_are_in_order,
    axes_are_known,
    every_read_has_an_edge,
    items_follow_their_makers,
    kept_values_are_read_by_like_loops,
    carried_values_share_a_tile,
    guards_name_scalars,
)
