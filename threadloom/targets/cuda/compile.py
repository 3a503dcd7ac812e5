"""From an sProgram to a function that launches it: emit, compile, load, bind tensors.

`compile_program` needs no GPU; `CudaKernel.launch` does. Compiled code is cached in memory by source.
"""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass, field

from threadloom.errors import CompileError, slug
from threadloom.sched.ops import SProgram
from threadloom.targets.cuda import driver, nvrtc
from threadloom.targets.cuda.copy import TensorFacts
from threadloom.targets.cuda.emit import KernelSource, emit
from threadloom.tile import ops as tile

BULK_ALIGN_BYTES = 16

MISALIGNED = slug("gpu-misaligned", "a tensor does not have the alignment or strides its kernel was compiled for")

_SCALAR = {
    "f64": ctypes.c_double, "f32": ctypes.c_float, "i64": ctypes.c_int64, "i32": ctypes.c_int32, "bool": ctypes.c_bool,
    "f16": ctypes.c_float, "bf16": ctypes.c_float,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class DeviceTensor:
    """A tensor in device memory: address, shape and strides in elements."""

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def facts_of(tensor: tile.Tensor, given: DeviceTensor) -> TensorFacts:
    """What code may rely on for a tensor like `given`."""
    size_bits = tensor.dtype.bits
    units = [d for d, s in enumerate(given.strides) if s == 1 or given.shape[d] == 1]
    real = [d for d, s in enumerate(given.strides) if s == 1 and given.shape[d] > 1]
    contiguous = (real or units or [-1])[-1]
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
    _loaded: dict[int, driver.LoadedKernel] = field(default_factory=dict)
    _bound: dict[tuple, driver.Parameters] = field(default_factory=dict)

    def launch(
        self,
        tensors: dict[str, DeviceTensor],
        dims: dict[str, int],
        scalars: dict[str, float | int | bool],
        stream: int = 0,
        ordinal: int = 0,
    ) -> None:
        """Launch on `stream`. Tensors must have the alignment and contiguous dimensions of `facts`."""
        tiles = math.prod(-(-self._size(dim, dims) // extent) for dim, extent in self.source.grid)
        if tiles == 0:
            return
        loaded = self._loaded.get(ordinal)
        if loaded is None:
            loaded = self._loaded[ordinal] = driver.load(
                self.cubin,
                self.source.name,
                self.source.threads,
                self.source.shared_bytes,
                self.source.cluster,
                ordinal,
            )
        key = (*tensors.values(), *dims.items(), *scalars.items())
        parameters = self._bound.get(key)
        if parameters is None:
            if len(self._bound) > 64:
                self._bound.clear()
            parameters = self._bound[key] = self._parameters(tensors, dims, scalars)
        blocks = min(tiles, driver.multiprocessors(ordinal)) if self.source.persistent else tiles
        loaded.launch(blocks, parameters, stream)

    def _size(self, dim: tile.Dim, dims: dict[str, int]) -> int:
        return dim if isinstance(dim, int) else dims[dim]

    def _parameters(self, tensors, dims, scalars) -> driver.Parameters:
        values = []
        for _, spec in self.source.maps:
            given, tensor = tensors[spec.tensor], self.facts[spec.tensor].tensor
            size = tensor.dtype.bits // 8
            strides = tuple(s * size for s in _positive_strides(given, size))
            values.append(driver.encode_map(spec, given.pointer, given.shape, strides))
        for name in self.source.direct:
            given = tensors[name]
            values.append(ctypes.c_void_p(given.pointer))
            values += [ctypes.c_int64(s) for s in given.strides]
        values += [ctypes.c_int32(dims[d]) for d in self.source.dims]
        values += [_SCALAR[dtype](scalars[name]) for name, dtype in self.source.scalars]
        return driver.Parameters.of(values)

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
    source = emit(program, facts, dims, timeline)
    return CudaKernel(program, source, nvrtc.compile_source(source.text, source.arch, defines=defines), facts)
