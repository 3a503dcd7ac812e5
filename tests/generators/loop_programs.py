"""Random tile programs of loops: in loops, after loops, with values and scalars that several of them carry, conditions
and stores inside them. The fourth family of `tile_programs.program`: its loops are longer than a tile.

What a loop over tiles does to a carried value is the same however it is cut: it adds sums, takes maxima or minima, adds
products. Loops over single indices may do anything.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

import numpy as np
from generators.kernel_text import kernel_from_text
from generators.tile_programs import EXTENTS, Program, Writer, _array, _bounded

from threadloom.dtypes import ALL

DIM = {"m": "M", "n": "N", "b": "B", "k": "K", "l": "L", "j": "J", "c": "C"}
LONG = (1, 5, 40, 129, 300, 530)
MOST_LOOPS = 5
MOST_ELEMENTS = 40_000
LOADED = ("f32", "f32", "f16", "bf16")


@dataclass(slots=True)
class Loops:
    """What is open where a statement is written."""

    w: Writer
    grid: tuple[str, ...]
    carried: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)  # name, axes
    open: tuple[str, ...] = ()
    sure: bool = True  # every index of the open loops comes, whatever the tensors hold
    outputs: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    does: dict[str, str] = field(default_factory=dict)  # what a loop over tiles does to a value: one thing only
    loops: int = 0

    @property
    def tiled(self) -> tuple[str, ...]:
        return tuple(a for a in self.open if a in "kl")


def loop_program(seed: int) -> Program:
    rng = random.Random(seed)
    s = Loops(Writer(rng, wide=True), rng.choice((("m",), ("b", "m"), ("m", "n"), ("b",), ("b", "m", "n"))))
    w = s.w
    spelled = ", ".join(f'tl.each("{DIM[a]}")' if a == "b" else f'"{DIM[a]}"' for a in s.grid)
    w.line(f"for {', '.join(s.grid)} in tl.grid({spelled}):")
    w.indent += 1
    for _ in range(rng.randint(1, 3)):
        _begin(s)
    for _ in range(rng.randint(1, 3)):
        _loop(s)
        if rng.random() < 0.3:
            _update(s)
    # sums of products reach some thousands, and tensor cores cut off their last bits: not into a sine of so much
    scale = 0.0001220703125 if any("tl.dot" in line for line in w.lines) else 0.125
    total = " + ".join(_bounded(f"{name} * {scale}", rng) for name, _ in s.carried)
    w.line(f"out[{', '.join(s.grid)}] = {total}")
    s.outputs.insert(0, ("out", s.grid))
    return _finished(s, seed)


def _begin(s: Loops) -> None:
    """A value that loops carry, and what it begins with."""
    rng, w = s.w.rng, s.w
    tiles = tuple(a for a in s.grid if a != "b")
    axes = rng.choice(((), tiles, tiles[:1], tiles[-1:]))
    name, kind = w.fresh("v"), rng.choice(("zeros", "full", "load", "low"))
    w.use(f"carried {'scalar' if not axes else 'tile'}, begins with {kind}")
    inside = ", ".join(axes)
    if kind == "load":
        w.line(f"{name} = tl.cast({_element(s, axes)}, tl.f32)")
    elif axes:
        number = {"full": "0.5", "low": "-4.0"}.get(kind)
        w.line(f"{name} = tl.full({number}, {inside})" if number else f"{name} = tl.zeros({inside})")
    else:
        w.line(f"{name} = tl.cast({dict(zeros='0.0', full='0.5', low='-4.0')[kind]}, tl.f32)")
    s.carried.append((name, axes))


def _element(s: Loops, axes: tuple[str, ...]) -> str:
    """Of a new tensor, what lies at `axes`, the open loops and perhaps the block."""
    rng = s.w.rng
    used = [*(a for a in s.grid if a == "b" and rng.random() < 0.6), *(a for a in s.open if a not in axes), *axes]
    rng.shuffle(used)
    if not used:
        used = ["0"]
    name = s.w.tensor(tuple(DIM.get(a, "J") for a in used), rng.choice(LOADED))
    return f"{name}[{', '.join(used)}]"


def _loop(s: Loops) -> None:
    rng, w = s.w.rng, s.w
    outside, sure = s.open, s.sure
    kinds = [k for k in (("k",), ("l",), ("j",), ("c",), ("c", "k"), ("l", "j")) if not set(k) & set(s.open)]
    axes = rng.choice([k for k in kinds if not s.tiled or all(a in "kl" for a in k)] or [()])
    if not axes or s.loops == MOST_LOOPS:
        _update(s)
        return
    s.loops += 1
    if not s.tiled:
        s.does.clear()
    spelled = [f'tl.each("{DIM[a]}")' if a in "jc" else f'"{DIM[a]}"' for a in axes]
    if len(axes) == 1 and rng.random() < 0.25:
        dim = DIM[axes[0]]
        at = w.tensor(("J",), "i32")
        index = "j" if "j" in s.open else "0"
        length = "2" if axes[0] in "jc" else "200"
        spelled = [f'tl.{"each" if axes[0] in "jc" else "span"}("{dim}", {at}[{index}], {at}[{index}] + {length})']
        s.sure = False
        w.use("loop with bounds of a tensor")
    w.use(f"loop over {' and '.join('indices' if a in 'jc' else 'tiles' for a in axes)} at depth {len(outside)}")
    w.line(f"for {', '.join(axes)} in tl.stream({', '.join(spelled)}):")
    w.indent += 1
    s.open = (*outside, *axes)
    for _ in range(rng.randint(0, 2)):
        choice = rng.random()
        if choice < 0.45 and len(s.open) < 3:
            _loop(s)
        elif choice < 0.6 and not s.tiled:
            _condition(s)
        elif choice < 0.75 and not s.tiled and s.sure:
            _output(s)
        else:
            _update(s)
    _update(s)
    w.indent -= 1
    s.open, s.sure = outside, sure


def _condition(s: Loops) -> None:
    w = s.w
    flag = w.tensor((DIM[s.open[-1]],), "i32")
    w.line(f"if {flag}[{s.open[-1]}] % 2 == 0:")
    w.indent += 1
    _update(s)
    if w.rng.random() < 0.4:
        _loop(s)
    w.indent -= 1
    if w.rng.random() < 0.4:
        w.line("else:")
        w.indent += 1
        _update(s)
        w.indent -= 1
    w.use("condition in a loop")


def _output(s: Loops) -> None:
    """A store of what is carried here, at every index of the loops that are open."""
    name, _ = s.w.rng.choice(s.carried)
    place = (*s.grid, *s.open)
    out = s.w.fresh("y")
    s.w.line(f"{out}[{', '.join(place)}] = {name} * 0.5")
    s.w.use("store in a loop")
    s.outputs.append((out, place))


def _update(s: Loops) -> None:
    """The next content of something carried."""
    rng, w = s.w.rng, s.w
    name, axes = rng.choice(s.carried)
    if len(axes) == 2 and s.tiled == ("k",) and s.does.get(name, "sum") == "sum" and rng.random() < 0.6:
        dtype = rng.choice(("f16", "bf16", "f32"))
        a, b = w.tensor((DIM[axes[0]], "K"), dtype), w.tensor(("K", DIM[axes[1]]), dtype)
        product = f"tl.dot({a}[{axes[0]}, k], {b}[k, {axes[1]}])"
        w.use(f"product in a loop {dtype}")
        s.does[name] = "sum"
        w.line(f"{name} += {product}{rng.choice(('', ' * 0.03125'))}")
        return
    if s.tiled:
        fn = s.does.setdefault(name, rng.choice(("sum", "max", "min")))
        text = _element(s, axes)
        if rng.random() < 0.5:
            text = f"tl.exp2({text})"
        for axis in s.tiled:
            text = f"tl.{fn}({text}, {axis})"
        w.use(f"{fn} in a loop")
        joined = {"sum": f"{name} + {text} * 0.0078125", "max": f"tl.maximum({name}, {text})"}
        w.line(f"{name} = {joined.get(fn, f'tl.minimum({name}, {text})')}")
        return
    others = [o for o, its in s.carried if set(its) <= set(axes) and o != name]
    kind = rng.choice(("weigh", "add", "most", "other", "other"))
    w.use(f"step {kind}")
    if kind == "other" and others:
        w.line(f"{name} = {name} * 0.5 + {rng.choice(others)} * 0.25")
    elif kind == "most":
        w.line(f"{name} = tl.maximum({name} - 0.25, {_element(s, axes)})")
    elif kind == "add":
        w.line(f"{name} += {_element(s, axes)}")
    else:
        w.line(f"{name} = {name} * 0.5 + {_element(s, axes)}")


def _finished(s: Loops, seed: int) -> Program:
    w, rng = s.w, s.w.rng
    extents = {"B": rng.randint(1, 3), "J": rng.randint(1, 3), "C": rng.randint(1, 4)}
    extents |= {d: rng.choice(EXTENTS) for d in "MN"} | {"K": rng.choice(LONG), "L": rng.choice(LONG[:4])}
    shapes = [shape for shape, _ in w.arrays.values()] + [tuple(DIM[a] for a in place) for _, place in s.outputs]
    while max(math.prod(extents[d] for d in shape) for shape in shapes) > MOST_ELEMENTS:
        extents[max("KLMN", key=extents.__getitem__)] //= 2
    used = {d for shape in shapes for d in shape} | {d for d in extents if any(f'"{d}"' in line for line in w.lines)}
    anchors = [d for d in extents if d in used]
    params = [*w.params, *(f'd{d}: tl.Tensor["{d}", tl.i8]' for d in anchors)]
    dims = {name: ", ".join(f'"{DIM[a]}"' for a in place) for name, place in s.outputs}
    outputs = ", ".join(f"{name}=tl.Tensor[{dims[name]}, tl.f32]" for name, _ in s.outputs)
    result = f"tl.outputs({outputs})" if len(s.outputs) > 1 else f"tl.Tensor[{dims['out']}, tl.f32]"
    text = "\n".join(["@tl.kernel", "def k(", *(f"    {p}," for p in params), f") -> {result}:", *w.lines]) + "\n"
    generator = np.random.default_rng(seed)
    arguments: dict[str, object] = {
        name: _array(generator, tuple(extents[d] for d in shape), ALL[element])
        for name, (shape, element) in w.arrays.items()
    }
    arguments |= {f"d{d}": np.zeros(extents[d], np.int8) for d in anchors}
    for extent in (extents[d] for d in sorted(used)):
        w.use("extent 1" if extent == 1 else "extent multiple of 8" if extent % 8 == 0 else "extent odd")
    kernel = kernel_from_text(text)
    tiles = {a.name: 8 for a in kernel.tile().axes if a.kind.name == "TILE"}
    return Program(seed, text, kernel, arguments, tiles, extents["K"] * extents["L"], w.features)
