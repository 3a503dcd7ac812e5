"""From an sProgram to a function that launches it: emit, compile, load, bind tensors.

`compile_program` needs no GPU; `CudaKernel.launch` does. Compiled code is cached in memory by source.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from threadloom.errors import CompileError, slug
from threadloom.sched.ops import SProgram
from threadloom.targets.cuda import driver, nvrtc
from threadloom.targets.cuda.copy import TensorFacts
from threadloom.targets.cuda.driver_calls import OnContext
from threadloom.targets.cuda.emit import KernelSource
from threadloom.targets.cuda.emit_for import emit
from threadloom.targets.cuda.group_waits import with_full_waits
from threadloom.targets.cuda.launch_parts import PreparedParts, between_tensors, shape_of
from threadloom.targets.cuda.launch_prepared import Parameter, Prepared, number, scalar
from threadloom.tile import ops as tile

BULK_ALIGN_BYTES = 16

MISALIGNED = slug("gpu-misaligned", "a tensor does not have the alignment or strides its kernel was compiled for")


@dataclass(frozen=True, slots=True)
class DeviceTensor:
    """A tensor in device memory: address, shape and strides in elements."""

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def facts_of(tensor: tile.Tensor, given: DeviceTensor) -> TensorFacts:
    """What code may rely on for a tensor like `given`."""
    size_bits = max(8, tensor.dtype.bits)  # arrays of less are of bytes
    units = [d for d, s in enumerate(given.strides) if s == 1 or given.shape[d] == 1]
    real = [d for d, s in enumerate(given.strides) if s == 1 and given.shape[d] > 1]
    last = len(given.shape) - 1
    contiguous = last if last in units else (real or units or [-1])[-1]
    others = [s for d, s in enumerate(given.strides) if d != contiguous and given.shape[d] > 1]
    whole = given.shape[contiguous] * size_bits % (8 * BULK_ALIGN_BYTES) == 0 if contiguous >= 0 else False
    aligned = given.pointer % BULK_ALIGN_BYTES == 0 and whole
    aligned = aligned and all(s > 0 and s * size_bits % (8 * BULK_ALIGN_BYTES) == 0 for s in others)
    return TensorFacts(tensor, contiguous, aligned)


@dataclass
class CudaKernel:
    """A compiled kernel. `source` can be printed, edited and compiled again with `recompile`."""

    program: SProgram
    source: KernelSource
    cubin: nvrtc.Cubin
    facts: dict[str, TensorFacts]
    combine: CudaKernel | None = None  # launched after it: combines the parts of a split reduction
    _loaded: dict[int, driver.LoadedKernel] = field(default_factory=dict)
    _prepared: dict[tuple, Prepared | PreparedParts] = field(default_factory=dict)

    def launch(
        self,
        tensors: dict[str, DeviceTensor],
        dims: dict[str, int],
        scalars: dict[str, float | int | bool],
        stream: int = 0,
        ordinal: int = 0,
    ) -> None:
        """Launch on `stream`. Tensors must have the alignment and contiguous dimensions of `facts`."""
        key = (ordinal, *tensors, *dims.values(), *((t.shape, t.strides) for t in tensors.values()))
        prepared = self._prepared.get(key)
        if prepared is None:
            prepared = self._prepared[key] = self.prepare(tensors, dims, ordinal)
        if prepared.blocks:
            prepared.launch([t.pointer for t in tensors.values()], [scalars[n] for n in prepared.scalars], stream)

    def prepare(
        self, tensors: dict[str, DeviceTensor], dims: dict[str, int], ordinal: int = 0
    ) -> Prepared | PreparedParts:
        """All that a launch on device `ordinal` needs but addresses and scalars. Loads the code where it is not yet."""
        if self.combine is None:
            return self._prepare(tensors, dims, ordinal)
        shapes = {t.name: shape_of(t, dims) for t in between_tensors(self.program)}
        between = {name: DeviceTensor(driver.NOWHERE, shape, packed(shape)) for name, shape in shapes.items()}
        first, second = (
            one._prepare({t.name: (tensors | between)[t.name] for t in one.program.graph.kernel.tensors}, dims, ordinal)
            for one in (self, self.combine)
        )
        return PreparedParts(first, second, tuple(tensors), self.program, dims)

    def _prepare(self, tensors: dict[str, DeviceTensor], dims: dict[str, int], ordinal: int) -> Prepared:
        context = driver.context(ordinal)
        with OnContext(int(context)):
            loaded = self._loaded.get(ordinal)
            if loaded is None:
                source = self.source
                loaded = self._loaded[ordinal] = driver.load(
                    self.cubin, source.name, source.threads, source.shared_bytes, source.cluster, ordinal
                )
            tiles = self.tiles(dims)
            multiprocessors = driver.multiprocessors(ordinal)
            places = multiprocessors * self.source.blocks_per_eu
            if (together := self.source.cluster) > 1:  # what is left of a group of SMs holds no cluster
                places = min(places, together * loaded.active_clusters(multiprocessors))
            blocks = min(tiles, places) if self.source.persistent else tiles
            return Prepared(loaded, tuple(tensors), self._parameters(tensors, dims), blocks, int(context))

    def tiles(self, dims: dict[str, int]) -> int:
        """Tiles of the grid; a multiple of the blocks of a cluster."""
        counts = ((-(-self._size(dim, dims) // extent), multiple) for dim, extent, multiple in self.source.grid)
        return math.prod(-(-count // multiple) * multiple for count, multiple in counts)

    def _size(self, dim: tile.Dim, dims: dict[str, int]) -> int:
        return dim if isinstance(dim, int) else dims[dim]

    def _parameters(self, tensors: dict[str, DeviceTensor], dims: dict[str, int]) -> list[Parameter]:
        made = []
        for _, spec in self.source.maps:
            given, tensor = tensors[spec.tensor], self.facts[spec.tensor].tensor
            size = max(8, tensor.dtype.bits) // 8
            strides = tuple(s * size for s in _positive_strides(given, size))
            made.append(Parameter("map", spec.tensor, driver.map_bytes(spec, given.pointer, given.shape, strides)))
        for name in self.source.direct:
            made.append(Parameter("pointer", name, None))
            made += [number(s, ctypes.c_int64) for s in tensors[name].strides]
        made += [number(dims[d]) for d in self.source.dims]
        made += [scalar(name, dtype) for name, dtype in self.source.scalars]
        return made

    def read_global(self, name: str, size_bytes: int, ordinal: int = 0) -> bytes:
        """Content of a global variable of the kernel's module after all launches so far."""
        return driver.read_global(self._loaded[ordinal], name, size_bytes)

    def check(self, tensors: dict[str, DeviceTensor]) -> None:
        """CompileError where a tensor is less aligned than the kernel needs."""
        for name, given in tensors.items():
            have, need = facts_of(self.facts[name].tensor, given), self.facts[name]
            if (need.aligned and not have.aligned) or have.contiguous_dim != need.contiguous_dim:
                raise CompileError(
                    MISALIGNED,
                    f"{name} (shape {given.shape}, strides {given.strides}) does not suit this compiled kernel",
                    why=f"it needs contiguous dimension {need.contiguous_dim}, multiples of {BULK_ALIGN_BYTES} bytes",
                    try_="call the kernel itself, which compiles for what it is given",
                )


