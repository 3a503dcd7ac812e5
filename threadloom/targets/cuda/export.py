"""A compiled kernel as files for programs without Python: machine code, its source, and a C header that launches it.

The header needs only the CUDA driver API (cuda.h). It fixes the extents and strides that the code was made for; the
caller gives addresses, scalars and a stream. What it writes out is what `CudaKernel.prepare` does for calls.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from threadloom.targets.cuda.compile import BULK_ALIGN_BYTES, CudaKernel, DeviceTensor
from threadloom.targets.cuda.driver import MAP_TYPES, MapSpec
from threadloom.tile.ops import Access
from threadloom.whole_file import write_whole
from threadloom.writer import Writer

_C_SCALARS = {
    "f64": "double", "f32": "float", "f16": "float", "bf16": "float", "tf32": "float",
    "i64": "long long", "i32": "int", "i8": "int", "u8": "int", "bool": "unsigned char",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Exported:
    cubin: Path
    header: Path
    source: Path


def export(kernel: CudaKernel, tensors: Mapping[str, DeviceTensor], dims: Mapping[str, int], folder: Path) -> Exported:
    """Write NAME.cubin, NAME.h and NAME.cu to `folder`; shapes and strides are those of `tensors`."""
    name = kernel.source.name
    made = Exported(folder / f"{name}.cubin", folder / f"{name}.h", folder / f"{name}.cu")
    folder.mkdir(parents=True, exist_ok=True)
    made.cubin.write_bytes(kernel.cubin.code)
    write_whole(made.header, header_text(kernel, tensors, dims))
    write_whole(made.source, kernel.source.text)
    return made


def header_text(kernel: CudaKernel, tensors: Mapping[str, DeviceTensor], dims: Mapping[str, int]) -> str:
    source, w = kernel.source, Writer()
    name, guard = source.name, f"THREADLOOM_{source.name.upper()}_H"
    _about(w, kernel, tensors, dims)
    w.line(f"#ifndef {guard}")
    w.line(f"#define {guard}")
    w.line("#include <cuda.h>")
    w.line("#include <stddef.h>")
    w.line()
    w.line(f"enum {{ {name}_threads = {source.threads}, {name}_shared_bytes = {source.shared_bytes} }};")
    w.line()
    _loader(w, name, source.cluster)
    _blocks(w, kernel, dims)
    _launcher(w, kernel, tensors, dims)
    w.line("#endif")
    return w.text()


def _about(w: Writer, kernel: CudaKernel, tensors: Mapping[str, DeviceTensor], dims: Mapping[str, int]) -> None:
    tiles = ", ".join(f"{t.axis} {t.extent}" for t in kernel.program.partition.tiles)
    w.line(f"/* {kernel.source.name} for {kernel.source.arch}, made by threadloom. Tiles: {tiles}.")
    for tensor in kernel.program.graph.kernel.tensors:
        given = tensors[tensor.name]
        shape, strides = ", ".join(map(str, given.shape)), ", ".join(map(str, given.strides))
        align = f", at a multiple of {BULK_ALIGN_BYTES} bytes" if kernel.facts[tensor.name].aligned else ""
        access = "read" if tensor.access is Access.IN else "written"
        dims_text = ", ".join(map(str, tensor.dims))
        w.line(f"   {tensor.name}: {tensor.dtype.name}[{shape}] ({dims_text}), strides {strides}, {access}{align}")
    w.line("   The code is right for these extents and strides only. */")


def _loader(w: Writer, name: str, cluster: int) -> None:
    w.line(f"/* Load {name}.cubin (a path, or its bytes by {name}_load_data) into the current context. */")
    for kind, argument, call in (
        ("load_data", "const void *image", "cuModuleLoadData(module, image)"),
        ("load", "const char *path", "cuModuleLoad(module, path)"),
    ):
        with w.block(f"static inline CUresult {name}_{kind}(CUmodule *module, CUfunction *function, {argument})"):
            w.line(f"CUresult status = {call};")
            w.line(f'if (status == CUDA_SUCCESS) status = cuModuleGetFunction(function, *module, "{name}");')
            w.line("if (status == CUDA_SUCCESS)")
            w.line("  status = cuFuncSetAttribute(*function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,")
            w.line(f"                              {name}_shared_bytes);")
            if cluster > 8:
                attribute = "CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED"
                w.line(f"if (status == CUDA_SUCCESS) status = cuFuncSetAttribute(*function, {attribute}, 1);")
            w.line("return status;")
        w.line()


def _blocks(w: Writer, kernel: CudaKernel, dims: Mapping[str, int]) -> None:
    """The grid formula."""
    source, factors, words = kernel.source, [], []
    for dim, extent, multiple in source.grid:
        size = dim if isinstance(dim, int) else dims[dim]
        count = f"(({size} + {extent} - 1) / {extent})" if extent > 1 else f"{size}"
        factors.append(f"(({count} + {multiple} - 1) / {multiple} * {multiple})" if multiple > 1 else count)
        word = f"ceil({dim} / {extent})" if extent > 1 else str(dim)
        words.append(f"{word} (rounded up to a multiple of {multiple})" if multiple > 1 else word)
    limit = f", at most {source.blocks_per_eu} for each multiprocessor" if source.persistent else ""
    w.line(f"/* Blocks of a launch: {' * '.join(words) or '1'} tiles{limit}. */")
    with w.block(f"static inline unsigned {source.name}_blocks(int multiprocessors)"):
        w.line(f"unsigned tiles = {' * '.join(factors) or '1'};")
        if source.persistent:
            whole = f" / {source.cluster} * {source.cluster}" if source.cluster > 1 else ""
            w.line(f"unsigned most = (unsigned)multiprocessors * {source.blocks_per_eu}{whole};")
            w.line("if (tiles > most) tiles = most;")
        else:
            w.line("(void)multiprocessors;")
        w.line("return tiles;")
    w.line()


def _launcher(w: Writer, kernel: CudaKernel, tensors: Mapping[str, DeviceTensor], dims: Mapping[str, int]) -> None:
    source, ir = kernel.source, kernel.program.graph.kernel
    arguments = [f"CUdeviceptr {t.name}" for t in ir.tensors]
    arguments += [f"{_C_SCALARS[s.dtype.name]} {s.name}" for s in ir.scalars]
    w.line("/* Put the kernel on `stream`; nothing is allocated, nothing waits. */")
    head = f"static inline CUresult {source.name}_launch(CUfunction function, {', '.join(arguments)},"
    w.line(head)
    with w.block("    CUstream stream, int multiprocessors)"):
        for tensor in ir.tensors:
            w.line(f"(void){tensor.name};")
        w.line("CUresult status = CUDA_SUCCESS;")
        for name, spec in source.maps:
            _map(w, name, spec, tensors[spec.tensor], max(8, kernel.facts[spec.tensor].tensor.dtype.bits) // 8)
        for tensor in ir.tensors:
            if tensor.access is Access.INOUT:
                size = math.prod(tensors[tensor.name].shape) * tensor.dtype.bits // 8
                w.line(f"/* {tensor.name} is added to. */")
                w.line(f"status = cuMemsetD8Async({tensor.name}, 0, {size}, stream);")
                w.line("if (status != CUDA_SUCCESS) return status;")
        parameters = [f"&{name}" for name, _ in source.maps]
        for name in source.direct:
            parameters.append(f"&{name}")
            for d, stride in enumerate(tensors[name].strides):
                w.line(f"long long {name}_stride{d} = {stride};")
                parameters.append(f"&{name}_stride{d}")
        for dim in source.dims:
            w.line(f"int dim_{dim} = {dims[dim]};")
            parameters.append(f"&dim_{dim}")
        parameters += [f"&{name}" for name, _ in source.scalars]
        w.line(f"void *parameters[] = {{{', '.join(parameters)}}};")
        w.line("CUlaunchConfig config = {0};")
        w.line(f"config.gridDimX = {source.name}_blocks(multiprocessors);")
        w.line("config.gridDimY = config.gridDimZ = config.blockDimY = config.blockDimZ = 1;")
        w.line(f"config.blockDimX = {source.name}_threads;")
        w.line(f"config.sharedMemBytes = {source.name}_shared_bytes;")
        w.line("config.hStream = stream;")
        if source.cluster > 1:
            w.line("CUlaunchAttribute cluster;")
            w.line("cluster.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;")
            w.line(f"cluster.value.clusterDim.x = {source.cluster};")
            w.line("cluster.value.clusterDim.y = cluster.value.clusterDim.z = 1;")
            w.line("config.attrs = &cluster;")
            w.line("config.numAttrs = 1;")
        w.line("if (config.gridDimX == 0) return status;")
        w.line("return cuLaunchKernelEx(&config, function, parameters, NULL);")
    w.line()


def _map(w: Writer, name: str, spec: MapSpec, given: DeviceTensor, size: int) -> None:
    """A tensor map, as driver.encode_map makes it."""
    strides = [s * size if n > 1 else BULK_ALIGN_BYTES for s, n in zip(given.strides, given.shape, strict=True)]
    rank, swizzle = len(spec.dims), f"{spec.swizzle_bytes}B" if spec.swizzle_bytes else "NONE"
    extents = ", ".join(str(max(1, given.shape[d])) for d in spec.dims)
    steps = ", ".join(str(strides[d]) for d in spec.dims[1:]) or str(BULK_ALIGN_BYTES)
    w.line(f"CUtensorMap {name};")
    w.line(f"cuuint64_t {name}_extents[] = {{{extents}}}, {name}_strides[] = {{{steps}}};")
    w.line(f"cuuint32_t {name}_box[] = {{{', '.join(map(str, spec.box))}}};")
    w.line(f"cuuint32_t {name}_steps[] = {{{', '.join(['1'] * rank)}}};")
    w.line(f"status = cuTensorMapEncodeTiled(&{name}, CU_TENSOR_MAP_DATA_TYPE_{MAP_TYPES[spec.dtype]}, {rank},")
    w.line(f"    (void *){spec.tensor}, {name}_extents, {name}_strides, {name}_box, {name}_steps,")
    w.line(f"    CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_{swizzle},")
    w.line(f"    CU_TENSOR_MAP_L2_PROMOTION_L2_{spec.fetch_bytes}B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);")
    w.line("if (status != CUDA_SUCCESS) return status;")
