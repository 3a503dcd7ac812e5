"""Names that a user may give and that C++, CUDA, the headers or the generators have taken."""

from __future__ import annotations

import numpy as np
import pytest

import threadloom as tl
from threadloom.sched.search import plan
from threadloom.targets.cuda import nvrtc
from threadloom.targets.cuda.compile import facts_of
from threadloom.targets.cuda.emit_for import emit
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


@tl.kernel
def threadIdx(NULL: tl.Tensor["N", "T"]) -> tl.outputs(blockIdx=tl.Tensor["N", "T"]):
    for n in tl.grid("N"):
        isnan = tl.isnan(NULL[n])  # as a beginner calls what a function gives
        fabs, fabsf = tl.abs(NULL[n]), tl.abs(NULL[n] + 1)
        floor, floorf = tl.floor(fabs), tl.floor(fabsf)
        sqrt, sqrtf = tl.sqrt(fabs), tl.sqrt(floorf)
        tanh, tanhf = tl.tanh(sqrt), tl.tanh(sqrtf)
        gridDim = tl.where(tl.isnan(fabs) | isnan, tl.sqrt(floor), tl.tanh(floorf))
        blockIdx[n] = tl.floor(tanh + tanhf) + tl.abs(gridDim) + floor


ONES = np.ones(70, np.float32)
CALLS = {"taken": max.bind(np.ones((70, 33), np.float32), ONES, 1.0, 2.0)}
CALLS |= {f"functions-{dtype}": threadIdx.bind(ONES.astype(dtype)) for dtype in ("f4", "f8")}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
@pytest.mark.parametrize(("device", "arch"), [("h200", "sm_90a"), ("a100", "sm_80")])
def test_taken_names_compile(device, arch, call):
    pytest.importorskip("cuda.bindings.nvrtc")
    given = device_tensors(call.kernel, call.arrays)
    facts = {t.name: facts_of(t, given[t.name]) for t in call.kernel.tensors}
    program = plan(call.kernel, call.dims, device, most=4, splits=False).best
    source = emit(program, facts, call.dims)
    assert source.name == call.kernel.name + "_"
    assert nvrtc.compile_source(source.text, arch).spill_bytes == 0


def test_names_stay_different():
    names = ("i", "i_", "i__", "q", "q_", "x", "x_", "max", "max_")
    assert len({identifier(name) for name in names}) == len(names)
    assert identifier("x") == "x" and identifier("q") == "q"
