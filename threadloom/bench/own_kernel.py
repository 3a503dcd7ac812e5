"""The kernel that a user names as a case of `loom bench`: beside what its file's `peers` offers, or alone."""

from __future__ import annotations

from collections.abc import Callable

from threadloom.bench.operators import Case, Run
from threadloom.cli.execution import compare_with, output_names, references, work
from threadloom.cli.inputs import bound_call, make_inputs
from threadloom.cli.kernel_argument import KERNEL_FILE, Chosen, ask_file
from threadloom.errors import CompileError


def case_of(chosen: Chosen, dtype: str | None) -> Case:
    """Inputs are made, the kernel is compiled and its results are compared with float64 here."""
    inputs = make_inputs(chosen, dtype)
    call = bound_call(chosen, inputs)
    outputs = {name: call.arrays[name] for name in output_names(chosen)}  # reused: pages are not allocated in a timing
    chosen.kernel(**inputs, **outputs)
    compared = compare_with(references(chosen, inputs), chosen, call, outputs)
    worst = max(compared, key=lambda c: (not c.holds, c.error / c.bound if c.bound else c.error))
    extents = " ".join(f"{name}={extent}" for name, extent in (chosen.shape or call.dims).items())
    return Case(
        f"{chosen.name} {extents}",
        lambda: chosen.kernel(**inputs, **outputs),
        _peers(chosen, inputs),
        goal=None,
        flops=work(chosen, "flops") or 0.0,
        bytes_moved=work(chosen, "bytes_moved") or 0.0,
        check=lambda: worst.error,
        bound=worst.bound,
    )


def _peers(chosen: Chosen, inputs: dict[str, object]) -> dict[str, Run]:
    if not hasattr(chosen.module, "peers"):
        return {}
    found = ask_file(chosen, "peers", **inputs)
    if not isinstance(found, dict) or not all(isinstance(run, Callable) for run in found.values()):
        raise CompileError(
            KERNEL_FILE, "its function peers does not return a dict of functions",
            why="each is called without arguments and does what the kernel does",
            try_='return {"numpy": lambda: np.dot(a, b)}',
        )  # fmt: skip
    return found
