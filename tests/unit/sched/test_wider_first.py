"""Tiles that the model cannot tell apart: those whose products read less of shared memory come first."""

from __future__ import annotations

import threadloom as tl
from threadloom.examples.matmul import matmul
from threadloom.sched.rank import TIE, wider_first
from threadloom.sched.search import plan


def test_of_square_products_as_good_the_wider_is_planned():
    found = plan(matmul.tile(T=tl.bf16), {"M": 4096, "N": 4096, "K": 4096}, "h200")
    best, second = ({t.axis: t.extent for t in c.partition.tiles} for c in found.candidates[:2])
    assert (best["m"], best["n"], second["m"], second["n"]) == (128, 256, 256, 128)
    assert {t.axis: t.extent for t in found.best.partition.tiles} == best

    ours, other = found.candidates[:2]
    assert wider_first([other, ours], [100.0, 100.05]) == [ours, other]
    assert wider_first([other, ours], [100.0, 100.0 * TIE + 1]) == [other, ours], "it is thought to be slower"