def _positive_strides(given: DeviceTensor, size: int) -> tuple[int, ...]:
    """Strides for a tensor map: a dimension of extent 1 may have any stride, so it gets an allowed one."""
    return tuple(s if n > 1 else BULK_ALIGN_BYTES // size for s, n in zip(given.strides, given.shape, strict=True))


def compile_program(
    program: SProgram,
    facts: dict[str, TensorFacts],
    dims: dict[str, int],
    defines: tuple[str, ...] = (),
    timeline: int = 0,
) -> CudaKernel:
    """Machine code for arguments like `facts`, of `program` and of what combines its parts. `defines`: for the device
    code; `timeline`: records of clocks to keep (of the parts only). CompileError where there is no code or it takes
    more shared memory than there is."""
    if program.combine is not None:
        facts = facts | between_facts(program, dims)
    source = emit(program, facts, dims, timeline)
    cubin = nvrtc.compile_source(source.text, source.arch, defines=defines)
    if cubin.serialised:
        patient = replace(source, text=with_full_waits(source.text))
        again = nvrtc.compile_source(patient.text, source.arch, defines=defines)
        source, cubin = (source, cubin) if again.serialised else (patient, again)
    made = CudaKernel(program, source, cubin, facts)
    if program.combine is not None:
        made.combine = compile_program(program.combine, facts, dims, defines)
    return made


def between_facts(program: SProgram, dims: dict[str, int]) -> dict[str, TensorFacts]:
    """Of the tensors between two kernels, which are packed and aligned."""
    found = {}
    for tensor in between_tensors(program):
        shape = shape_of(tensor, dims)
        found[tensor.name] = facts_of(tensor, DeviceTensor(0, shape, packed(shape)))
    return found


def packed(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides in elements of a tensor without gaps."""
    return tuple(math.prod(shape[at + 1 :]) for at in range(len(shape)))
