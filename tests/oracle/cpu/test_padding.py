"""Ragged tiles: whole vectors run into the padding where nothing outside a tile is touched."""

from __future__ import annotations

import numpy as np
import pytest
from cpu_run import plain_schedule, run_compiled, target_of

from threadloom.examples.flash_attention_varlen import flash_attention_varlen
from threadloom.lang.bind import Call
from threadloom.targets.cpu.compile import form_for, lower
from threadloom.targets.cpu.emit import emit_llvm
from threadloom.targets.cpu.schedule import AVX2

LENGTHS = [70, 0, 1, 8, 9, 64, 15, 17, 129]  # queries of a sequence: every rest of one, two and no vectors


def call_of(lengths: list[int]) -> Call:
    rng = np.random.default_rng(0)
    starts = np.cumsum([0, *lengths]).astype(np.int32)
    q, k, v = (rng.standard_normal((starts[-1], 2, 16)).astype(np.float32) for _ in range(3))
    return flash_attention_varlen.bind(q=q, k=k, v=v, starts_q=starts, starts_k=starts, scale=0.25, causal=True)


def text_of(call: Call, size: int) -> str:
    schedule = plain_schedule(call.kernel, {}, size)
    return emit_llvm(lower(schedule, form_for(schedule, call.arrays, call.dims), AVX2)[1])


@pytest.mark.parametrize("width, size", [("avx2", 64), ("avx2", 180), ("avx512", 128)])
def test_ragged_tiles_are_right(width: str, size: int):
    call = call_of(LENGTHS)
    names = [p.name for p in call.kernel.tensors if p.name in call.arrays and p.name != "out"]
    given = {name: call.arrays[name] for name in names}
    want = flash_attention_varlen.interpret(**given, scale=0.25, causal=True, exact=True)
    (found,) = run_compiled(call, target_of(width), {}, size)
    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-5)


def test_large_tiles_have_one_copy_of_what_stays_on_chip():
    call = call_of(LENGTHS)
    large, small = text_of(call, 64), text_of(call, 48)
    assert "@dot.float.6x1" in small and "@dot.float.6x1" not in large
    assert large.count("\n") < 0.85 * small.count("\n")
