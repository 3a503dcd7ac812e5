"""Tile kernels to text; the form is told in text.py."""

from __future__ import annotations

from collections.abc import Iterator

from threadloom.errors import CompileError
from threadloom.source import Loc
from threadloom.tile.ops import (
    AtomicAdd,
    Block,
    Bound,
    Cast,
    Const,
    Dim,
    DimSize,
    Dot,
    Full,
    Grid,
    If,
    Index,
    Kernel,
    Load,
    LoopAxis,
    Map,
    Op,
    Reduce,
    Scan,
    Store,
    Stream,
    Subscript,
    Value,
    Yield,
)
from threadloom.tile.verify import INVALID_TILE


def print_kernel(kernel: Kernel, locations: bool = False) -> str:
    return "\n".join(_Printer(locations).kernel(kernel)) + "\n"


def print_op(op: Op, locations: bool = False) -> str:
    """One operation on one line; of a loop or condition only the head."""
    return next(_Printer(locations).op(op, ""))


class _Printer:
    def __init__(self, locations: bool):
        self.locations = locations

    def kernel(self, kernel: Kernel) -> Iterator[str]:
        params = [f"{t.name}: [{_dims(t.dims)}] {t.dtype.name} {t.access}" for t in kernel.tensors]
        params += [f"{s.name}: {s.dtype.name}" for s in kernel.scalars]
        yield f"kernel {kernel.name}({', '.join(params)}) {{{self._loc(kernel.loc)}"
        if kernel.axes:
            yield "  axes " + ", ".join(f"{a.name}: {a.dim} {a.kind}" for a in kernel.axes)
        yield from self._block(kernel.body, "  ")
        yield "}"

    def _loc(self, loc: Loc | None) -> str:
        if not self.locations or loc is None:
            return ""
        return f"  ; {loc.file}:{loc.line}:{loc.column}-{loc.end_column}"

    def _block(self, block: Block, indent: str) -> Iterator[str]:
        for op in block.ops:
            yield from self.op(op, indent)

    def op(self, op: Op, indent: str) -> Iterator[str]:
        loc = self._loc(getattr(op, "loc", None))
        match op:
            case Grid():
                yield f"{indent}grid {_loop_axes(op.axes)}{' ' if op.axes else ''}{{{loc}"
                yield from self._block(op.body, indent + "  ")
                yield indent + "}"
            case Stream():
                carried = [f"{_typed(a)} = %{i.name}" for a, i in zip(op.args, op.inits, strict=True)]
                made = ", ".join(f"%{r.name}" for r in op.results)
                carry = f" carry ({', '.join(carried)}) -> ({made})" if carried else ""
                yield f"{indent}stream {_loop_axes(op.axes)}{carry} {{{loc}"
                yield from self._block(op.body, indent + "  ")
                yield indent + "}"
            case If():
                made = f" -> ({', '.join(_typed(r) for r in op.results)})" if op.results else ""
                yield f"{indent}if %{op.cond.name}{made} {{{loc}"
                yield from self._block(op.then, indent + "  ")
                yield indent + "} else {"
                yield from self._block(op.otherwise, indent + "  ")
                yield indent + "}"
            case _:
                yield f"{indent}{_leaf(op)}{loc}"


def _dims(dims: tuple[Dim, ...]) -> str:
    return ", ".join(map(str, dims))


def _typed(value: Value) -> str:
    return f"%{value.name}: [{', '.join(value.type.axes)}] {value.type.dtype.name}"


def _values(values: tuple[Value, ...]) -> str:
    return ", ".join(f"%{v.name}" for v in values)


def _loop_axes(axes: tuple[LoopAxis, ...]) -> str:
    def one(axis: LoopAxis) -> str:
        if axis.start is None and axis.stop is None:
            return axis.axis.name
        start = f"%{axis.start.name}" if axis.start else ""
        stop = f"%{axis.stop.name}" if axis.stop else ""
        return f"{axis.axis.name} in {start}..{stop}"

    return ", ".join(map(one, axes))


def _subscripts(subscripts: tuple[Subscript, ...]) -> str:
    def one(subscript: Subscript) -> str:
        parts = []
        for term in subscript.terms:
            name = term.axis if term.value is None else f"%{term.value.name}"
            sign = "-" if term.coefficient < 0 else "+"
            size = abs(term.coefficient)
            parts.append(f"{sign} {name if size == 1 else f'{size}*{name}'}")
        if subscript.offset or not parts:
            parts.append(f"{'-' if subscript.offset < 0 else '+'} {abs(subscript.offset)}")
        text = " ".join(parts)
        return text[2:] if text.startswith("+ ") else "-" + text[2:]

    return f"[{', '.join(map(one, subscripts))}]"


def _leaf(op: Op) -> str:
    match op:
        case Store():
            return f"store {op.tensor}{_subscripts(op.subscripts)} = %{op.value.name}"
        case AtomicAdd():
            return f"atomic_add {op.tensor}{_subscripts(op.subscripts)} = %{op.value.name}"
        case Yield():
            return f"yield {_values(op.values)}".rstrip()
    return f"{_typed(op.result)} = {_right_side(op)}"


def _right_side(op: Op) -> str:
    match op:
        case Const():
            return f"const {op.number!r}"
        case Index():
            return f"index {op.axis}"
        case Bound():
            return f"bound {op.axis}.{op.which}"
        case DimSize():
            return f"dim {op.dim}"
        case Load():
            return f"load {op.tensor}{_subscripts(op.subscripts)}"
        case Map():
            return f"{op.fn} {_values(op.args)}"
        case Cast():
            return f"cast %{op.arg.name}"
        case Full():
            return f"full %{op.value.name}"
        case Reduce():
            return f"reduce {op.fn} %{op.arg.name} over {op.axis}"
        case Scan():
            return f"scan {op.fn} %{op.arg.name} along {op.axis}{' reverse' if op.reverse else ''}"
        case Dot():
            return f"dot %{op.a.name}, %{op.b.name} over {', '.join(op.over)}"
    raise CompileError(INVALID_TILE, f"{type(op).__name__} has no text")
