"""`loom demo` where a GPU is, with a driver that records: launches, times and drawings are the GPU's."""

from __future__ import annotations

import json

import pytest

from threadloom import demo, doctor
from threadloom.cli import kernel_argument, main
from threadloom.machine.peaks import Peaks
from threadloom.targets.cuda import gpu_peaks, launch_copies
from threadloom.targets.cuda.nvrtc import compile_source
from threadloom.targets.cuda.unsupported import no_code
from threadloom.tile.interp import interpret

pytest.importorskip("cuda.bindings.nvrtc")

PEAKS = Peaks(132, 7e14, 4e12, "f16 matrix rate")
REAL_CHOOSE, REAL_FOR_GPU = kernel_argument.choose, demo.for_gpu
THIS_CPU = demo.Machine("cpu", "one core", demo.device("cpu"), Peaks(1, 1e11, 1e10))


@pytest.fixture(autouse=True)
def measured(monkeypatch, tmp_path):
    """Small shapes; no peak is measured; results, which the driver does not compute, come from the interpreter."""
    choose = kernel_argument.choose

    def fetch(on_gpu):
        given = on_gpu._given
        interpret(given.kernel, given.arrays, given.scalars, given.dims)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(launch_copies.OnGpu, "fetch", fetch)
    monkeypatch.setattr(demo, "this_cpu", lambda: THIS_CPU)
    monkeypatch.setattr(demo, "for_gpu", lambda chosen: chosen)
    monkeypatch.setattr(kernel_argument, "choose", lambda name, shape: choose(name, {"M": 256, "N": 512}))


def run_demo(monkeypatch, *arguments: str) -> tuple[int, dict]:
    monkeypatch.setattr(gpu_peaks, "measure", lambda: PEAKS)
    status = main(["demo", *arguments, "--no-cuda", "--repeat", "1", "--json", "out.json"])
    with open("out.json") as file:
        return status, json.load(file)


def test_a_kernel_runs_on_the_gpu(gpu, monkeypatch, tmp_path, capfd):
    status, record = run_demo(monkeypatch, "copy_tiles")
    shown = capfd.readouterr().out
    assert status == 0, shown
    assert gpu.launches
    assert record["device"] == "gpu" and record["peaks"]["compute"] == "f16 matrix rate"
    assert "NVIDIA H200 (model h200), 132 multiprocessors" in shown and "700 TFLOP/s (f16 matrix rate)" in shown
    (kernel,) = record["kernels"]
    assert kernel["device"] == "gpu" and kernel["agrees"] and kernel["tiles"]
    assert 0 < kernel["seconds"] <= gpu.milliseconds / 1e3
    assert kernel["fraction_of_peak"] == pytest.approx(kernel["bytes_per_s"] / PEAKS.copy_bytes_per_s)
    assert "load_x" in shown and all((tmp_path / f).stat().st_size for f in [*kernel["files"], record["page"]])


def test_what_has_no_gpu_code_runs_on_the_cpu_and_says_so(gpu, monkeypatch, capfd):
    def refuse(on_gpu):
        raise no_code("a copy", "it is a test", None)

    monkeypatch.setattr(launch_copies.OnGpu, "run", refuse)
    status, record = run_demo(monkeypatch, "copy_tiles")
    assert status == 0 and record["kernels"][0]["device"] == "cpu" and not gpu.launches
    assert "on the CPU, as there is no GPU code for a copy" in capfd.readouterr().out


@pytest.mark.parametrize(("name", "rows"), [("softmax", 16384), ("conv2d", None)])
def test_examples_may_have_larger_extents_for_a_gpu(name, rows):
    chosen = REAL_CHOOSE(name, {})
    assert REAL_FOR_GPU(chosen).shape == {**chosen.shape, **({"M": rows} if rows else {})}


def test_the_cpu_can_be_asked_for(gpu):
    assert demo.best_machine("cpu") is THIS_CPU


def test_a_gpu_that_cannot_be_used_is_told(gpu, monkeypatch):
    gpu.capability = (7, 5)
    monkeypatch.setattr(doctor, "gpu_and_driver", lambda: doctor.Finding("GPU", True, "", "", ""))
    machine = demo.best_machine()
    assert machine.where == "cpu" and "a GPU is here and cannot be used: GPU 0 is sm_75" in machine.note


@pytest.mark.slow
def test_peaks_of_an_a100(gpu):
    gpu.capability, gpu.name, gpu.milliseconds = (8, 0), "NVIDIA A100-SXM4-80GB", 2.0
    peaks = gpu_peaks.measure()
    assert peaks.copy_bytes_per_s == pytest.approx(2 * gpu_peaks.COPY_BYTES / 2e-3)
    (launch, *_) = gpu.launches
    _, flops, _ = gpu_peaks.SOURCES["sm_80"]
    assert peaks.flops_per_s == pytest.approx(launch.blocks * gpu_peaks.ROUNDS * flops / 2e-3)
    assert launch.threads == gpu_peaks.THREADS and len(gpu.launches) == gpu_peaks.ATTEMPTS + 1 and not gpu.memory


@pytest.mark.slow
def test_the_loop_of_products_for_hopper_is_products_alone():
    source, _, _ = gpu_peaks.SOURCES["sm_90a"]
    cubin = compile_source(source, "sm_90a")
    assert cubin.spill_bytes == 0 and not cubin.serialised
