"""Masks by position compare 32-bit numbers; the text is evaluated for all elements of a tile."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest

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
