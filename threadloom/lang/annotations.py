"""What users write in a kernel's signature: `tl.Tensor[...]`, `tl.Const[...]`, `tl.Function`, `tl.outputs(...)`.

The last item of `Tensor[...]` is the element type: a dtype, or a string that names a dtype variable, bound by the
argument and equal wherever the name recurs. The items before it are dimensions: a name, an extent, or a formula over
names such as "H - R + 1".
"""

from __future__ import annotations

from dataclasses import dataclass

from threadloom.dtypes import Dtype
from threadloom.errors import CompileError, slug

SIGNATURE = slug("signature", "a parameter or result of the kernel is not annotated as the language asks")


@dataclass(frozen=True, slots=True)
class TensorSpec:
    dims: tuple[str | int, ...]
    dtype: Dtype | str

    def __repr__(self) -> str:
        return f"tl.Tensor[{', '.join(map(repr, (*self.dims, self.dtype)))}]"


@dataclass(frozen=True, slots=True)
class ConstSpec:
    type: type | None

    def __repr__(self) -> str:
        return f"tl.Const[{getattr(self.type, '__name__', self.type)}]" if self.type else "tl.Const"


@dataclass(frozen=True, slots=True)
class OutputsSpec:
    outputs: tuple[tuple[str, TensorSpec], ...]


class Tensor:
    """`tl.Tensor["M", "K", tl.f16]`."""

    def __class_getitem__(cls, items: object) -> TensorSpec:
        items = items if isinstance(items, tuple) else (items,)
        *dims, dtype = items
        if not isinstance(dtype, Dtype | str):
            raise CompileError(
                SIGNATURE,
                f"the last item of tl.Tensor[...] is {dtype!r}, not a dtype",
                try_='tl.Tensor["M", "K", tl.f16], or a string in its place for a dtype taken from the argument',
            )
        for dim in dims:
            if isinstance(dim, bool) or not isinstance(dim, str | int) or (isinstance(dim, int) and dim < 0):
                raise CompileError(SIGNATURE, f"{dim!r} is not a dimension", why="a dimension is a name or an extent")
        return TensorSpec(tuple(dims), dtype)


class Const:
    """`tl.Const[bool]`: a compile-time constant; the kernel is built once for each value."""

    def __class_getitem__(cls, item: type) -> ConstSpec:
        return ConstSpec(item)


class Function:
    """`tl.Function`: a parameter that is a function of tiles, of `tl` or of yours, built into the kernel."""


def outputs(**specs: TensorSpec) -> OutputsSpec:
    """Several results by name: `-> tl.outputs(o=tl.Tensor[...], lse=tl.Tensor[...])`."""
    for name, spec in specs.items():
        if not isinstance(spec, TensorSpec):
            raise CompileError(SIGNATURE, f"output {name} is {spec!r}, not a tl.Tensor[...]")
    return OutputsSpec(tuple(specs.items()))
