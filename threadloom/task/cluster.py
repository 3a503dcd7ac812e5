"""Second step of building the sTask-graph: the operations of one loop body become sTasks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from dataclasses import dataclass

from threadloom.task.flatten import Guards, Item, LoopBody
from threadloom.task.groups import Node, fuse, ordered
from threadloom.task.ops import Kind, Method, STask
from threadloom.tile.canonicalize import depends_on_axes
from threadloom.tile.ops import (
    AtomicAdd,
    AxisKind,
    Bound,
    Cast,
    Const,
    DimSize,
    Dot,
    Full,
    Index,
    Load,
    Map,
    Op,
    Store,
    Subscript,
)
from threadloom.tile.uses import operands, results

UNNAMED = ("t", "c")  # stems of values that the user gave no name


@dataclass(frozen=True, slots=True)
class Made:
    """An sTask, or (`task` None) an inner loop, in an order that executes correctly."""

    task: STask | None
    guards: Guards
    loop: int | None = None


def cluster(body: LoopBody, bodies: list[LoopBody], granularity: str, taken: set[str]) -> list[Made]:
    """The sTasks and inner loops of `body`."""
    repeated = _repeated_ops(bodies)
    structural = _structural(bodies)
    items = [i for i in body.items if not results_in(i.op, repeated) or results_in(i.op, structural)]
    nodes = _accumulating_dots([_node(at, i, bodies, repeated) for at, i in enumerate(items)], body)
    _scalars_from_tiles(nodes, body)
    if body.id == 0:
        _set_depths(nodes, body, repeated)
    nodes = fuse(nodes, split=granularity == "split")
    names = set(taken)
    made = []
    for node in ordered(nodes):
        if node.kind is None:
            made.append(Made(None, node.guards, node.loop))
        else:
            made.append(Made(_task(node, body, bodies, repeated, names), node.guards))
    return made


def results_in(op: Op | None, names: Container[str]) -> bool:
    return op is not None and any(r.name in names for r in results(op))


def _repeated_ops(bodies: list[LoopBody]) -> dict[str, Op]:
    """Operations that each sTask repeats instead of reading their value from a place: constants, sizes, index values,
    and tiles computed from nothing but index values and scalars (masks, positions). Not those that both branches of
    a condition make: which one it is, the place knows. Nor operands of products: these lie where the product's unit
    reads them."""
    multiplied = {v.name for b in bodies for i in b.items if isinstance(i.op, Dot) for v in (i.op.a, i.op.b)}
    made = Counter(r.name for body in bodies for item in body.items if item.op is not None for r in results(item.op))
    repeated: dict[str, Op] = {}
    for body in bodies:  # outer bodies first: an operation stands after what it reads
        for item in body.items:
            match item.op:
                case Const() | Index() | Bound() | DimSize():
                    repeated[item.op.result.name] = item.op
                case Map() | Cast() | Full() if item.op.result.type.axes and made[item.op.result.name] == 1:
                    known = all(not v.type.axes or v.name in repeated for v in operands(item.op))
                    if known and item.op.result.name not in multiplied:
                        repeated[item.op.result.name] = item.op
    return repeated


def _with_repeats(ops: list[Op], repeated: dict[str, Op]) -> list[Op]:
    """`ops` with the repeated operations they need, each once and before its first use."""
    placed: dict[str, None] = {}
    ordered: list[Op] = []

    def place(op: Op) -> None:
        for value in operands(op):
            if value.name in repeated and value.name not in placed:
                placed[value.name] = None
                place(repeated[value.name])
        ordered.append(op)

    for op in ops:
        if not results_in(op, placed):
            placed.update(dict.fromkeys(r.name for r in results(op)))
            place(op)
    return ordered


def _structural(bodies: list[LoopBody]) -> set[str]:
    """Values that loops and guards themselves need: bounds, conditions, initial and next values."""
    needed = {v.name for b in bodies for a in b.axes for v in (a.start, a.stop) if v is not None}
    needed |= {c for b in bodies for i in b.items for c, _ in i.guards}
    return needed | {v.name for b in bodies for c in b.carried for v in (c[0], c[2])}


def _node(at: int, item: Item, bodies: list[LoopBody], repeated: dict[str, Op]) -> Node:
    if item.loop is not None:
        reads, writes = _loop_effects(item.loop, bodies)
        return Node(at, None, [], item.guards, item.loop, reads | {c for c, _ in item.guards}, writes)
    op = item.op
    reads = {v.name for o in _with_repeats([op], repeated) for v in operands(o)} - repeated.keys()
    reads |= {c for c, _ in item.guards}
    return Node(at, _kind(op), [op], item.guards, None, reads, {r.name for r in results(op)})


def _loop_effects(loop: int, bodies: list[LoopBody]) -> tuple[set[str], set[str]]:
    """What an inner loop reads from outside and makes for the outside."""
    body = bodies[loop]
    reads = {v.name for a in body.axes for v in (a.start, a.stop) if v is not None}
    reads |= {init.name for init, _, _, _ in body.carried}
    made = {arg.name for _, arg, _, _ in body.carried}
    for item in body.items:
        if item.loop is not None:
            inner_reads, inner_writes = _loop_effects(item.loop, bodies)
        else:
            inner_reads, inner_writes = {v.name for v in operands(item.op)}, {r.name for r in results(item.op)}
        reads |= inner_reads | {c for c, _ in item.guards}
        made |= inner_writes
    return reads - made, {result.name for _, _, _, result in body.carried}


def _kind(op: Op) -> Kind:
    match op:
        case Store():
            return Kind.STORE
        case AtomicAdd():
            return Kind.ATOMIC
        case Dot():
            return Kind.DOT
        case Load() if op.result.type.axes:
            return Kind.GATHER if _is_gather(op.subscripts) else Kind.LOAD
        case Load():
            return Kind.SCALAR
    touched = (*results(op), *operands(op))
    return Kind.VECTOR if any(v.type.axes for v in touched) else Kind.SCALAR


def _is_gather(subscripts: tuple[Subscript, ...]) -> bool:
    return any(t.value is not None and t.value.type.axes for s in subscripts for t in s.terms)


def _accumulating_dots(nodes: list[Node], body: LoopBody) -> list[Node]:
    """Give a dot the addition to a carried value that is its result's only use."""
    readers: dict[str, list[Node]] = {}
    for node in nodes:
        for name in node.reads:
            readers.setdefault(name, []).append(node)
    nexts = {following.name for _, _, following, _ in body.carried}
    gone: set[int] = set()
    for node in nodes:
        if node.kind is not Kind.DOT:
            continue
        dot = node.ops[0]
        uses = readers.get(dot.result.name, [])
        if len(uses) != 1 or uses[0].guards != node.guards or not uses[0].ops:
            continue
        add = uses[0].ops[0]
        same = isinstance(add, Map) and add.fn == "add" and all(a.type == dot.result.type for a in add.args)
        if same and add.args[0] != add.args[1] and add.result.name in nexts and add.result.type == dot.result.type:
            node.ops.append(add)
            node.reads |= uses[0].reads - {dot.result.name}
            node.writes = {add.result.name}
            node.at = uses[0].at
            gone.add(id(uses[0]))
    return [n for n in nodes if id(n) not in gone]


