"""The model's order of plans against the order that an H200 measured (benchmarks/results)."""

from __future__ import annotations

import itertools
import json
import re
from functools import cache
from pathlib import Path

import pytest

import threadloom as tl
from threadloom.examples.flash_attention import flash_attention
from threadloom.examples.matmul import matmul
from threadloom.machine.devices import device as find_device
from threadloom.sched import greedy
from threadloom.sched.candidate import Rejected, prepare, program_of, schedule
from threadloom.sched.partition import partitions
from threadloom.sched.rank import simulated_ns
from threadloom.sched.search import context_of, graphs_of, plan

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"
FILES = tuple(f"h200-2026-11-30-{name}.json" for name in ("attention", "matmul", "llama"))
CLOSE = 0.03  # medians that differ by less are not told apart by a measurement
TIE = 1e-3  # predictions
LEAST_RIGHT = 0.8


@cache
def measured() -> dict[str, dict[str, float]]:
    """Case -> tiles of plans without spills -> the least of the medians measured (ms); cases of three plans or more."""
    found: dict[str, dict[str, float]] = {}
    for file in FILES:
        rows = json.loads((RESULTS / file).read_text())["rows"]
        about = {(r["case"], r["name"]): r["about"] for r in rows if "about" in r}
        for r in rows:
            text = about.get((r["case"], r["name"]), "")
            if "ms" not in r or " spill 0 " not in text or text.startswith("h200/"):
                continue
            plans = found.setdefault(f"{r['case']} ({file})", {})  # one run's times are not compared with another's
            tiles = text.removeprefix("h200 ").split()[0]
            plans[tiles] = min(plans.get(tiles, r["ms"]), r["ms"])
    return {case: plans for case, plans in found.items() if len(plans) >= 3}


def problem(case: str):
    numbers = [int(n) for n in re.findall(r"\d+", case.partition(" (")[0].replace("bf16", ""))]
    if case.startswith("matmul"):
        return matmul.tile(T=tl.bf16, act=lambda x: x), dict(zip("MNK", numbers, strict=True))
    b, h, hkv, sq, sk, d, causal = numbers
    return flash_attention.tile(T=tl.bf16, causal=bool(causal)), dict(B=b, H=h, HKV=hkv, SQ=sq, SK=sk, D=d)


def predicted(case: str, tiles: str) -> float | None:
    """The model's time (ns) of the partition, by the better granularity."""
    kernel, dims = problem(case)
    machine, wanted = find_device("h200"), {a: int(n) for a, n in re.findall(r"([a-v]+)(\d+)", tiles)}
    workers = int(re.search(r"w(\d+)$", tiles)[1])
    times = []
    for granularity, graph in graphs_of(kernel, None, machine):
        context = context_of(graph, dims, machine, None, granularity)
        for p in partitions(graph, context.whole, machine):
            if {t.axis: t.extent for t in p.tiles} == wanted and p.workers == workers:
                made = prepare(p, context)
                made = made if isinstance(made, Rejected) else schedule(made, greedy.schedule)
                if not isinstance(made, Rejected):
                    times.append(simulated_ns(made, program_of(made, "", ())))
    return min(times, default=None)


def ordered_right(pairs: list[tuple[float, float]]) -> tuple[float, int]:
    """Of pairs of plans whose measured times differ by more than CLOSE: how many the model orders so (a tie counts
    half), and how many there are. `pairs`: (predicted, measured)."""
    right, count = 0.0, 0
    for a, b in itertools.combinations(pairs, 2):
        if max(a[1], b[1]) <= (1 + CLOSE) * min(a[1], b[1]):
            continue
        count += 1
        tie = abs(a[0] - b[0]) <= TIE * max(a[0], b[0])
        right += 0.5 if tie else float((a[0] < b[0]) == (a[1] < b[1]))
    return right, count


def test_pairs_that_are_ordered_right():
    assert ordered_right([(1, 10), (2, 20), (3, 30)]) == (3, 3)
    assert ordered_right([(3, 10), (2, 20), (1, 20.1)]) == (0, 2)  # the last two are as fast as each other
    assert ordered_right([(1, 10), (1, 20)]) == (0.5, 1)


@pytest.mark.slow
def test_three_workers_are_found_for_narrow_heads():
    """Timed best: three workers of 64 rows and 112 keys, 1.2 times as fast as two of 64 and 192, which spill. The model
    ranked the latter first while a shared unit's work counted as if it served one worker at a time."""
    kernel, dims = problem("attention B2 H32/32 S8192/8192 D64 causal0")
    first = plan(kernel, dims, "h200").candidates
    names = ["".join(f"{t.axis}{t.extent}" for t in c.partition.tiles) + f"w{c.partition.workers}" for c in first]
    assert names.index("m192n112w3") < names.index("m128n192w2") and names[0].endswith("w3")


def test_sixty_four_keys_for_wide_heads():
    """Timed best: 64 keys (1.51 ms), not 48 (1.79): with fewer columns than rows, reading the rows takes longest."""
    kernel, dims = problem("attention B2 H8/8 S8192/8192 D256 causal0")
    best = plan(kernel, dims, "h200").best
    assert next(t.extent for t in best.partition.tiles if t.axis == "n") == 64


@pytest.mark.slow
def test_the_measured_order_of_plans():
    """50 of 59 pairs when this was written. Known to be wrong: matmul 256 x 96 (28 % slower than it is taken for)."""
    right, count = 0.0, 0
    for case, plans in measured().items():
        pairs = [(ns, ms) for tiles, ms in plans.items() if (ns := predicted(case, tiles)) is not None]
        mine, of = ordered_right(pairs)
        right, count = right + mine, count + of
    assert count >= 40 and right / count >= LEAST_RIGHT, (right, count)


def test_tiles_that_ask_for_more_than_the_cache_gives_are_not_chosen():
    """256 x 96 x 64 wants 57 bytes a cycle of shared operands: measured 0.87 of cuBLAS, 256 x 160 1.01."""
    best = plan(matmul.tile(T=tl.bf16), dict(M=4096, N=10240, K=8192), "h200", splits=False).best
    assert {t.axis: t.extent for t in best.partition.tiles} == {"m": 256, "n": 160, "k": 64}
