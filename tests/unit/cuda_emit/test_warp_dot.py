"""Products of few columns whose rows are in registers: warps do them (mma.sync), from what wgmma would read."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.unit.cuda_emit.test_forms import emitted
from threadloom.examples.w4_matmul import inputs, w4_matmul
from threadloom.sched.ops import AxisTile, Partition
from threadloom.targets.cuda import nvrtc


def made(m: int, dtype: type = np.float16):
    only = Partition((AxisTile("m", m, m), AxisTile("n", 128, 128)), order=("m", "n"), persistent=True)
    return emitted(w4_matmul.bind(**inputs(np.random.default_rng(0), m, 256, 512, dtype)), only=only)


@pytest.mark.parametrize("columns", [16, 24, 32])
def test_few_columns_are_multiplied_by_warps(columns: int):
    text = made(columns).text
    assert f"load_columns<{columns}>" in text and f"mma_warp_f16<{columns}>(acc" in text
    assert f"mma_warp_f16<{columns}>(acc + {columns // 2}, weights_packed + 32 + 4 * k, columns)" in text, "rows 64 on"
    assert not any(word in text for word in ("mma_wait", "mma_commit", "mma_fence", "pin(")), "nothing is in flight"
    cubin = nvrtc.compile_source(text, "sm_90a")
    assert cubin.spill_bytes == 0 and not cubin.serialised


def test_more_columns_are_the_tensor_cores_own():
    text = made(40).text
    assert "mma_m64n40k16_f16_registers_k" in text and "mma_warp" not in text


def test_a_slot_that_warps_have_read_is_released_behind_a_fence():
    """What ordinary loads read may not have left shared memory when the next copy comes."""
    text = made(16).text
    body = text[text.index("mma_warp_f16<16>") :]
    release = body.index("barrier_arrive(empty_a")
    assert "fence_to_async();" in body[:release] and "__syncwarp();" in body[:release]


@pytest.mark.parametrize("columns", [8, 16, 24, 32])
def test_lanes_get_the_columns_that_the_instruction_wants(columns: int):
    """load_columns in Python; B of mma m16n8k16: lane l, register h has column l / 4 at depths 8 h + 2 (l % 4), + 1."""
    tile = np.full((columns, 64), -1)
    for row, column in itertools.product(range(columns), range(64)):  # panel as the copy engine writes it
        tile[row, (column // 8 ^ row % 8) * 8 + column % 8] = row * 64 + column
    for step in range(4):
        got = np.full((32, columns // 4, 2), -1)

        def address(lane: int, step: int = step) -> tuple[int, int]:
            return lane & 7, ((2 * step + (lane >> 3 & 1)) ^ (lane & 7)) * 8

        for j in range(-(-columns // 16)):
            last = columns % 16 and j == columns // 16
            for matrix, lane in itertools.product(range(2 if last else 4), range(32)):
                row, chunk = address(8 * matrix + lane // 4)
                above = columns - 8 if last else j * 16 + (matrix >> 1) * 8
                got[lane, 4 * j + matrix] = tile[above + row, chunk + 2 * (lane % 4) :][:2]
        for lane, block, half, pair in itertools.product(range(32), range(columns // 8), range(2), range(2)):
            want = (8 * block + lane // 4) * 64 + 16 * step + 8 * half + 2 * (lane % 4) + pair
            assert got[lane, 2 * block + half, pair] == want
