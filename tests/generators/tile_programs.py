"""Random tile programs for property tests: text, arguments, and which features of the language each one uses.

`program(seed)` is deterministic, and keeps its meaning: tests remember seeds that once failed. Seeds from `WIDE` on
belong to a second family, which adds integers, bool, indices of extrema, ranges of the grid that come from a tensor,
several axes in one stream and more dtypes of products; those from `BROAD` on to a third, which adds products with batch
axes, over several axes, with vectors, of products and of gathered rows, and positions that a loop carries; those from
`LOOPS` on to the fourth, of loops in and after loops (`loop_programs.py`).

Values stay near 1 and conditions depend only on integers, so that two correct executions differ by rounding alone. The
features of many programs are counted and printed by the tests that use them.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from generators.kernel_text import kernel_from_text

from threadloom.dtypes import ALL, Dtype, numpy_dtype
from threadloom.lang.kernel import Kernel
from threadloom.tile.ops import AxisKind

FLOATS = ("f32", "f32", "f64", "f16", "bf16")
UNARY = ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "tanh", "erf", "sin", "cos", "abs", "neg")
BINARY = ("add", "sub", "mul", "div", "maximum", "minimum")
ACTIVATIONS = ("relu", "sigmoid", "silu", "gelu", "softplus")
WIDE = 10_000
BROAD = 3_000_000_000
LOOPS = 6_000_000_000
EXTENTS = (1, 2, 3, 5, 7, 8, 16, 17, 24, 33, 40)


@dataclass(frozen=True, slots=True)
class Program:
    seed: int
    text: str
    kernel: Kernel
    arguments: dict[str, object]
    tiles: dict[str, int]  # a random cut
    reduction_length: int
    features: Counter[str]


@dataclass(frozen=True, slots=True)
class Var:
    """A float tile in the program: its expression or name, and axes."""

    text: str
    axes: tuple[str, ...]
    dtype: str


@dataclass(slots=True)
class Writer:
    rng: random.Random
    lines: list[str] = field(default_factory=list)
    params: list[str] = field(default_factory=list)
    arrays: dict[str, tuple[tuple[str, ...], str]] = field(default_factory=dict)  # name -> dims, dtype
    features: Counter[str] = field(default_factory=Counter)
    indent: int = 1
    count: int = 0
    wide: bool = False
    packed_rows: bool = False  # the grid's m runs over ranges that a tensor gives

    def line(self, text: str) -> None:
        self.lines.append("    " * self.indent + text)

    def fresh(self, stem: str = "t") -> str:
        self.count += 1
        return f"{stem}{self.count}"

    def use(self, feature: str) -> None:
        self.features[feature] += 1

    def tensor(self, dims: tuple[str, ...], dtype: str) -> str:
        name = self.fresh("x")
        self.arrays[name] = (dims, dtype)
        spelled = ", ".join(f'"{d}"' for d in dims)
        self.params.append(f"{name}: tl.Tensor[{spelled}, tl.{ALL[dtype]!r}]".replace("tl.tl.", "tl."))
        return name


AXIS_DIM = {"m": "M", "n": "N", "b": "B", "k": "K", "j": "J", "w": "W"}


def program(seed: int) -> Program:
    if seed >= LOOPS:
        from generators.loop_programs import loop_program  # made of this module's parts

        return loop_program(seed)
    rng = random.Random(seed)
    w = Writer(rng, wide=seed >= WIDE)
    grid = rng.choice((("m",), ("m", "n"), ("b", "m"), ("b", "m", "n"), ("n", "m")))
    whole = rng.random() < 0.4
    if w.wide and grid[0] == "m" and rng.random() < 0.3:
        _open_ranges(w, grid)
    else:
        _open_grid(w, grid)
    w.indent += 1
    if whole:
        w.line('w = tl.axis("W")')
        w.use("axis whole")
    values = [_load(w, grid, whole) for _ in range(rng.randint(1, 3))]
    values = _straight(w, values, rng.randint(1, 5))
    if w.wide:
        values += [_integers(w, grid, whole) for _ in range(rng.randint(0, 2))]
    if seed >= BROAD:
        values += [_product(w, grid, number) for number in range(rng.randint(1, 2))]
        values += [_carried_position(w)] if rng.random() < 0.4 else []
    if rng.random() < (0.3 if seed >= BROAD else 0.7):
        values += _stream(w, grid, values)
    if rng.random() < 0.3:
        values += [_branch(w, values, grid)]
    values = _straight(w, values, rng.randint(0, 3))
    output_dtype = _store(w, grid, values)
    return _finish(w, seed, grid, output_dtype)


# ---------------------------------------------------------------- parts of a program


def _open_grid(w: Writer, grid: tuple[str, ...]) -> None:
    axes = [f'tl.each("{AXIS_DIM[a]}")' if a == "b" else f'"{AXIS_DIM[a]}"' for a in grid]
    if w.rng.random() < 0.25 and grid[0] == "b":
        w.use("grid nested")
        w.line(f"for b in tl.grid({axes[0]}):")
        w.indent += 1
        axes, grid = axes[1:], grid[1:]
    for axis in grid:
        w.use("grid each" if axis == "b" else "grid tile")
    w.line(f"for {', '.join(grid)} in tl.grid({', '.join(axes)}):")


def _open_ranges(w: Writer, grid: tuple[str, ...]) -> None:
    """m in ranges that together cover the dimension, some of them empty."""
    starts = w.tensor(("R + 1",), "i32")
    w.packed_rows = True
    w.use("grid ranges")
    w.line('for r in tl.grid(tl.each("R")):')
    w.indent += 1
    others = "".join(f', "{AXIS_DIM[a]}"' for a in grid[1:])
    w.line(f'for {", ".join(grid)} in tl.grid(tl.span("M", {starts}[r], {starts}[r + 1]){others}):')


INTEGER_STEPS = (
    "{a} + 3", "{a} - 2", "{a} * 3", "{a} // 3", "{a} % 5", "tl.cast({a}, tl.i32) // -2", "{a} & 6",
    "{a} | 1", "{a} ^ 5", "~{a}",
    "{a} << 1", "{a} >> 1", "{a} << {b}", "{a} >> {b}", "{a} + {b}", "{a} * {b}", "{a} % {b}", "{a} // {b}", "-{a}",
    "tl.maximum({a}, {b})", "tl.minimum({a}, 5)", "tl.abs({a})", "tl.where({a} > {b}, {a}, 1)",
    "tl.where(({a} != 2) ^ ({b} <= 3), {b}, {a})", "tl.cast({a}, tl.i64)", "tl.cast({a}, tl.i8)", "tl.cast({a}, tl.u8)",
    "tl.cast({a}, tl.u4)", "tl.cast({a} * 1.75 - 3, tl.i32)", "tl.cast(tl.cast({a}, tl.f16) * 0.5, tl.u8)",
    "{a} + {axis} * 2", "tl.cast({a} == 3, tl.i32)",
)  # fmt: skip


def _integers(w: Writer, grid: tuple[str, ...], whole: bool) -> Var:
    """Exact code on integers, whose result joins the float values at the end."""
    rng = w.rng
    chosen = [a for a in grid if a != "b" and rng.random() < 0.8] or ["m"]
    chosen += ["w"] if whole and rng.random() < 0.7 else []
    dtype = rng.choice(("i8", "u8", "i32", "i64", "u4"))
    name, other = (w.tensor(tuple(AXIS_DIM[a] for a in chosen), d) for d in (dtype, rng.choice(("i32", dtype))))
    a, b = w.fresh("i"), w.fresh("i")
    w.line(f"{a}, {b} = {name}[{', '.join(chosen)}], {other}[{', '.join(chosen)}]")
    w.use(f"load {dtype}")
    for _ in range(rng.randint(1, 4)):
        step = rng.choice(INTEGER_STEPS)
        c = w.fresh("i")
        w.line(f"{c} = {step.format(a=a, b=b, axis=rng.choice(chosen))}")
        w.use(f"integer {step}")
        a, b = (c, a) if rng.random() < 0.5 else (c, b)
    axes = tuple(chosen)
    if "w" in axes and rng.random() < 0.8:
        kind = rng.choice(("sum", "max", "min", "prod", "argmax", "argmin", "any", "all", "cumsum", "cummax", "cummin"))
        c = w.fresh("i")
        operand = f"{a} > 2" if kind in ("any", "all") else a
        w.line(f"{c} = tl.{kind}({operand}, w)")
        w.use(f"whole {kind} integer")
        a, axes = c, axes if kind.startswith("cum") else tuple(x for x in axes if x != "w")
    result = w.fresh()
    w.line(f"{result} = tl.cast(tl.cast({a}, tl.i64) % 8, tl.f32) * 0.125 + 0.5")
    return Var(result, axes, "f32")


def _product(w: Writer, grid: tuple[str, ...], number: int) -> Var:
    """A product of a form that has more than rows, columns and depth, or fewer. Its axes have names of its own."""
    rng = w.rng
    d, h, e = (f"{name}{number}" for name in "dhe")
    kind = rng.choice(("batch", "batch kept", "two depths", "vector", "of a product", "both ways", "gathered"))
    dtype = rng.choice(("f16", "bf16", "f32", "f32", "f64"))
    w.line(f'{d}, {h}, {e} = tl.axis("K"), tl.axis("J"), tl.axis("W")')
    w.use(f"product {kind} {dtype}")
    a, b = w.tensor(("M", "J", "K"), dtype), w.tensor(("W", "J", "K"), dtype)
    left, right = f"{a}[m, {h}, {d}]", f"{b}[{e}, {h}, {d}]"
    match kind:
        case "batch":
            text, axes = f"tl.max(tl.max(tl.dot({left}, {right}, over={d}), {h}), {e})", ("m",)
        case "batch kept":
            text, axes = f"tl.sum(tl.sum(tl.dot({left}, {right}, over={d}) * 0.125, {e}), {h})", ("m",)
        case "two depths":
            text, axes = f"tl.max(tl.dot({left}, {right}, over=({h}, {d})), {e})", ("m",)
        case "vector":
            x = w.tensor(("K",), dtype)
            text, axes = f"tl.max(tl.dot({left}, {x}[{d}]), {h})", ("m",)
        case "of a product" | "both ways":
            c = w.tensor(("W", "K"), dtype)
            s = w.fresh("s")
            w.line(f"{s} = tl.cast(tl.dot({a}[m, 0, {d}], {c}[{e}, {d}]) * 0.0625, tl.{dtype})")
            f = f"f{number}"
            w.line(f'{f} = tl.axis("K")')
            text = f"tl.max(tl.dot({s}, {c}[{e}, {f}]), {f})"
            if kind == "both ways":
                text = f"{text} + tl.max(tl.dot({c}[{e}, {f}], {s}), {f})"
            axes = ("m",)
        case "gathered":
            index, x = w.tensor(("M",), "i32"), w.tensor(("N", "K"), dtype)
            row = w.fresh("row")
            w.line(f"{row} = ({index}[m] * 3 + 1) % tl.dim('N')")
            text, axes = f"tl.max(tl.dot({x}[{row}, {d}], {b}[{e}, 0, {d}]), {e})", ("m",)
    var = w.fresh()
    w.line(f"{var} = {_bounded(f'tl.cast({text}, tl.f32) * 0.0625', rng)}")
    return Var(var, axes, "f32")


def _carried_position(w: Writer) -> Var:
    """A loop over rows of which each names the next."""
    first, link, x = w.tensor(("J",), "i32"), w.tensor(("N",), "i32"), w.tensor(("N", "M"), "f32")
    at, acc = w.fresh("at"), w.fresh("acc")
    w.line(f"{at} = {first}[0]")
    w.line(f"{acc} = tl.zeros(m)")
    w.line('for _ in tl.stream(tl.each("J")):')
    w.line(f"    {acc} += {x}[{at}, m]")
    w.line(f"    {at} = {link}[{at}]")
    w.use("carried position")
    var = w.fresh()
    w.line(f"{var} = {_bounded(f'{acc} * 0.25', w.rng)}")
    return Var(var, ("m",), "f32")


def _load(w: Writer, axes: tuple[str, ...], whole: bool, dtype: str = "") -> Var:
    """A tile of a new tensor: over some of the axes, plain or gathered or shifted over the edge."""
    rng = w.rng
    dtype = dtype or rng.choice(FLOATS)
    chosen = [a for a in axes if rng.random() < 0.8] or [axes[-1]]
    rng.shuffle(chosen)
    if whole and rng.random() < 0.6:
        chosen.append("w")
    name = w.tensor(tuple(AXIS_DIM[a] for a in chosen), dtype)
    subscripts = list(chosen)
    style = rng.random()
    tiled = [at for at, a in enumerate(chosen) if a != "b"]
    if style < 0.15 and tiled:
        at = rng.choice(tiled)
        subscripts[at] = f"{chosen[at]} {rng.choice(('+', '-'))} {rng.randint(1, 3)}"
        w.use("load shifted")
    elif style < 0.25 and tiled:
        at = rng.choice(tiled)
        index = w.tensor((AXIS_DIM[chosen[at]],), "i32")
        subscripts[at] = f"{index}[{chosen[at]}]"
        w.use("load gather")
    elif style < 0.3 and "b" in chosen and rng.random() < 0.5:
        index = w.tensor(("B",), "i32")
        subscripts[chosen.index("b")] = f"{index}[b]"
        w.use("load scalar index")
    else:
        w.use("load plain")
    w.use(f"load {dtype}")
    axes_of = tuple(a for a in chosen if a != "b")
    var = w.fresh()
    # a shifted load reads 0 outside; keep what follows away from 0
    w.line(f"{var} = {name}[{', '.join(subscripts)}] + 0.25")
    return Var(var, axes_of, dtype)


def _bounded(text: str, rng: random.Random) -> str:
    """Keep a value in about [0.3, 2]."""
    return rng.choice(
        (f"tl.abs(tl.sin({text})) + 0.5", f"tl.minimum(tl.abs({text}), 1.5) + 0.4", f"tl.sigmoid({text}) + 0.5")
    )


def _straight(w: Writer, values: list[Var], count: int) -> list[Var]:
    """Elementwise code, casts and reductions over the whole axis."""
    rng = w.rng
    values = list(values)
    for _ in range(count):
        a = rng.choice(values)
        kind = rng.random()
        if kind < 0.3:
            fn = rng.choice(UNARY)
            text, axes, dtype = (f"-{a.text}" if fn == "neg" else f"tl.{fn}({a.text})"), a.axes, a.dtype
            w.use(f"map {fn} {dtype}")
        elif kind < 0.6:
            b, fn = rng.choice(values), rng.choice(BINARY)
            sign = {"add": "+", "sub": "-", "mul": "*", "div": "/"}.get(fn)
            text = f"{a.text} {sign} {b.text}" if sign else f"tl.{fn}({a.text}, {b.text})"
            axes, dtype = _union(a, b), _promoted(a.dtype, b.dtype)
            w.use(f"map {fn} {dtype}")
        elif kind < 0.7:
            fn = rng.choice(ACTIVATIONS)
            text, axes, dtype = f"tl.{fn}({a.text})", a.axes, a.dtype
            w.use(f"library {fn}")
        elif kind < 0.8:
            dtype = rng.choice(("f32", "f16", "bf16", "f64", "f8e4m3"))
            text, axes = f"tl.cast({a.text}, tl.{dtype})", a.axes
            w.use(f"cast {a.dtype} {dtype}")
            if dtype == "f8e4m3":
                text, dtype = f"tl.cast({text}, tl.f32)", "f32"
        elif kind < 0.9 and a.axes:
            text, axes, dtype = _mask(w, a), a.axes, a.dtype
        elif "w" in a.axes:
            text, axes, dtype = _over_whole(w, a)
        else:
            continue
        var = w.fresh()
        w.line(f"{var} = {_bounded(text, rng)}")
        values.append(Var(var, axes, dtype))
    return values


def _union(a: Var, b: Var) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*a.axes, *b.axes)))


def _promoted(a: str, b: str) -> str:
    from threadloom.tile.promote import promote

    return promote(ALL[a], ALL[b]).name


def _mask(w: Writer, a: Var) -> str:
    """A condition on integers only: index values."""
    rng = w.rng
    axis = rng.choice(a.axes)
    other = rng.choice(a.axes)
    conditions = (
        f"{axis} >= {other}",
        f"{axis} % 3 != 1",
        f"({axis} // 2) * 2 == {axis}",
        f"tl.index({axis}) < {rng.randint(0, 9)}",
        f"({axis} < 4) | ({other} > 6)",
        f"~({axis} == 2)",
        f"(tl.cast({axis} + 0, tl.i32) & 3) ^ 1 > 1",
        f"(tl.index({axis}) << 1) >> 2 != 1",
    )
    w.use("map where")
    return f"tl.where({rng.choice(conditions)}, {a.text}, {rng.choice(('0.75', '1', 's'))})"


def _over_whole(w: Writer, a: Var) -> tuple[str, tuple[str, ...], str]:
    rng = w.rng
    axes = tuple(x for x in a.axes if x != "w")
    kind = rng.choice(("sum", "max", "min", "cumsum", "cummax", "prod"))
    w.use(f"whole {kind} {a.dtype}")
    if kind in ("sum", "prod"):
        dtype = "f64" if a.dtype == "f64" else "f32"
        text = f"tl.sum({a.text}, w) / tl.dim('W')" if kind == "sum" else f"tl.prod(tl.sin({a.text}), w)"
        return text, axes, dtype
    if kind == "cumsum":
        reverse = rng.choice(("", ", reverse=True"))
        return f"tl.cumsum({a.text}, w{reverse}) * 0.03125", a.axes, "f64" if a.dtype == "f64" else "f32"
    if kind == "cummax":
        return f"tl.cummax({a.text}, w)", a.axes, a.dtype
    return f"tl.{kind}({a.text}, w)", axes, a.dtype


def _stream(w: Writer, grid: tuple[str, ...], values: list[Var]) -> list[Var]:
    """A stream over k with one or two carried values: a dot, a sum, a maximum, an online rescaling, or counts."""
    rng = w.rng
    tiled = [a for a in grid if a != "b"]
    loop, bound = _stream_axis(w, tiled)
    each = loop.startswith("tl.each")
    carried: list[tuple[str, tuple[str, ...]]] = []
    for _ in range(rng.randint(1, 2)):
        axes = tuple(a for a in tiled if rng.random() < 0.8) or (tiled[0],)
        acc = w.fresh("acc")
        carried.append((acc, axes))
        w.line(f"{acc} = tl.zeros({', '.join(axes)})")
    outer = rng.random() < 0.25
    if w.wide and not outer and not each and rng.random() < 0.3:
        w.use("stream several axes")
        order = rng.random() < 0.5
        w.line(f"for {'j, k' if order else 'k, j'} in tl.stream({_both(loop, order)}):")
    elif outer:
        w.use("stream nested")
        w.line('for j in tl.stream(tl.each("J")):')
        w.indent += 1
    if "tl.stream(" not in w.lines[-1] or outer:
        w.line(f"for k in tl.stream({loop}):")
    w.indent += 1
    w.use("stream each" if each else "stream tile")
    if bound:
        w.use(f"stream bound {bound}")
    guarded = rng.random() < 0.2
    if guarded:
        flag = w.tensor(("J" if outer else "B" if "b" in grid else "J",), "i32")
        at = "j" if outer else "b" if "b" in grid else "0"
        w.line(f"if {flag}[{at}] % 2 == 0:")
        w.indent += 1
        w.use("if in stream")
    for acc, axes in carried:
        w.line(f"{acc} = {_step(w, acc, axes, each)}")
    w.indent -= guarded + outer + 1
    results = []
    for acc, axes in carried:
        var = w.fresh()
        w.line(f"{var} = {_bounded(f'{acc} * 0.0625', rng)}")
        results.append(Var(var, axes, "f32"))
    return results


def _both(loop: str, j_first: bool) -> str:
    return f'tl.each("J"), {loop}' if j_first else f'{loop}, tl.each("J")'


def _stream_axis(w: Writer, tiled: list[str]) -> tuple[str, str]:
    rng = w.rng
    kind = rng.choice(("plain", "plain", "plain", "each", "constant", "block", "tensor", "each bounded"))
    if kind == "plain":
        return '"K"', ""
    if kind == "each":
        return 'tl.each("K")', ""
    if kind == "constant":
        low = rng.randint(0, 4)
        return f'tl.span("K", {low}, {low + rng.randint(0, 20)})', kind
    if kind == "block":
        # what lies beyond the block is masked, so that the result does not depend on the cut
        return f'tl.span("K", 0, {tiled[0]}.stop + 2)', kind
    name = w.tensor(("J",), "i32")
    make = "each" if kind == "each bounded" else "span"
    return f'tl.{make}("K", {name}[0], {name}[0] + 9)', kind


def _step(w: Writer, acc: str, axes: tuple[str, ...], each: bool) -> str:
    """The next value of `acc`, a tile over `axes`, from slices at k."""
    rng = w.rng
    block = next((line for line in reversed(w.lines) if "tl.stream(" in line and "k" in line.split(" in ")[0]), "")
    masked = ".stop + 2" in block
    bound_axis = block.split(".stop")[0][-1] if masked else ""
    if masked and bound_axis not in axes:
        return f"{acc} + 0.0"
    mask = lambda text: f"tl.where(k < {bound_axis} + 2, {text}, 0.0)" if masked else text  # noqa: E731
    if each:
        x = w.tensor(("K", *(AXIS_DIM[a] for a in axes)), "f32")
        w.use("step each")
        return f"{acc} + " + mask(f"{x}[k, {', '.join(axes)}]")
    if len(axes) == 2 and rng.random() < 0.8:
        dtype = rng.choice(("f32", "f16", "bf16", "f8e4m3", "tf32", "f32") + (("i8", "u8", "f8e5m2", "f64") * w.wide))
        stored = "f32" if dtype == "tf32" else dtype
        a, b = w.tensor((AXIS_DIM[axes[0]], "K"), stored), w.tensor(("K", AXIS_DIM[axes[1]]), stored)
        w.use(f"dot {dtype}")
        left, right = f"{a}[{axes[0]}, k]", f"{b}[k, {axes[1]}]"
        if masked:
            side = (AXIS_DIM[bound_axis], "K")
            left = f"{a}[{axes[0]}, k]" if bound_axis == axes[0] else left
            if bound_axis == axes[0]:
                left = f"tl.cast(tl.where(k < {bound_axis} + 2, {left}, 0.0), tl.{stored})"
            else:
                right = f"tl.cast(tl.where(k < {bound_axis} + 2, {right}, 0.0), tl.{stored})"
            w.use(f"dot masked {side[0]}")
        if dtype == "tf32":
            left, right = f"tl.cast({left}, tl.tf32)", f"tl.cast({right}, tl.tf32)"
        if dtype in ("f32", "f16", "bf16") and not masked and rng.random() < 0.4:
            return _online(w, acc, axes, dtype, right)
        product = f"tl.dot({left}, {right})"
        return f"{acc} + " + (f"tl.cast({product}, tl.f32)" if dtype == "f64" else product)
    x = w.tensor((*(AXIS_DIM[a] for a in axes), "K"), "f32")
    tile = f"{x}[{', '.join(axes)}, k]"
    kind = rng.choice(("sum", "max", "count", "min"))
    w.use(f"step {kind}")
    if kind == "sum":
        return f"{acc} + tl.sum({mask(tile)}, k)"
    if kind == "count":
        return f"{acc} + tl.sum(" + (f"({tile} > 1.0) & (k < {bound_axis} + 2)" if masked else f"{tile} > 1.0") + ", k)"
    fn = "maximum" if kind == "max" else "minimum"
    return f"tl.{fn}({acc}, tl.{kind}({mask(tile)}, k))"


def _online(w: Writer, acc: str, axes: tuple[str, ...], dtype: str, right: str) -> str:
    """The pattern of attention: a running maximum rescales the accumulator. Its start is set before the loop."""
    scores = w.tensor((AXIS_DIM[axes[0]], "K"), "f32")
    top, new, old = w.fresh("top"), w.fresh("new"), w.fresh("old")
    before = next(at for at, line in enumerate(w.lines) if line.lstrip().startswith(f"{acc} = "))
    indent = w.lines[before][: len(w.lines[before]) - len(w.lines[before].lstrip())]
    w.lines.insert(before, f"{indent}{top} = tl.full(-8.0, {axes[0]})")
    tile = f"{scores}[{axes[0]}, k]"
    w.line(f"{new} = tl.maximum({top}, tl.max({tile}, k))")
    w.line(f"{old} = tl.exp2({top} - {new})")
    w.line(f"{top} = {new}")
    w.use(f"step online {dtype}")
    return f"{acc} * {old} + tl.dot(tl.cast(tl.exp2({tile} - {new}), tl.{dtype}), {right})"


def _branch(w: Writer, values: list[Var], grid: tuple[str, ...]) -> Var:
    """A condition on a scalar that chooses between two tiles."""
    a = w.rng.choice(values)
    condition = w.rng.choice(("tl.dim('M') > 7", "s > 1.0") + (("b % 2 == 0",) if "b" in grid else ()))
    name = w.fresh("r")
    w.line(f"if {condition}:")
    w.line(f"    {name} = {a.text} * 0.5 + 0.25")
    w.line("else:")
    w.line(f"    {name} = {a.text} + 0.0")
    w.use("if")
    return Var(name, a.axes, a.dtype)


def _store(w: Writer, grid: tuple[str, ...], values: list[Var]) -> str:
    """Mix all values into one output over the grid's axes (and the whole axis, if a value has it)."""
    rng = w.rng
    dtype = rng.choice(("f32", "f32", "f64", "f16", "bf16"))
    used = values[-3:]
    has_whole = any("w" in v.axes for v in used)
    total = " + ".join(v.text for v in used)
    place = [*grid, "w"] if has_whole else list(grid)
    w.use(f"store {dtype}")
    if rng.random() < 0.15 and dtype in ("f32", "f64") and not has_whole:
        dropped = rng.choice(grid)
        kept = [a for a in grid if a != dropped]
        if kept and dropped != "b":
            missing = " * ".join(f"(tl.index({dropped}) * 0 + 1.0)" for _ in (0,))
            w.line(f"tl.atomic_add(out[{', '.join(kept)}], tl.sum(({total}) * {missing}, {dropped}) * 0.125)")
            w.use("atomic add")
            w.arrays["out"] = (tuple(AXIS_DIM[a] for a in kept), dtype)
            return dtype
    w.line(f"out[{', '.join(place)}] = {total}")
    w.arrays["out"] = (tuple(AXIS_DIM[a] for a in place), dtype)
    return dtype


