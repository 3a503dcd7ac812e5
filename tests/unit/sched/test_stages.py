"""How many iterations of a loop are under way at a time."""

from __future__ import annotations

import threadloom as tl
from threadloom.sched import fold
from threadloom.sched.search import plan


@tl.kernel
def best_path(em: tl.Tensor["B", "L", "S", tl.f32], tr: tl.Tensor["S", "S", tl.f32]) -> tl.outputs(
    back=tl.Tensor["B", "L", "S", tl.i64], zero=tl.Tensor["B", "L", "S", tl.i32]
):
    p, c = tl.axis("S"), tl.axis("S")
    for b in tl.grid(tl.each("B")):
        score = tl.zeros(p)
        for t in tl.stream(tl.each("L")):
            zero[b, t, c] = tl.zeros(c, dtype=tl.i32)  # waits for nothing
            steps = score + tr[p, c]
            back[b, t, c] = tl.argmax(steps, p)
            score = tl.sum(tl.where(c == p, tl.max(steps, p) + em[b, t, c], 0.0), c)


def stages() -> int:
    made = plan(best_path.tile(), {"B": 2, "L": 33, "S": 40}, "h200", most=4).best
    return max(loop.stages for loop in made.loops)


def test_what_waits_for_nothing_does_not_run_ahead(monkeypatch):
    """Each stage is code of its own: with 21 of them a kernel took NVRTC a minute."""
    assert stages() <= 4
    monkeypatch.setattr(fold, "_beside_the_others", lambda problem, arcs, starts, ii: starts)
    assert stages() > 8
