"""A whole kernel: parameters, the body, and what must hold of them together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from threadloom.dtypes import Dtype
from threadloom.errors import CompileError, slug
from threadloom.lang.builder import Builder
from threadloom.lang.dims import Formula
from threadloom.lang.parse import ONE_GRID, Parser
from threadloom.lang.signature import ScalarParam, Signature, TensorParam
from threadloom.lang.source_of import Origin
from threadloom.lang.values import TensorRef
from threadloom.tile.ops import (
    Access,
    AtomicAdd,
    Block,
    Grid,
    If,
    Kernel,
    Op,
    Scalar,
    Store,
    Stream,
    Tensor,
    TileType,
    Value,
)
from threadloom.tile.uses import walk
from threadloom.tile.verify import verify

OUTSIDE_GRID = slug("outside-grid", "a store stands outside the kernel's grid")
NO_RESULT = slug("output-not-stored", "an output of the kernel is never stored")


@dataclass(frozen=True, slots=True)
class Parsed:
    """A kernel for one choice of constants and dtypes, with the formulas of its derived dimensions; `extents` is
    filled by calls (bind.py)."""

    kernel: Kernel
    formulas: tuple[Formula, ...]
    extents: dict[tuple[tuple[str, tuple[int, ...], str], ...], dict[str, int]] = field(default_factory=dict)


def parse_kernel(
    name: str, origin: Origin, signature: Signature, consts: Mapping[str, object], dtypes: Mapping[str, Dtype]
) -> Parsed:
    """Parse the kernel for given compile-time constants (functions among them) and dtype variables."""
    builder = Builder(consts)
    tensors = [_tensor(builder, p, Access.IN, dtypes) for p in signature.tensors()]
    outputs = [_tensor(builder, p, Access.OUT, dtypes) for p in signature.outputs]
    plain = [d for t in (*tensors, *outputs) for d in t.dims if isinstance(d, str) and d not in builder.formulas]
    builder.signature_dims = dict.fromkeys([*plain, *(n for f in builder.formulas.values() for n in f.names)])
    scalars = tuple(Scalar(p.name, p.dtype) for p in signature.params if isinstance(p, ScalarParam))
    names: dict[str, object] = dict(consts)
    names |= {t.name: TensorRef(t) for t in (*tensors, *outputs)}
    names |= {s.name: Value(builder.fresh(s.name), TileType((), s.dtype)) for s in scalars}
    parser = Parser(builder, origin, names)
    parser.run(origin.node.body)
    body = _with_grid(builder.ops, origin)
    _check_stored(outputs, body, origin)
    outputs = [
        Tensor(t.name, t.dims, t.dtype, Access.INOUT if t.name in builder.accumulated else t.access) for t in outputs
    ]
    kernel = Kernel(name, (*tensors, *outputs), scalars, tuple(builder.axes.values()), body, origin.loc(origin.node))
    verify(kernel)
    return Parsed(kernel, tuple(builder.formulas.values()))


def _tensor(b: Builder, param: TensorParam, access: Access, dtypes: Mapping[str, Dtype]) -> Tensor:
    dtype = param.spec.dtype
    dims = tuple(b.dim(d) for d in param.spec.dims)
    return Tensor(param.name, dims, dtypes[dtype] if isinstance(dtype, str) else dtype, access)


def _with_grid(ops: list[Op], origin: Origin) -> Block:
    """The kernel's body with its one Grid; a kernel without one is a grid of a single point."""
    grids = [op for op in ops if isinstance(op, Grid)]
    if len(grids) > 1:
        raise CompileError(
            ONE_GRID,
            "the kernel has two grids one after the other",
            why="nothing would order the second after the first across the machine",
            try_="two kernels, or one grid over both",
            loc=grids[1].loc,
        )
    if not grids:
        return Block((Grid((), Block(tuple(ops)), origin.loc(origin.node)),))
    for op in ops:
        if isinstance(op, Store | AtomicAdd | Stream | If):
            raise CompileError(
                OUTSIDE_GRID,
                "this stands outside the kernel's grid",
                why="only scalar code may: it would run once for the whole launch",
                try_="move it into the grid loop",
                loc=op.loc,
            )
    return Block(tuple(ops))


def _check_stored(outputs: list[Tensor], body: Block, origin: Origin) -> None:
    stored = {op.tensor for op in walk(body) if isinstance(op, Store | AtomicAdd)}
    missing = [t.name for t in outputs if t.name not in stored]
    if missing:
        raise CompileError(
            NO_RESULT,
            f"output {', '.join(missing)} is never stored",
            try_=f"{missing[0]}[...] = value, in the grid",
            loc=origin.loc(origin.node),
        )
