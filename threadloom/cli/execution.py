"""One kernel run here: compiled, timed, compared. Shared by `loom run` and `loom demo`."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from threadloom.cli.inputs import bound_call, make_inputs
from threadloom.cli.kernel_argument import KERNEL_FILE, Chosen, ask_file
from threadloom.comparison import Comparison, compare
from threadloom.dtypes import u4
from threadloom.errors import CompileError
from threadloom.lang.bind import Call
from threadloom.run_stage import NOT_A_STAGE, PLANS
from threadloom.run_stage import runner as stage_runner
from threadloom.sched.ops import SProgram
from threadloom.sched.timeline_text import duration
from threadloom.tile.ops import Access

MOST_SECONDS = 2.0  # of repeated runs, however many are asked for


@dataclass(frozen=True, slots=True)
class Execution:
    """`seconds`: the best of the timed runs, on a GPU the median by its own clock; rates are None where the file does
    not say how much work it is; `program`: the plan that ran on the GPU."""

    device: str
    dims: dict[str, int]
    outputs: list[Comparison]
    seconds: float
    first_seconds: float
    flops_per_s: float | None
    bytes_per_s: float | None
    program: SProgram | None = None

    @property
    def speed(self) -> str:
        rates = [
            f"{self.flops_per_s / 1e9:.1f} GFLOP/s" if self.flops_per_s else "",
            f"{self.bytes_per_s / 1e9:.1f} GB/s" if self.bytes_per_s else "",
        ]
        return ", ".join(filter(None, (f"{duration(self.seconds * 1e9)}", *rates)))


def execute(
    chosen: Chosen, dtype: str | None = None, repeat: int = 5, stage: Path | None = None, device: str = "cpu"
) -> Execution:
    """Run `chosen` on its inputs, time it, compare the results with float64. `device`: "cpu" or "gpu" (the first)."""
    if stage is not None:
        device = device_for(stage, device)
    inputs = make_inputs(chosen, dtype or ("f16" if device == "gpu" and _takes_dtype(chosen) else None))
    reference = references(chosen, inputs)
    call = bound_call(chosen, inputs)
    began = time.perf_counter()
    program = None
    if device == "cpu" or stage is not None:
        runner = _runner(chosen, inputs, stage, device == "gpu")
        results = runner()
        first_seconds = time.perf_counter() - began
        seconds = _best_seconds(runner, repeat)
    else:
        results, first_seconds, seconds, program = _on_gpu(call)
    outputs = compare_with(reference, chosen, call, results)
    return Execution(
        device, dict(chosen.shape or call.dims), outputs, seconds, first_seconds,
        _rate(work(chosen, "flops"), seconds), _rate(work(chosen, "bytes_moved"), seconds), program,
    )  # fmt: skip


def device_for(stage: Path, device: str) -> str:
    """Where a stage runs when `device` is asked for: a .cu on the GPU always, code for the CPU there."""
    if stage.suffix == ".cu":
        return "gpu"
    if device == "gpu" and stage.suffix not in PLANS:
        raise CompileError(
            NOT_A_STAGE,
            f"{stage.name} cannot be run on a GPU",
            why="it is code for the CPU",
            try_=f"{', '.join(PLANS)} or .cu of a dump for a GPU, or leave out --device gpu",
        )
    return device


def output_names(chosen: Chosen) -> list[str]:
    return [o.name for o in chosen.kernel.signature.outputs]


def references(chosen: Chosen, inputs: Mapping[str, object]) -> dict[str, np.ndarray]:
    """Outputs by name in float64: by the file's own function, unless it does not know what `--set` sets."""
    own = getattr(chosen.module, "reference", None)
    if own is not None and chosen.settings.keys() <= inspect.signature(own).parameters.keys():
        made = ask_file(chosen, "reference", **inputs)
    else:
        made = chosen.kernel.interpret(**inputs, exact=True)
    found, names = made if isinstance(made, tuple) else (made,), output_names(chosen)
    if len(found) != len(names):
        what = f"its function reference returns {len(found)} results, {chosen.name} has {len(names)}"
        raise CompileError(KERNEL_FILE, what, try_=f"return {', '.join(names)}")
    return dict(zip(names, map(np.asarray, found), strict=True))


def compare_with(
    reference: Mapping[str, np.ndarray], chosen: Chosen, call: Call, results: Mapping[str, np.ndarray]
) -> list[Comparison]:
    """Results beside `references`, which are the file's own, so they may be of another shape by mistake."""
    for tensor in call.kernel.tensors:
        if tensor.access is not Access.IN and tensor.dtype is not u4:
            want, got = reference[tensor.name].shape, results[tensor.name].shape
            if want != got:
                what = f"its function reference returns {tensor.name} of shape {want}, {chosen.name} makes {got}"
                raise CompileError(KERNEL_FILE, what)
    return compare(call.kernel, call.dims, results, reference)


def _runner(
    chosen: Chosen, inputs: Mapping[str, object], stage: Path | None, on_gpu: bool
) -> Callable[[], dict[str, np.ndarray]]:
    """A call that reuses its outputs, so that timing does not measure the allocation of pages."""
    call = bound_call(chosen, inputs)
    outputs = {t.name: call.arrays[t.name] for t in call.kernel.tensors if t.access is not Access.IN}
    if stage is not None:
        fill = stage_runner(stage, call, on_gpu)
        return lambda: (fill(), outputs)[1]
    return lambda: (chosen.kernel(**inputs, **outputs), outputs)[1]


def _takes_dtype(chosen: Chosen) -> bool:
    own = getattr(chosen.module, "inputs", None)
    return own is None or "dtype" in inspect.signature(own).parameters


def _on_gpu(call: Call) -> tuple[dict[str, np.ndarray], float, float, SProgram]:
    """Results of the call on copies on the first GPU, seconds of the first run (with planning, without the copies) and
    of one launch, and the plan."""
    from threadloom.targets.cuda.launch_copies import OnGpu

    on_gpu = OnGpu(call)
    try:
        began = time.perf_counter()
        on_gpu.run()
        first_seconds = time.perf_counter() - began
        on_gpu.fetch()
        outputs = {t.name: call.arrays[t.name] for t in call.kernel.tensors if t.access is not Access.IN}
        return outputs, first_seconds, on_gpu.seconds(), on_gpu.kernel.program
    finally:
        on_gpu.free()


def _best_seconds(runner: Callable[[], object], repeat: int) -> float:
    best, deadline = float("inf"), time.perf_counter() + MOST_SECONDS
    for _ in range(repeat):
        began = time.perf_counter()
        runner()
        best = min(best, time.perf_counter() - began)
        if time.perf_counter() > deadline:
            break
    return best


def work(chosen: Chosen, kind: str) -> float | None:
    """What the file's function `kind` ("flops" or "bytes_moved") says of this shape; None where it has none."""
    amount = getattr(chosen.module, kind, None)
    if amount is None:
        return None
    accepted = inspect.signature(amount).parameters
    known = {**chosen.shape, **chosen.settings}
    return float(ask_file(chosen, kind, **{k: v for k, v in known.items() if k in accepted}))


def _rate(amount: float | None, seconds: float) -> float | None:
    return None if amount is None else amount / seconds
