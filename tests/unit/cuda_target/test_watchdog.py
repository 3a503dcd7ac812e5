"""The watchdog's waits: nothing that a kernel holds in registers may have to outlive the report of a stuck barrier."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from quick import some

from threadloom.sched.search import plan
from threadloom.targets.cuda import nvrtc
from threadloom.targets.cuda.compile import compile_program, facts_of
from threadloom.targets.cuda.driver import WATCHDOG
from threadloom.targets.cuda.launch import device_tensors


@pytest.mark.parametrize("name", some(["chunk_scan", "attention_backward"], ["chunk_scan"]))
def test_watched_code_does_not_spill(name: str):
    """Both held all registers at a wait, and spilled 52 and 20 bytes while the report could return to the kernel."""
    module = importlib.import_module(f"threadloom.examples.{name}")
    arguments = module.inputs(np.random.default_rng(0), **module.SHAPES[0], dtype=np.float16)
    call = getattr(module, name).bind(**arguments)
    given = device_tensors(call.kernel, call.arrays)
    facts = {t.name: facts_of(t, given[t.name]) for t in call.kernel.tensors}
    program = plan(call.kernel, call.dims, "h200").best
    made = compile_program(program, facts, call.dims, WATCHDOG)
    assert b"loom_stuck" in made.cubin.code
    assert made.cubin.spill_bytes == 0 and not made.cubin.serialised


def test_a_report_does_not_return():
    """Else what waits must keep its registers for afterwards."""
    text = nvrtc.header("sm90.cuh")
    report = text[text.index("loom_stuck[index") :]
    assert report.index("__trap();") < report.index("__builtin_unreachable();") < report.index("#else")
