"""The demonstration: every example kernel planned, compiled, run on the best device here, and compared with float64;
then a CUDA program.

This module does the work and yields what it found; `cli/demo.py` shows it.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from threadloom.cli import kernel_argument
from threadloom.cli.execution import Execution, execute
from threadloom.cli.inputs import planning_problem
from threadloom.errors import CompileError
from threadloom.machine.devices import device
from threadloom.machine.model import Device
from threadloom.machine.peaks import Peaks
from threadloom.planning import best_timeline, drawings
from threadloom.sched.reuse import Chosen, Origin, program_for, recipe_of, remake
from threadloom.sched.search import plan
from threadloom.sched.timeline import Timeline

CUDA_EXAMPLES = Path(__file__).parent / "examples" / "cuda"


@dataclass(frozen=True, slots=True)
class Machine:
    """Where kernels run: `where` is "cpu" or "gpu". `note`: why no GPU is used, where there is one."""

    where: str
    name: str
    model: Device
    peaks: Peaks
    note: str = ""


def best_machine(where: str = "best") -> Machine:
    """GPU 0 where that can be used, else the CPU, measured; `where`: "cpu" or "gpu" for just that."""
    if where == "cpu":
        return this_cpu()
    try:
        return this_gpu()
    except CompileError as error:
        if where == "gpu":
            raise
        from threadloom.doctor import gpu_and_driver

        note = f"a GPU is here and cannot be used: {error.what}" if gpu_and_driver().found else ""
        return replace(this_cpu(), note=note)


@cache
def this_cpu() -> Machine:
    import llvmlite.binding as llvm

    from threadloom.machine.peaks import measure

    peaks = measure()
    return Machine("cpu", f"{llvm.get_host_cpu_name()}, {peaks.threads} cores", device("cpu"), peaks)


def this_gpu() -> Machine:
    """CompileError where no GPU, no driver or no compiler for it is here."""
    from threadloom.targets.cuda import gpu_peaks, nvrtc
    from threadloom.targets.cuda.driver import name_and_memory
    from threadloom.targets.cuda.launch import model_of

    nvrtc.version()
    model, (name, _) = model_of(0), name_and_memory(0)
    peaks = gpu_peaks.measure()
    return Machine("gpu", f"{name} (model {model.name}), {peaks.threads} multiprocessors", model, peaks)


@dataclass(frozen=True, slots=True)
class Shown:
    """One kernel's part of the demonstration; `used` is the plan that calls run; `files` are its drawings; `note`: why
    it did not run on the GPU."""

    name: str
    used: Chosen
    timeline: Timeline
    run: Execution
    fraction: float | None
    of_what: str
    files: list[Path]
    note: str = ""

    @property
    def agrees(self) -> bool:
        return all(c.holds for c in self.run.outputs)


@dataclass(frozen=True, slots=True)
class CudaShown:
    """The CUDA program's part: `problem` says why it failed, "" where it did not."""

    name: str
    build_seconds: float
    error: float
    milliseconds: float
    bytes_per_s: float
    problem: str = ""


def kernels(names: list[str], machine: Machine, folder: Path, repeat: int) -> Iterator[Shown]:
    for name in names:
        yield show(kernel_argument.choose(name, {}), machine, folder / name, repeat)


def show(chosen: kernel_argument.Chosen, machine: Machine, folder: Path, repeat: int) -> Shown:
    """Run and draw one kernel; on the CPU where the GPU's generator has no code for it."""
    from threadloom.targets.cuda.best_plan import NOT_COMPILED
    from threadloom.targets.cuda.unsupported import NO_CODE
    from threadloom.whole_file import write_whole

    asked = chosen
    if machine.where == "gpu":
        chosen = for_gpu(chosen)
    try:
        run = execute(chosen, repeat=repeat, device=machine.where)
    except CompileError as error:
        if machine.where == "cpu" or error.slug not in (NOT_COMPILED, NO_CODE):
            raise
        return replace(show(asked, this_cpu(), folder, repeat), note=f"on the CPU, as {error.what}")
    used, timeline = _plan_of(chosen, machine.model, run)
    files = drawings(timeline)
    for file, text in files.items():
        write_whole(folder / file, text)
    fraction, of_what = fraction_of_peak(run, machine.peaks)
    return Shown(chosen.name, used, timeline, run, fraction, of_what, [folder / file for file in files])