def _scalars_from_tiles(nodes: list[Node], body: LoopBody) -> None:
    """Rank-0 code on what vector code made (a row's sum) belongs to the vector code."""
    made = {arg.name for _, arg, _, _ in body.carried}
    for node in ordered(nodes):
        if node.kind is Kind.SCALAR and not isinstance(node.ops[0], Load) and node.reads & made:
            node.kind = Kind.VECTOR
        if node.kind is not Kind.SCALAR:
            made |= node.writes


def _set_depths(nodes: list[Node], body: LoopBody, repeated: dict[str, Op]) -> None:
    """How many of the grid's axes must be known before a node can run: scalar code that bounds an axis must not be
    fused with code that looks at that axis."""
    position = {a.axis.name: at + 1 for at, a in enumerate(body.axes)}
    depth_of: dict[str, int] = {}
    for node in ordered(nodes):
        axes = {a for op in _with_repeats(node.ops, repeated) for a in depends_on_axes(op)}
        own = max((position.get(a, 0) for a in axes), default=0)
        node.depth = max([own, *(depth_of.get(name, 0) for name in node.reads)])
        depth_of.update(dict.fromkeys(node.writes, node.depth))


# ---------------------------------------------------------------- sTasks


def _task(node: Node, body: LoopBody, bodies: list[LoopBody], repeated: dict[str, Op], names: set[str]) -> STask:
    ops = tuple(_with_repeats(node.ops, repeated))
    writes = _written(node, bodies)
    axes: dict[str, None] = {}
    for op in node.ops:
        axes.update(dict.fromkeys(a for v in (*operands(op), *results(op)) for a in v.type.axes))
        axes.update(dict.fromkeys(sorted(depends_on_axes(op))))
    name = _name(node, writes, names)
    methods = _methods(node, {a.axis.name for b in bodies for a in b.axes if a.axis.kind is AxisKind.EACH})
    return STask(
        name, node.kind, ops, tuple(axes), tuple(sorted(node.reads)), writes, methods, body.id, node.ops[-1].loc
    )


