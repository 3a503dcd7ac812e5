"""Task graphs written by hand, so that scheduler tests stand on nothing but the task level's data."""

from __future__ import annotations

from threadloom.dtypes import Dtype, bf16, f16, f32
from threadloom.task.ops import Edge, Kind, Loop, Method, STask, TaskGraph, Tile
from threadloom.tile.ops import (
    Access,
    Axis,
    AxisKind,
    Block,
    Cast,
    Const,
    Dot,
    Full,
    Grid,
    Kernel,
    Load,
    LoopAxis,
    Map,
    Reduce,
    Store,
    Subscript,
    Tensor,
    Term,
    TileType,
    Value,
)

LOADS = (Method.BULK_COPY, Method.ASYNC_COPY, Method.LOAD_STORE, Method.PACK)


def value(name: str, axes: str, dtype: Dtype) -> Value:
    return Value(name, TileType(tuple(axes.split()), dtype))


def at(*axes: str) -> tuple[Subscript, ...]:
    return tuple(Subscript((Term(1, a),)) for a in axes)


def load(result: Value, tensor: str, *axes: str, loop: int) -> STask:
    return STask(
        f"load_{result.name}",
        Kind.LOAD,
        (Load(result, tensor, at(*axes)),),
        tuple(axes),
        (),
        (result.name,),
        LOADS,
        loop,
    )


def store(v: Value, tensor: str, *axes: str) -> STask:
    ops = (Store(tensor, at(*axes), v),)
    return STask(
        f"store_{v.name}", Kind.STORE, ops, tuple(axes), (v.name,), (), (Method.BULK_COPY, Method.LOAD_STORE), 0
    )


def task(name: str, kind: Kind, ops: tuple, reads: str, writes: str, loop: int) -> STask:
    methods = {Kind.DOT: (Method.MATRIX, Method.VECTOR), Kind.VECTOR: (Method.VECTOR,)}[kind]
    axes = dict.fromkeys(a for op in ops if hasattr(op, "result") for a in op.result.type.axes)
    return STask(name, kind, ops, tuple(axes), tuple(reads.split()), tuple(writes.split()), methods, loop)


def tile(v: Value, producers: str, consumers: str, carried: int | None = None) -> Tile:
    return Tile(v.name, v.type, tuple(producers.split()), tuple(consumers.split()), carried)


def matmul(dtype: Dtype = f16, out: Dtype | None = None) -> TaskGraph:
    """c[m, n] = cast(sum over k of a[m, k] * b[k, n])."""
    out = out or dtype
    a, b = value("a", "m k", dtype), value("b", "k n", dtype)
    init, arg, nxt, result = (value(n, "m n", f32) for n in ("acc", "acc.1", "acc.2", "acc.3"))
    prod, zero, c = value("prod", "m n", f32), value("zero", "", f32), value("c", "m n", out)
    axes = {x: Axis(x, x.upper(), AxisKind.TILE) for x in "mnk"}
    tensors = (
        Tensor("A", ("M", "K"), dtype, Access.IN),
        Tensor("B", ("K", "N"), dtype, Access.IN),
        Tensor("C", ("M", "N"), out, Access.OUT),
    )
    grid_axes = (LoopAxis(axes["m"]), LoopAxis(axes["n"]))
    kernel = Kernel("matmul", tensors, (), tuple(axes.values()), Block((Grid(grid_axes, Block(())),)))
    plain = out == f32
    stored = result if plain else c
    tasks = [
        task("init", Kind.VECTOR, (Const(zero, 0.0), Full(init, zero)), "", "acc", 0),
        load(a, "A", "m", "k", loop=1),
        load(b, "B", "k", "n", loop=1),
        task("dot", Kind.DOT, (Dot(prod, a, b, ("k",)), Map(nxt, "add", (arg, prod))), "a b acc.1", "acc.2", 1),
    ]
    edges = [
        Edge("init", "dot", "acc"),
        Edge("load_a", "dot", "a"),
        Edge("load_b", "dot", "b"),
        Edge("dot", "dot", "acc.2", 1),
    ]
    last = store(stored, "C", "m", "n")
    tiles = [tile(a, "load_a", "dot"), tile(b, "load_b", "dot")]
    if plain:
        tasks.append(last)
        edges.append(Edge("dot", last.name, "acc.3"))
        tiles.append(tile(init, "init dot", f"dot {last.name}", carried=1))
    else:
        tasks += [task("out", Kind.VECTOR, (Cast(c, result),), "acc.3", "c", 0), last]
        edges += [Edge("dot", "out", "acc.3"), Edge("out", last.name, "c")]
        tiles += [tile(init, "init dot", "dot out", carried=1), tile(c, "out", last.name)]
    after = ("store_acc.3",) if plain else ("out", "store_c")
    loops = (
        Loop(0, None, grid_axes, ("init", 1, *after)),
        Loop(1, 0, (LoopAxis(axes["k"]),), ("load_a", "load_b", "dot"), ((init, arg, nxt, result),)),
    )
    return TaskGraph(kernel, tuple(tasks), tuple(edges), tuple(tiles), loops)