def for_gpu(chosen: kernel_argument.Chosen) -> kernel_argument.Chosen:
    """With the extents that fill a GPU, where the example has such."""
    return replace(chosen, shape={**chosen.shape, **getattr(chosen.module, "SHAPE_GPU", {})})


def _plan_of(chosen: kernel_argument.Chosen, model: Device, run: Execution) -> tuple[Chosen, Timeline]:
    """The plan that ran, and its timeline by the model."""
    problem = planning_problem(chosen, None, "f32" if run.program is None else "f16")
    used = program_for(problem.kernel, problem.dims, model)
    if run.program is not None and run.program.partition != used.program.partition:
        used = Chosen(run.program, Origin.MODEL)  # the first plan's code was not as planned
    if run.program is None and used.origin is Origin.MODEL:
        outcome = plan(problem.kernel, problem.dims, model)  # with all that was rejected
    else:
        outcome = remake(problem.kernel, problem.dims, model, recipe_of(used.program))
    return used, best_timeline(outcome, device(used.program.device), chosen.name)


def fraction_of_peak(run: Execution, peaks: Peaks) -> tuple[float | None, str]:
    """The larger of the fractions of both peaks: what bounds the kernel, as far as the work is known."""
    fractions = []
    if run.flops_per_s:
        fractions.append((run.flops_per_s / peaks.flops_per_s, peaks.compute))
    if run.bytes_per_s:
        fractions.append((run.bytes_per_s / peaks.copy_bytes_per_s, "copy rate"))
    return max(fractions, default=(None, ""))


def cuda_program(source: Path = CUDA_EXAMPLES / "block_sums.cu") -> CudaShown:
    """Build a CUDA program for this CPU, run it, read what it prints about itself."""
    import time

    from threadloom.cuda import build, nvcc_options

    with tempfile.TemporaryDirectory(prefix="loom-demo-") as folder:
        program = Path(folder) / source.stem
        began = time.perf_counter()
        status = build.run(nvcc_options.parse([str(source), "-o", str(program)]))
        build_seconds = time.perf_counter() - began
        if status != 0:
            return CudaShown(source.name, build_seconds, 0.0, 0.0, 0.0, f"the compiler ended with status {status}")
        done = subprocess.run([str(program)], capture_output=True, text=True, timeout=60)
    found = re.search(r"error (\S+) ms (\S+) bytes (\d+)", done.stdout)
    if done.returncode != 0 or found is None:
        problem = f"it ended with status {done.returncode}: {(done.stdout + done.stderr).strip()[-300:]}"
        return CudaShown(source.name, build_seconds, 0.0, 0.0, 0.0, problem)
    milliseconds = float(found[2])
    return CudaShown(source.name, build_seconds, float(found[1]), milliseconds, int(found[3]) / milliseconds * 1e3)


LINKS = {
    "timeline.html": "interactive timeline",
    "timeline.svg": "SVG",
    "timeline.trace.json": "trace for Perfetto",
    "timeline.txt": "text",
    "timeline.json": "JSON",
}
STYLE = (
    "body{font:15px system-ui,sans-serif;margin:2em auto;max-width:1150px;padding:0 1em;color:#222}"
    "img{max-width:100%;border:1px solid #ddd}h2{margin:1.6em 0 .2em}p{margin:.3em 0}.wrong{color:#b00}"
)


def index_page(shown: list[Shown]) -> str:
    """A page with the result and the drawing of every kernel."""
    sections = "".join(map(_section, shown))
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>threadloom demo</title><style>{STYLE}</style>'
        f"<h1>threadloom demo</h1><p>Planned pipelines, and what was measured here.</p>{sections}</html>\n"
    )


def _section(one: Shown) -> str:
    import html

    name = html.escape(one.name)
    files = {f.name for f in one.files}
    links = " · ".join(f'<a href="{name}/{file}">{label}</a>' for file, label in LINKS.items() if file in files)
    fraction = f", {one.fraction:.0%} of the measured {one.of_what}" if one.fraction is not None else ""
    errors = ", ".join(f"{c.output} {c.error:.1e} (allowed {c.bound:.1e})" for c in one.run.outputs)
    verdict = "" if one.agrees else '<b class="wrong">WRONG: </b>'
    return (
        f"<section><h2>{name}</h2><p>{one.run.device}: {html.escape(one.run.speed)}{fraction}. "
        f"{verdict}Error against float64: {html.escape(errors)}</p>"
        f'<p>{links}</p><p><img src="{name}/timeline.svg" alt="timeline of {name}"></p></section>'
    )
