"""What the CPU generator needs of a plan: tile extents, the walk of the grid, and the choices beside them.

`CpuSchedule` is the part of an sProgram that a core acts on. A core is one role that finishes a task before it begins
the next, so it gains nothing by another order of Issues, stages or slots, and its code is made in the kernel's order;
what is left are the tile sizes, the walk of the grid and the decisions. `Target` holds the facts of the machine model,
`Form` what is compiled in of one call's arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from threadloom.errors import InternalError
from threadloom.machine.model import Device
from threadloom.task.ops import Method
from threadloom.tile.ops import AxisKind, Dim, Grid, Kernel, Stream
from threadloom.tile.uses import walk


@dataclass(frozen=True, slots=True)
class Target:
    """Facts of a CPU model. `rows` x `vectors` is the register block of a product."""

    vector_bytes: int
    vector_registers: int
    rows: int
    vectors: int
    accumulators: int  # independent chains that keep the FMA ports busy
    l1_bytes: int
    l2_bytes: int
    avx512: bool = False  # x86's 512-bit vectors, with their instructions for exponents (F, DQ)
    tile_dtypes: frozenset[str] = frozenset()  # operand dtypes of the matrix unit (AMX)

    def __post_init__(self) -> None:
        if self.vectors & (self.vectors - 1):
            raise InternalError(f"{self.vectors} vectors a register block: copies of vector loops would cross panels")

    @property
    def native_bf16(self) -> bool:
        """Cores with a matrix unit for bf16 convert to it in one instruction."""
        return self.avx512 and "bf16" in self.tile_dtypes

    @property
    def extension(self) -> str:
        """The instructions of x86 that exponentials may use: "avx512", "avx2" or none. Vectors of 32 bytes are taken
        only where there is AVX2 (`machine/cpu.py`)."""
        if self.avx512:
            return "avx512"
        return "avx2" if (self.vector_bytes, self.vector_registers) == (32, 16) else ""

    @property
    def lanes(self) -> int:
        """f32 elements of a vector: every vector loop advances by this many elements, whatever their type."""
        return self.vector_bytes // 4


def target_of(device: Device) -> Target:
    def number(key: str, default: int) -> int:
        return int(device.fact(key, default) or default)

    return Target(
        number("vector_bytes", 32),
        number("vector_registers", 16),
        number("register_rows", 4),
        number("register_vectors", 2),
        number("fma_ports", 2) * number("fma_latency_cycles", 4),
        int(device.memory("l1").capacity_bytes.value),
        int(device.memory("l2").capacity_bytes.value),
        number("vector_bytes", 32) == 64 and number("vector_registers", 16) == 32,
        frozenset(
            rate.what.removeprefix("mac.")
            for unit in device.seus
            if Method.MATRIX in unit.methods and Method.VECTOR not in unit.methods
            for rate in unit.rates
            if rate.what.startswith("mac.")
        ),
    )


AVX512 = Target(64, 32, 14, 2, 8, 48 << 10, 2 << 20, avx512=True)
AVX2 = Target(32, 16, 6, 2, 10, 32 << 10, 512 << 10)
AMX = Target(64, 32, 14, 2, 8, 48 << 10, 2 << 20, avx512=True, tile_dtypes=frozenset({"bf16", "i8"}))
NEON = Target(16, 32, 14, 2, 16, 64 << 10, 1 << 20)


@dataclass(frozen=True, slots=True)
class Ahead:
    """`distance` steps ahead into cache `level` (1 to 3)."""

    distance: int
    level: int


@dataclass(frozen=True, slots=True)
class CpuSchedule:
    """`extents`: tile size of every TILE axis; `order`: grid axes, slowest first; `sequential`: grid axes that one
    iteration walks by itself; `nontemporal`: outputs whose stores go past the caches; `prefetch`: what is fetched ahead
    (ahead.py); `packed`, `unpacked`: operands of products that are copied into panels, and that are read where they lie
    (of others the generator decides); `shared`: tensors whose packed copy is made once for all tiles of the grid;
    `block`: most rows, and vectors a row, of a product's register block (None: the machine's)."""

    kernel: Kernel
    extents: tuple[tuple[str, int], ...]
    order: tuple[str, ...] = ()
    sequential: tuple[str, ...] = ()
    longest_first: bool = False
    serial: bool = False  # so little work that forking costs more than it gives
    nontemporal: frozenset[str] = frozenset()
    prefetch: tuple[tuple[str, Ahead], ...] = ()
    packed: frozenset[str] = frozenset()
    unpacked: frozenset[str] = frozenset()
    shared: frozenset[str] = frozenset()
    block: tuple[int, int] | None = None

    def extent(self, axis: str) -> int:
        return next(extent for name, extent in self.extents if name == axis)

    def ahead(self, name: str) -> Ahead | None:
        """How tensor, or product, `name` is fetched ahead."""
        return next((ahead for key, ahead in self.prefetch if key == name), None)

    def obeyed_by(self, target: Target) -> Target:
        """`target` with the plan's register block."""
        return target if self.block is None else replace(target, rows=self.block[0], vectors=self.block[1])