def attention(dtype: Dtype = bf16, head: int = 128, split: bool = False) -> TaskGraph:
    """o[m, e] = softmax(q[m, d] k[n, d]) v[n, e] with a running maximum; `split`: softmax in three sTasks."""
    q, k, v = value("q", "m d", dtype), value("k", "n d", dtype), value("v", "n e", dtype)
    s, p, p32 = value("s", "m n", f32), value("p", "m n", dtype), value("p32", "m n", f32)
    shifted, scaled = value("shifted", "m n", f32), value("scaled", "m n", f32)
    top, mx = value("top", "m", f32), [value(x, "m", f32) for x in ("mx", "mx.1", "mx.2", "mx.3")]
    sm, row = [value(x, "m", f32) for x in ("sm", "sm.1", "sm.2", "sm.3")], value("row", "m", f32)
    alpha, delta, decayed = value("alpha", "m", f32), value("delta", "m", f32), value("decayed", "m", f32)
    acc = [value(x, "m e", f32) for x in ("acc", "acc.1", "acc.2", "acc.3")]
    shrunk, pv = value("shrunk", "m e", f32), value("pv", "m e", f32)
    zero, low, scale = value("zero", "", f32), value("low", "", f32), value("scale", "", f32)
    o = value("o", "m e", dtype)
    each = [Axis(x, x.upper(), AxisKind.EACH) for x in ("b", "h")]
    m, n = Axis("m", "S", AxisKind.TILE), Axis("n", "T", AxisKind.TILE)
    d, e = Axis("d", head, AxisKind.WHOLE), Axis("e", head, AxisKind.WHOLE)
    tensors = tuple(
        Tensor(t, ("B", "H", x, head), dtype, Access.OUT if t == "O" else Access.IN)
        for t, x in (("Q", "S"), ("K", "T"), ("V", "T"), ("O", "S"))
    )
    grid_axes = tuple(LoopAxis(a) for a in (*each, m))
    kernel = Kernel("attention", tensors, (), (*each, m, n, d, e), Block((Grid(grid_axes, Block(())),)))
    ops_max = (Reduce(top, "max", s, "n"), Map(mx[2], "maximum", (mx[1], top)))
    ops_alpha = (Map(delta, "sub", (mx[1], mx[2])), Map(alpha, "exp2", (delta,)))
    ops_exp = (Map(scaled, "mul", (s, scale)), Map(shifted, "sub", (scaled, mx[2])), Map(p32, "exp2", (shifted,)))
    ops_sum = (Reduce(row, "sum", p32, "n"), Map(decayed, "mul", (sm[1], alpha)), Map(sm[2], "add", (decayed, row)))
    if split:
        softmax = [
            task("max", Kind.VECTOR, (*ops_max, *ops_alpha), "s mx.1", "mx.2 alpha", 1),
            task("exp", Kind.VECTOR, (*ops_exp, *ops_sum), "s mx.2 sm.1 alpha", "p32 sm.2", 1),
            task("cvt", Kind.VECTOR, (Cast(p, p32),), "p32", "p", 1),
        ]
    else:
        every = (*ops_max, *ops_alpha, *ops_exp, *ops_sum, Cast(p, p32))
        softmax = [task("softmax", Kind.VECTOR, every, "s mx.1 sm.1", "mx.2 sm.2 alpha p", 1)]
    first, last = softmax[0].name, softmax[-1].name
    tasks = (
        load(q, "Q", "b", "h", "m", "d", loop=0),
        task("init", Kind.VECTOR, (Full(mx[0], low), Full(sm[0], zero), Full(acc[0], zero)), "", "mx sm acc", 0),
        load(k, "K", "b", "h", "n", "d", loop=1),
        task("qk", Kind.DOT, (Dot(s, q, k, ("d",)),), "q k", "s", 1),
        *softmax,
        task("rescale", Kind.VECTOR, (Map(shrunk, "mul", (acc[1], alpha)),), "acc.1 alpha", "shrunk", 1),
        load(v, "V", "b", "h", "n", "e", loop=1),
        task("pv", Kind.DOT, (Dot(pv, p, v, ("n",)), Map(acc[2], "add", (shrunk, pv))), "p v shrunk", "acc.2", 1),
        task("final", Kind.VECTOR, (Map(o, "div", (acc[3], sm[3])), Cast(o, o)), "acc.3 sm.3", "o", 0),
        store(o, "O", "b", "h", "m", "e"),
    )
    edges = _attention_edges(first, last, split)
    tiles = _attention_tiles(first, last, split, q, k, v, s, p, p32, alpha, mx[0], sm[0], acc[0], o)
    carried = tuple((x[0], x[1], x[2], x[3]) for x in (mx, sm, acc))
    inner = ("load_k", "qk", *(t.name for t in softmax), "rescale", "load_v", "pv")
    loops = (
        Loop(0, None, grid_axes, ("load_q", "init", 1, "final", "store_o")),
        Loop(1, 0, (LoopAxis(n),), inner, carried),
    )
    return TaskGraph(kernel, tasks, edges, tiles, loops)


