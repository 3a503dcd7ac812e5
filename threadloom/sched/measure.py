"""Measures plans in a worker process, which may crash, hang or be killed without harm to the caller.

One worker serves many jobs (imports and code caches stay warm). It gets a job as one line of JSON on its standard input
(kernel text, extents, device, recipe of the plan) and answers with one line: the time, or why there is none. A worker
that says nothing in time is killed; so is one that dies; the next job gets a new one, so a bad plan costs one answer.

Devices whose plans take long to compile have it done by workers of their own, several at a time (`make`), and only
measured here (`measure_ready`, `race`).
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from threadloom.machine.model import Device
from threadloom.sched.reuse import Recipe, recipe_text
from threadloom.sched.timeline_measured import ClockRecord
from threadloom.store import PlanTime
from threadloom.tile.ops import Kernel

WORKER = "threadloom.sched.measure_worker"
TIMEOUT_S = 30.0  # for one plan: compile, warm up and measure
READY_S = 10.0  # for one that is compiled already


@dataclass(frozen=True, slots=True)
class Job:
    """What is measured. `device`: a model's name; `index_arrays`: file with the values of integer tensors (offsets,
    tables), without which a kernel's loops would run over nonsense; float tensors are made up by the worker."""

    kernel: str
    dims: dict[str, int]
    device: str
    scalars: dict[str, float]
    index_arrays: str


@dataclass(frozen=True, slots=True)
class Made:
    """A plan that was compiled to `path`. `fault`: what in its code is not as planned; `error`: why there is none."""

    recipe: str
    path: Path
    fault: str = ""
    error: str = ""


class Measurer:
    """Use as a context manager; `measure` never raises for what a plan does."""

    def __init__(
        self,
        kernel: Kernel,
        dims: dict[str, int],
        device: Device,
        arrays: Mapping[str, np.ndarray] | None = None,
        scalars: Mapping[str, float] | None = None,
        timeout_s: float = TIMEOUT_S,
        worker: str = WORKER,
    ):
        from threadloom.tile.text import print_kernel

        self._timeout_s, self._worker = timeout_s, worker
        self._folder = tempfile.TemporaryDirectory(prefix="threadloom-measure-")
        file = Path(self._folder.name) / "indices.npz"
        whole = {n: a for n, a in (arrays or {}).items() if a.dtype.kind in "iub"}
        np.savez(file, **whole)
        self._job = Job(print_kernel(kernel), dict(dims), device.name, dict(scalars or {}), str(file))
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Measurer:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._folder.cleanup()

    def stop(self) -> None:
        """Kill the worker, if there is one."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()

    def measure(self, recipe: Recipe) -> PlanTime:
        text = recipe_text(recipe)
        return self._time_of(text, self._ask("measure", recipe=text))

    def make(self, recipe: Recipe, path: Path, clocks: bool = False) -> Made:
        """Compile the plan to `path`, with in-kernel clocks where asked."""
        text = recipe_text(recipe)
        answer = self._ask("make", recipe=text, path=str(path), clocks=clocks)
        if answer is None:
            return Made(text, path, error=f"not compiled within {self._timeout_s:.0f} s")
        return Made(text, path, answer.get("fault", ""), answer.get("error", ""))

    def load(self) -> None:
        """Have the worker make its data now."""
        self._ask("load")

    def measure_ready(self, made: Made) -> tuple[PlanTime, list[float]]:
        """Time a compiled plan; also a sample of its results. One that hangs is run again with the watchdog, which says
        where."""
        answer = self._ask("measure_ready", min(self._timeout_s, READY_S), paths=[str(made.path)])
        if answer is not None:
            return self._time_of(made.recipe, answer), answer.get("sample", [])
        explained = self._ask("explain_hang", paths=[str(made.path)]) or {}
        found = explained.get("hang") or explained.get("error") or "no answer"
        return PlanTime(made.recipe, "timeout", 0.0, f"it hangs: {found}"), []

    def task_times(self, made: Made) -> list[dict]:
        """What the sTasks of a plan compiled with clocks took (`profiled.times_of_records`); [] where that could not
        be had."""
        answer = self._ask("clocks", min(self._timeout_s, READY_S), paths=[str(made.path)]) or {}
        return answer.get("times", [])

    def clock_records(self, made: Made) -> tuple[list[ClockRecord], str]:
        """What the clocks of a plan compiled with them show, and why there are none."""
        answer = self._ask("clocks", min(self._timeout_s, READY_S), paths=[str(made.path)])
        if answer is None:
            return [], "it hangs"
        return [ClockRecord(*r) for r in answer.get("records", [])], answer.get("error", "")

    def race(self, made: list[Made]) -> list[float]:
        """Times in ns of compiled plans that take turns; [] where they could not be had."""
        answer = self._ask("measure_ready", paths=[str(m.path) for m in made]) or {}
        return [float(ns) for ns in answer.get("ns", [])]

    def _time_of(self, recipe: str, answer: dict | None) -> PlanTime:
        if answer is None:
            return PlanTime(recipe, "timeout", 0.0, f"no answer within {self._timeout_s:.0f} s")
        if "ns" not in answer:
            return PlanTime(recipe, "failed", 0.0, answer.get("error", "no reason given"))
        ns = answer["ns"]
        return PlanTime(recipe, "ok", float(ns[0] if isinstance(ns, list) else ns))

    def _ask(self, do: str, within_s: float | None = None, **more: object) -> dict | None:
        """The worker's answer; None where it did not come in time."""
        job = self._job
        return self._send(
            json.dumps(
                {
                    "do": do,
                    "kernel": job.kernel,
                    "dims": job.dims,
                    "device": job.device,
                    "scalars": job.scalars,
                    "index_arrays": job.index_arrays,
                    **more,
                }
            ),
            self._timeout_s if within_s is None else within_s,
        )

    def _send(self, line: str, within_s: float) -> dict | None:
        process = self._running()
        try:
            process.stdin.write(line + "\n")
            process.stdin.flush()
        except OSError:
            self.stop()
            return {"error": "the worker died before it took the plan"}
        reply = self._read_line(process, within_s)
        if reply is None:
            self.stop()
            return None
        if not reply:
            code = process.wait()
            self.stop()
            return {"error": f"the worker died (exit status {code})"}
        try:
            return json.loads(reply)
        except json.JSONDecodeError:
            self.stop()
            return {"error": f"the worker answered nonsense: {reply[:80]!r}"}

    def _read_line(self, process: subprocess.Popen[str], within_s: float) -> str | None:
        """One line; "" where the worker died; None where the time is over."""
        deadline = time.monotonic() + within_s
        got = b""
        with selectors.DefaultSelector() as ready:
            ready.register(process.stdout, selectors.EVENT_READ)
            while not got.endswith(b"\n"):
                left = deadline - time.monotonic()
                if left <= 0 or not ready.select(left):
                    return None
                chunk = os.read(process.stdout.fileno(), 65536)
                if not chunk:
                    return ""
                got += chunk
        return got.decode(errors="replace")

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            self.stop()
            self._process = subprocess.Popen(
                [sys.executable, "-m", self._worker],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        return self._process