# ---------------------------------------------------------------- what is compiled in of a call's arguments


@dataclass(frozen=True, slots=True)
class TensorForm:
    """`strides` in elements where they are compiled in, None where they are read at launch; `aligned`: base address
    and all rows lie on multiples of 64 bytes; `small`: every element's offset fits 31 bits."""

    strides: tuple[int | None, ...]
    aligned: bool = False


@dataclass(frozen=True, slots=True)
class Form:
    """`dims`: extents compiled in (those of WHOLE axes); `even`: TILE axes whose dim is a multiple of their extent."""

    dims: tuple[tuple[str, int], ...]
    even: frozenset[str]
    tensors: tuple[tuple[str, TensorForm], ...]

    def tensor(self, name: str) -> TensorForm:
        return next(form for key, form in self.tensors if key == name)


@dataclass(frozen=True, slots=True)
class Argument:
    """A tensor argument as the launch sees it; strides in elements."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def form_of(schedule: CpuSchedule, dims: Mapping[str, int], arguments: Mapping[str, Argument]) -> Form:
    """The form of a call with these dims and tensors; calls of one form share their code."""
    kernel = schedule.kernel
    fixed = {a.dim: dims[a.dim] for a in kernel.axes if a.kind is AxisKind.WHOLE and isinstance(a.dim, str)}
    even = frozenset(
        axis.name
        for axis in kernel.axes
        if axis.kind is AxisKind.TILE
        and axis.name not in narrowed_axes(kernel)
        and _extent(axis.dim, dims) % schedule.extent(axis.name) == 0
    )
    tensors = tuple(
        (tensor.name, _tensor_form(tensor.dims, tensor.dtype.bits, arguments[tensor.name], fixed))
        for tensor in kernel.tensors
    )
    return Form(tuple(sorted(fixed.items())), even, tensors)


def narrowed_axes(kernel: Kernel) -> frozenset[str]:
    """Loop axes with bounds of their own: their last tile may be short whatever the extent is."""
    loops = (op for op in walk(kernel.body) if isinstance(op, Grid | Stream))
    return frozenset(a.axis.name for op in loops for a in op.axes if a.start is not None or a.stop is not None)


def _extent(dim: Dim, dims: Mapping[str, int]) -> int:
    return dim if isinstance(dim, int) else dims[dim]


def _tensor_form(dims: tuple[Dim, ...], bits: int, argument: Argument, fixed: Mapping[Dim, int]) -> TensorForm:
    """Strides 0 and 1 are compiled in, and those of rows whose length is."""
    strides: list[int | None] = []
    product: int | None = 1  # extent of what lies inside, while that is compiled in
    for dim, extent, stride in reversed(list(zip(dims, argument.shape, argument.strides, strict=True))):
        known = stride in (0, 1) or (product is not None and stride == product)
        strides.append(stride if known else None)
        compiled_in = isinstance(dim, int) or dim in fixed
        product = product * extent if product is not None and compiled_in else None
    line_elems = 512 // bits
    rows_aligned = all(s % line_elems == 0 for s, n in zip(argument.strides, argument.shape, strict=True) if s != 1 < n)
    return TensorForm(tuple(reversed(strides)), argument.address % 64 == 0 and rows_aligned)
