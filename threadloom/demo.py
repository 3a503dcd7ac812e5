"""The demonstration: every example kernel planned, compiled, run here and compared with float64; then a CUDA program.

This module does the work and yields what it found; `cli/demo.py` shows it.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from threadloom.cli import kernel_argument
from threadloom.cli.execution import Execution, execute
from threadloom.cli.inputs import planning_problem
from threadloom.machine.devices import device
from threadloom.machine.peaks import Peaks
from threadloom.planning import best_timeline, drawings
from threadloom.sched.reuse import Chosen, Origin, program_for, recipe_of, remake
from threadloom.sched.search import plan
from threadloom.sched.timeline import Timeline

CUDA_EXAMPLES = Path(__file__).parent / "examples" / "cuda"


@dataclass(frozen=True, slots=True)
class Shown:
    """One kernel's part of the demonstration; `used` is the plan that calls run; `files` are its drawings."""

    name: str
    used: Chosen
    timeline: Timeline
    run: Execution
    fraction: float | None
    of_what: str
    files: list[Path]

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


def kernels(names: list[str], peaks: Peaks, folder: Path, repeat: int) -> Iterator[Shown]:
    for name in names:
        yield show(kernel_argument.choose(name, {}), peaks, folder / name, repeat)


def show(chosen: kernel_argument.Chosen, peaks: Peaks, folder: Path, repeat: int) -> Shown:
    from threadloom.whole_file import write_whole

    machine = device("cpu")
    problem = planning_problem(chosen, None, "f32")
    used = program_for(problem.kernel, problem.dims, machine)
    outcome = plan(problem.kernel, problem.dims, machine)
    if used.origin is not Origin.MODEL:
        outcome = remake(problem.kernel, problem.dims, machine, recipe_of(used.program))
    timeline = best_timeline(outcome, machine, chosen.name)
    files = drawings(timeline)
    for file, text in files.items():
        write_whole(folder / file, text)
    run = execute(chosen, repeat=repeat)
    return Shown(chosen.name, used, timeline, run, *fraction_of_peak(run, peaks), [folder / file for file in files])


def fraction_of_peak(run: Execution, peaks: Peaks) -> tuple[float | None, str]:
    """The larger of the fractions of FMA peak and copy rate: what bounds the kernel, as far as the work is known."""
    fractions = []
    if run.flops_per_s:
        fractions.append((run.flops_per_s / peaks.flops_per_s, "FMA peak"))
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
        f"<section><h2>{name}</h2><p>{html.escape(one.run.speed)}{fraction}. "
        f"{verdict}Error against float64: {html.escape(errors)}</p>"
        f'<p>{links}</p><p><img src="{name}/timeline.svg" alt="timeline of {name}"></p></section>'
    )