def _attention_edges(first: str, last: str, split: bool) -> tuple[Edge, ...]:
    """`first`, `last`: the sTasks that begin and end the softmax; `split`: it is three."""
    summer = "exp" if split else first
    edges = [
        Edge("load_q", "qk", "q"),
        Edge("load_k", "qk", "k"),
        Edge("qk", first, "s"),
        Edge(first, first, "mx.2", 1),
        Edge(first, "rescale", "alpha"),
        Edge(last, "pv", "p"),
        Edge("rescale", "pv", "acc"),
        Edge("load_v", "pv", "v"),
        Edge("pv", "rescale", "acc.2", 1),
        Edge("init", "rescale", "acc"),
        Edge("init", first, "mx"),
        Edge("pv", "final", "acc.3"),
        Edge("final", "store_o", "o"),
        Edge(summer, summer, "sm.2", 1),
        Edge("init", summer, "sm"),
        Edge(summer, "final", "sm.3"),
    ]
    if split:
        edges += [Edge("qk", "exp", "s"), Edge("max", "exp", "mx.2"), Edge("max", "exp", "alpha")]
        edges.append(Edge("exp", "cvt", "p32"))
    return tuple(edges)


def _attention_tiles(first: str, last: str, split: bool, *values: Value) -> tuple[Tile, ...]:
    q, k, v, s, p, p32, alpha, top, total, acc, o = values
    summer, then = ("exp", f"{first} exp") if split else (first, first)
    tiles = [
        tile(q, "load_q", "qk"),
        tile(k, "load_k", "qk"),
        tile(v, "load_v", "pv"),
        tile(s, "qk", then),
        tile(p, last, "pv"),
        tile(alpha, first, "rescale exp" if split else "rescale"),
        tile(top, f"init {first}", then, carried=1),
        tile(total, f"init {summer}", f"{summer} final", carried=1),
        tile(acc, "init rescale pv", "rescale pv final", carried=1),
        tile(o, "final", "store_o"),
    ]
    return (*tiles, *([tile(p32, "exp", "cvt")] if split else []))
