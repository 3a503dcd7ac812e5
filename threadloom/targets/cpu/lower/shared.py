"""Packed copies that all tiles of the grid share: filled before the grid by all cores, found by tile index in it."""

from __future__ import annotations

from dataclasses import dataclass

from threadloom.par.constants import const, int_value
from threadloom.par.ops import I64, Level, Operand, Space
from threadloom.targets.cpu.lower.context import Context, Range
from threadloom.targets.cpu.lower.matrix import pack_for_matrix
from threadloom.targets.cpu.lower.pack import pack
from threadloom.targets.cpu.lower.ranges import loop_range, tile_extent, tile_length, tiles_of
from threadloom.targets.cpu.plan import Attach, Home, SharedPack
from threadloom.tile.ops import LoopAxis

PANELS_EACH = 4  # neighbouring panels that a core packs at once: they share pages of the source


@dataclass(frozen=True, slots=True)
class Copies:
    """Where the copies of all tiles lie: one for every index of `axes`, of which there are `counts`."""

    base: Operand
    axes: tuple[LoopAxis, ...]
    counts: tuple[Operand, ...]


def pack_shared(c: Context, step: SharedPack) -> None:
    """Fill the copies of all tiles; a tile of many panels is cut so that there is work for all cores."""
    b, home = c.b, step.pack.home
    counts = tuple(tiles_of(c, axis, *loop_range(c, axis)) for axis in step.axes)
    elems: Operand = const(I64, home.layout.elems)
    for count in counts:
        elems = b.mul(elems, count)
    base = b.alloca(home.layout.element, elems, Space.WORKER, 64, name=home.buffer)
    copies = Copies(base, step.axes, counts)
    parts = 1 if step.pack.matrix or not home.layout.panel else -(-home.layout.panels // PANELS_EACH)
    names = [axis.axis.name for axis in step.axes]
    shape = [*counts, const(I64, parts)]
    with b.parallel(Level.BLOCKS, [0] * len(shape), shape, names=[*names, "part"], schedule="dynamic") as ivs:
        for axis, tile in zip(step.axes, ivs, strict=False):
            start, stop = loop_range(c, axis)
            first = b.add(start, b.mul(tile, tile_extent(c, axis)))
            c.ranges[axis.axis.name] = Range(first, tile_length(c, axis, first, stop))
        c.memory[home.buffer] = _place(c, home, copies, ivs[:-1])
        _pack_part(c, step, parts, ivs[-1])
    c.copies[home.buffer] = copies


def _pack_part(c: Context, step: SharedPack, parts: int, part: Operand) -> None:
    """Panels `PANELS_EACH` * part and the next ones of the tile."""
    if step.pack.matrix:
        pack_for_matrix(c, step.pack)
        return
    if parts == 1:
        pack(c, step.pack)
        return
    b, layout = c.b, step.pack.home.layout
    axis = layout.last or ""
    whole, size = c.ranges[axis], PANELS_EACH * layout.panel
    first = b.mul(part, size)
    rest = b.sub(whole.length, first)
    exact = int_value(whole.length) is not None and (int_value(whole.length) or 0) % size == 0
    length = const(I64, size) if exact else b.min(rest, const(I64, size))
    with b.if_(b.icmp("sgt", rest, 0)):
        c.ranges[axis] = Range(b.add(whole.start, first), length)
        at = b.mul(part, PANELS_EACH * layout.panel_elems)
        c.memory[step.pack.home.buffer] = b.gep(layout.element, c.memory[step.pack.home.buffer], at)
        pack(c, step.pack)
    c.ranges[axis] = whole


def attach(c: Context, step: Attach) -> None:
    """From here on, `step.home` is the current tile's copy."""
    copies = c.copies[step.home.buffer]
    tiles = [c.b.udiv(c.ranges[axis.axis.name].start, tile_extent(c, axis)) for axis in copies.axes]
    c.memory[step.home.buffer] = _place(c, step.home, copies, tiles)


def _place(c: Context, home: Home, copies: Copies, tiles: list[Operand] | tuple[Operand, ...]) -> Operand:
    index: Operand = const(I64, 0)
    for tile, count in zip(tiles, copies.counts, strict=True):
        index = c.b.add(c.b.mul(index, count), tile)
    return c.b.gep(home.layout.element, copies.base, c.b.mul(index, home.layout.elems))