# ---------------------------------------------------------------- arguments


def _finish(w: Writer, seed: int, grid: tuple[str, ...], output_dtype: str) -> Program:
    rng = w.rng
    dims, dtype = w.arrays.pop("out")
    spelled = ", ".join(f'"{d}"' for d in dims)
    extents = {d: _extent(rng, d) for d in "MNBKJW"}
    extents |= {"R": rng.randint(1, 4)} if w.packed_rows else {}
    extents["R + 1"] = extents.get("R", 0) + 1
    if rng.random() < 0.04:
        extents[rng.choice("MNB")] = 0
        w.use("extent 0")
    used = {d for shape, _ in w.arrays.values() for d in shape} | set(dims)
    anchors = [d for d in "MNBKJW" if any(f'"{d}"' in line or f"'{d}'" in line for line in w.lines) or d in used]
    params = [*w.params, *(f'd{d}: tl.Tensor["{d}", tl.i8]' for d in anchors), "s: tl.f32"]
    head = ["@tl.kernel", "def k(", *(f"    {p}," for p in params), f") -> tl.Tensor[{spelled}, tl.{dtype}]:"]
    text = "\n".join([*head, *w.lines]) + "\n"
    kernel = kernel_from_text(text)
    generator = np.random.default_rng(seed)
    arguments: dict[str, object] = {}
    for name, (shape, element) in w.arrays.items():
        arguments[name] = _array(generator, tuple(extents[d] for d in shape), ALL[element])
        if shape == ("R + 1",):
            cuts = np.sort(generator.integers(0, extents["M"] + 1, extents["R"] - 1))
            arguments[name] = np.concatenate([[0], cuts, [extents["M"]]]).astype(np.int32)
    arguments |= {f"d{d}": np.zeros(extents[d], np.int8) for d in anchors}
    arguments["s"] = rng.choice((0.75, 1.25))
    for extent in (extents[d] for d in used):
        w.use("extent 1" if extent == 1 else "extent multiple of 8" if extent % 8 == 0 else "extent odd")
    axes = kernel.tile().axes
    # at most five tiles along an axis: more show nothing new
    tiles = {a.name: max(1, -(-extents[a.dim] // rng.randint(1, 4))) for a in axes if a.kind is AxisKind.TILE}
    length = max(extents["K"] * extents["J"], extents["W"], extents["M"], extents["N"])
    return Program(seed, text, kernel, arguments, tiles, length, w.features)


def _extent(rng: random.Random, dim: str) -> int:
    return rng.randint(1, 3) if dim in "BJ" else rng.choice(EXTENTS)


def _array(generator: np.random.Generator, shape: tuple[int, ...], dtype: Dtype) -> np.ndarray:
    """Floats in [0.5, 1.5]; integers that index small tensors, some of them outside. Now and then a strided view."""
    if dtype is ALL["u4"]:
        return generator.integers(0, 256, (*shape[:-1], (shape[-1] + 1) // 2), dtype=np.uint8)
    if dtype.is_integer:
        return generator.integers(-1, 8, shape).astype(numpy_dtype(dtype))
    array = generator.uniform(0.5, 1.5, shape).astype(numpy_dtype(dtype))
    style = generator.random()
    if style < 0.15 and len(shape) == 2:
        return np.ascontiguousarray(array.T).T
    if style < 0.3 and shape:
        wide = np.zeros((*shape[:-1], shape[-1] * 2 + 1), array.dtype)
        view = wide[..., 1::2] if shape[-1] else wide[..., :0]
        view[...] = array
        return view
    return array


def report(features: Counter[str]) -> str:
    """The coverage of a run, one feature a line."""
    return "\n".join(f"{count:6} {name}" for name, count in sorted(features.items()))
