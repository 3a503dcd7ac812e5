"""Calls whose arrays are in host memory, run on GPU 0 on copies of them: for the command line."""

from __future__ import annotations

from dataclasses import replace

from threadloom.arrays_device import LEGACY_STREAM, DeviceArray, packed_strides
from threadloom.lang.bind import Call
from threadloom.targets.cuda import driver_work
from threadloom.targets.cuda.compile import CudaKernel
from threadloom.targets.cuda.launch import clear_accumulated, device_tensors, kernel_for, launch_on_gpu, model_of
from threadloom.tile.ops import Access


class OnGpu:
    """`call` is the one on the GPU; `run` launches it, `fetch` brings its outputs to the arrays of the given call."""

    def __init__(self, given: Call):
        self._given = given
        arrays = {
            name: DeviceArray(
                driver_work.upload(array), array.shape, packed_strides(array.shape, array.itemsize), array.dtype,
                "cuda:0", stream=LEGACY_STREAM,
            )
            for name, array in given.arrays.items()
        }  # fmt: skip
        self.call = replace(given, arrays=arrays, device="cuda:0", stream=LEGACY_STREAM)

    def run(self) -> None:
        """Launch the call's kernel as a call does, and wait for it."""
        launch_on_gpu(self.call)
        driver_work.synchronize(LEGACY_STREAM, self.call.kernel.name)

    @property
    def kernel(self) -> CudaKernel:
        """What `run` launches."""
        given = device_tensors(self.call.kernel, self.call.arrays)
        return kernel_for(self.call.kernel, self.call.dims, given, model_of(0))

    def seconds(self) -> float:
        """Of one launch, on the GPU's own clock, in a CUDA graph of launches over copies of the arguments in turn."""
        from threadloom.targets.cuda.time_plan import time_kernels

        call = self._given
        return time_kernels([self.kernel], call.arrays, call.dims, call.scalars, model_of(0))[0] / 1e9

    def launch(self, kernel: CudaKernel) -> None:
        """Launch `kernel` in its place, and wait for it."""
        clear_accumulated(self.call, LEGACY_STREAM, 0)
        given = device_tensors(self.call.kernel, self.call.arrays)
        kernel.launch(given, self.call.dims, self.call.scalars, LEGACY_STREAM)
        driver_work.synchronize(LEGACY_STREAM, kernel.source.name)

    def free(self) -> None:
        """Give the copies' memory back."""
        for array in self.call.arrays.values():
            driver_work.free(array.pointer)

    def fetch(self) -> None:
        for tensor in self.call.kernel.tensors:
            if tensor.access is not Access.IN:
                target = self._given.arrays[tensor.name]
                if target.flags.c_contiguous:
                    driver_work.download(self.call.arrays[tensor.name].pointer, target)
                else:
                    packed = target.copy(order="C")
                    driver_work.download(self.call.arrays[tensor.name].pointer, packed)
                    target[...] = packed
