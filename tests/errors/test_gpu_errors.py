"""Errors of the GPU target that need no GPU."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

import threadloom as tl
from threadloom.errors import CompileError
from threadloom.examples.matmul import matmul
from threadloom.targets.cuda import best_plan, emit_for, launch, nvrtc, unsupported
from threadloom.targets.cuda.compile import CudaKernel, DeviceTensor
from threadloom.targets.cuda.nvrtc import Cubin

pytest.importorskip("cuda.bindings.nvrtc")


@tl.kernel
def doubled(x: tl.Tensor["M", "N", tl.f32]) -> tl.Tensor["M", "N", tl.f32]:
    for m in tl.grid("M"):
        out[m, :] = x[m, :] * 2


def test_no_plan_whose_code_is_as_planned(monkeypatch):
    monkeypatch.setattr(emit_for, "most_shared_bytes", lambda device: -1)  # as if every plan took too much
    monkeypatch.setattr(nvrtc, "compile_source", None)  # which is seen without the compiler
    monkeypatch.setattr(best_plan, "MOST_TRIED", 1)
    kernel = doubled.tile()
    given = {t.name: DeviceTensor(256, (64, 128), (128, 1)) for t in kernel.tensors}
    with pytest.raises(CompileError) as caught:
        launch.kernel_for(kernel, {"M": 64, "N": 128}, given)
    assert caught.value.slug == "gpu-not-supported"
    assert "bytes of shared memory of -1" in caught.value.why and caught.value.loc is not None


@pytest.mark.slow
def test_plans_for_less_shared_memory_where_code_takes_more_than_planned(monkeypatch):
    """Code pads tiles to what products need: a plan that fills the memory may not run, one for half of it may."""

    most = emit_for.most_shared_bytes("h200")

    def padded(program, facts, dims, defines) -> CudaKernel:
        source = emit_for.emit(program, facts, dims)
        source = replace(source, shared_bytes=source.shared_bytes * 3 // 2)
        if source.shared_bytes > most:
            raise unsupported.SharedMemoryShort(unsupported.NO_CODE, "short")
        cubin = Cubin(b"", source.arch, registers=100, spill_bytes=0, stack_bytes=0, shared_bytes=0, log="")
        return CudaKernel(program, source, cubin, facts)

    monkeypatch.setattr(best_plan, "compile_program", padded)
    kernel, dims = matmul.tile(T=tl.f16, act=tl.relu), {"M": 1024, "N": 1024, "K": 1024}
    shapes = {"bias": ((1024,), (1,))}
    given = {t.name: DeviceTensor(256, *shapes.get(t.name, ((1024, 1024), (1024, 1)))) for t in kernel.tensors}
    made = launch.kernel_for(kernel, dims, given, splits=False)
    assert made.source.shared_bytes <= most < 3 * made.source.shared_bytes


@tl.kernel
def flat(x: tl.Tensor["N", tl.f16]) -> tl.Tensor["N", tl.f16]:
    for n in tl.grid("N"):
        out[n] = x[n] * 2


def test_a_dimension_that_positions_of_32_bits_do_not_reach():
    """Its extent would be another number in the code, and elements be left out without a word."""
    kernel = flat.tile()

    def compiled(extent: int):
        given = {t.name: DeviceTensor(256, (extent,), (1,)) for t in kernel.tensors}
        return launch.kernel_for(kernel, {"N": extent}, given)

    compiled(launch.MOST_EXTENT)
    for extent in (launch.MOST_EXTENT + 1, 2**31 + 64):  # the first is of the same bucket
        with pytest.raises(CompileError) as caught:
            compiled(extent)
        assert caught.value.slug == "gpu-extent" and f"N of flat is {extent}" in caught.value.what
        assert caught.value.loc is not None and "x.view" in caught.value.try_


def no_driver() -> bool:
    import ctypes

    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return True
    return False


@pytest.mark.skipif(not no_driver(), reason="there is a driver")
def test_no_driver():
    import numpy as np

    from tests.unit.cuda_target.fake_driver import OnGpu

    x = np.zeros((64, 128), np.float32)
    with pytest.raises(CompileError) as caught:
        doubled(OnGpu(x), out=OnGpu(x.copy()))
    assert caught.value.slug == "no-gpu" and "driver" in caught.value.what


def test_no_library_to_allocate_with(monkeypatch):
    import sys

    from threadloom.arrays import allocate

    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(CompileError) as caught:
        allocate((4, 4), tl.f32, "dlpack", "cuda:0")
    assert caught.value.slug == "no-allocator" and "out=" in caught.value.try_


def test_tuning_without_a_place_to_keep_it(monkeypatch):
    import numpy as np

    monkeypatch.setenv("LOOM_CACHE", "off")
    with pytest.raises(CompileError) as caught:
        doubled.tune(np.zeros((4, 8), np.float32))
    assert caught.value.slug == "nothing-kept"


@pytest.fixture
def dumped(tmp_path, monkeypatch, capsys):
    """The folder of `loom dump doubled --device h200` and the words to run from it."""
    from threadloom import cli

    monkeypatch.chdir(tmp_path)
    assert cli.main(["dump", "softmax", "--device", "h200", "--shape", "M=64,N=256", "--to", "made"]) == 0
    capsys.readouterr()

    def run(file="04-cuda.cu", shape="M=64,N=256"):
        status = cli.main(["run", "softmax", "--shape", shape, "--dtype", "f16", "--from", f"made/{file}"])
        return status, capsys.readouterr().err

    run.folder = tmp_path / "made"
    return run


def test_edited_code_that_nvrtc_refuses(dumped):
    source = dumped.folder / "04-cuda.cu"
    text = source.read_text()
    assert text.startswith("// made for softmax(x: f16[64, 256], out: f16[64, 256])\n")
    source.write_text(text.replace("barrier_init_done();", "barrier_init_done()"))
    status, said = dumped()
    assert status == 1 and "bad-stage" in said and "NVRTC refuses 04-cuda.cu" in said and "expected" in said


def test_edited_code_for_other_arrays(dumped):
    status, said = dumped(shape="M=64,N=512")
    assert status == 1 and "bad-stage" in said and "read and write outside" in said


def test_edited_code_without_its_plan(dumped):
    (dumped.folder / "03-sched.sprog").unlink()
    status, said = dumped()
    assert status == 1 and "not-a-stage" in said and "no .sprog" in said


@pytest.mark.skipif(not no_driver(), reason="there is a driver")
def test_edited_code_where_no_gpu_is(dumped):
    status, said = dumped()
    assert status == 1 and "no-gpu" in said


@pytest.mark.skipif(not no_driver(), reason="there is a driver")
def test_running_where_no_gpu_is(capsys):
    from threadloom import cli

    assert cli.main(["run", "softmax", "--shape", "M=8,N=64", "--device", "gpu"]) == 1
    assert "no-gpu" in capsys.readouterr().err


def test_a_compilation_without_end_is_given_up(monkeypatch):
    ended = threading.Event()
    monkeypatch.setattr(launch, "_make", lambda *_: ended.wait(60))
    monkeypatch.setenv("LOOM_COMPILE_SECONDS", "0.2")
    kernel = flat.tile()
    with pytest.raises(CompileError) as caught:
        launch.kernel_for(kernel, {"N": 4096}, {t.name: DeviceTensor(256, (4096,), (1,)) for t in kernel.tensors})
    ended.set()
    assert caught.value.slug == "compile-limit" and caught.value.loc is not None
