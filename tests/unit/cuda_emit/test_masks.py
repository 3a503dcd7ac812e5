"""Masks by position compare 32-bit numbers; the text is evaluated for all elements of a tile."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import threadloom as tl
from tests.unit.cuda_emit.test_forms import source_of
from threadloom.targets.cuda import nvrtc

GOLDEN = Path(__file__).parents[2] / "golden" / "sm90" / "flash_attention_causal.cu"


def condition() -> str:
    """The causal mask's test of one element in the stored source, as Python."""
    line = next(x for x in GOLDEN.read_text().splitlines() if "s[i] = c_3" in x)
    text = re.fullmatch(r"\s*if \(!(.*)\) s\[i\] = c_3;", line)[1]
    assert text.count("(i64)(shift)") == 1 and "(i32)min(max(" in text
    return re.sub(r"\(i(32|64)\)", "", text).replace("/", "//")


@pytest.mark.parametrize("shift", [-(2**31), -70, -1, 0, 5, 300, 2**31 - 1])
def test_a_causal_mask_keeps_what_the_comparison_of_positions_keeps(shift: int):
    test = compile(condition(), "mask", "eval")
    for n_at, m_mine, lane, warp in product((0, 64, 2**31 - 256), (0, 64, 448), (0, 5, 31), (0, 3)):
        for i in range(32):
            names = {
                "n_at": n_at,
                "m_mine": m_mine,
                "m_at": m_mine,
                "lane": lane,
                "warp_in_group": warp,
                "shift": shift,
            }
            kept = eval(test, {"min": min, "max": max, "i": i} | names)
            column = n_at + lane % 4 * 2 + i % 2 + i // 4 * 8
            row = m_mine + warp * 16 + lane // 4 + i // 2 % 2 * 8
            assert kept == (column <= row + shift), (n_at, m_mine, lane, warp, i)


@tl.kernel
def windowed(q: tl.Tensor["M", 64, tl.f16], k: tl.Tensor["N", 64, tl.f16]) -> tl.Tensor["M", 64, tl.f32]:
    for m in tl.grid("M"):
        d = tl.axis(64)
        acc = tl.zeros(m, d)
        for n in tl.stream(tl.span("N", 0, m.stop)):
            s = tl.where((n <= m) & (n > m - 40), tl.dot(q[m, d], k[n, d]), -1e30)
            acc += tl.dot(tl.cast(tl.exp(s), tl.f16), k[n, d])
        out[m, d] = acc


def test_passes_without_masks_are_told_by_the_windows_constant():
    """The constant is made in the passes, and they are counted before."""
    source = source_of(windowed.bind(np.zeros((512, 64), np.float16), np.zeros((4096, 64), np.float16)))
    told = source[source.index("first_without(") :]
    assert re.search(r"return .* > \(.* \+ -40\)", told[: told.index("});")])
    nvrtc.compile_source(source, "sm_90a")