def _written(node: Node, bodies: list[LoopBody]) -> tuple[str, ...]:
    """The values that somebody outside the sTask reads."""
    inside = {id(op) for op in node.ops}
    outside = _structural(bodies)
    for body in bodies:
        for item in body.items:
            if item.op is not None and id(item.op) not in inside:
                outside |= {v.name for v in operands(item.op)}
    made = [r.name for op in node.ops for r in results(op)]
    return tuple(dict.fromkeys(name for name in made if name in outside))


def _name(node: Node, writes: tuple[str, ...], names: set[str]) -> str:
    """Kind and the user's name of what it makes: load_a, dot_acc, vector_p, store_out."""
    match node.ops[-1]:
        case Store(tensor=tensor) | AtomicAdd(tensor=tensor):
            subject = tensor
        case Load(tensor=tensor):
            subject = tensor
        case _:
            ranks = {r.name: len(r.type.axes) for op in node.ops for r in results(op)}
            given = [w for w in writes if w.split(".")[0] not in UNNAMED]
            subject = max(given or writes or [node.ops[-1].result.name], key=lambda w: ranks.get(w, 0))
    stem = f"{node.kind}_{subject.split('.')[0]}"
    name, count = stem, 1
    while name in names:
        count += 1
        name = f"{stem}_{count}"
    names.add(name)
    return name


def _methods(node: Node, each: set[str]) -> tuple[Method, ...]:
    match node.kind:
        case Kind.LOAD:
            bulk = (Method.BULK_COPY,) if _is_box(node.ops[0].subscripts, each) else ()
            return (*bulk, Method.ASYNC_COPY, Method.PACK, Method.LOAD_STORE)
        case Kind.GATHER:
            return (Method.ASYNC_COPY, Method.PACK, Method.LOAD_STORE)
        case Kind.STORE:
            box = _is_box(node.ops[0].subscripts, each)
            return (Method.BULK_COPY, Method.LOAD_STORE) if box else (Method.LOAD_STORE,)
        case Kind.ATOMIC:
            return (Method.LOAD_STORE,)
        case Kind.DOT:
            return (Method.MATRIX, Method.VECTOR)
        case Kind.VECTOR:
            return (Method.VECTOR,)
    return (Method.SCALAR,)


def _is_box(subscripts: tuple[Subscript, ...], each: set[str]) -> bool:
    """Whether the tile is a box of the tensor: at most one tiled axis, with coefficient 1, in each dimension (`each`
    names axes whose index is a scalar: they only move the box)."""
    seen: list[str] = []
    for subscript in subscripts:
        axes = [t for t in subscript.terms if t.axis is not None and t.axis not in each]
        tiled = [t for t in subscript.terms if t.value is not None and t.value.type.axes]
        if tiled or len(axes) > 1 or any(t.coefficient != 1 for t in axes):
            return False
        seen += [t.axis for t in axes]
    return len(set(seen)) == len(seen)
