"""Names that a user may give and that C++, CUDA, the headers or the generators have taken."""

from __future__ import annotations

import numpy as np
import pytest

import threadloom as tl
from threadloom.sched.search import plan
from threadloom.targets.cuda import nvrtc
from threadloom.targets.cuda.compile import facts_of
from threadloom.targets.cuda.emit_for import emitter
from threadloom.targets.cuda.launch import device_tensors
from threadloom.targets.cuda.names import identifier


@tl.kernel
def max(
    i: tl.Tensor["M", "N", tl.f32], double: tl.Tensor["M", tl.f32], lane: tl.f32, pack_f16: tl.f32
) -> tl.outputs(tile=tl.Tensor["M", "N", tl.f32], e=tl.Tensor["M", tl.f32]):
    for m in tl.grid("M"):
        smem = i[m, :] * lane + double[m]
        store_wait_read = tl.sum(smem, "N") + pack_f16
        e[m] = store_wait_read
        tile[m, :] = smem


@pytest.mark.parametrize(("device", "arch"), [("h200", "sm_90a"), ("a100", "sm_80")])
def test_taken_names_compile(device, arch):
    pytest.importorskip("cuda.bindings.nvrtc")
    call = max.bind(np.ones((70, 33), np.float32), np.ones(70, np.float32), 1.0, 2.0)
    given = device_tensors(call.kernel, call.arrays)
    facts = {t.name: facts_of(t, given[t.name]) for t in call.kernel.tensors}
    program = plan(call.kernel, call.dims, device, most=4, splits=False).best
    source = emitter(program)(program, facts, call.dims)
    assert source.name == "max_"
    assert nvrtc.compile_source(source.text, arch).spill_bytes == 0


def test_names_stay_different():
    names = ("i", "i_", "i__", "q", "q_", "x", "x_", "max", "max_")
    assert len({identifier(name) for name in names}) == len(names)
    assert identifier("x") == "x" and identifier("q") == "q"
