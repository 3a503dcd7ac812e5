#!/usr/bin/env python3
"""Launches kernels again and again and compares every result with the first, bit by bit: what differs is a race.

    python benchmarks/hopper_repeat.py [--ops scan,attention] [--only REGEX] [--plans 3] [--launches 40]

Results of a plan are the same in every run (no atomic additions in these cases), so no reference is needed and no race
hides within a tolerance. Each plan runs alone and, every other time, beside a copy on another stream, which shifts what
arrives when. Of the first launch that differs the places are summed up by dimension. Exit code 1 where any differs.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch
from hopper import OPS
from hopper_timing import SHIPPED, Case, Job, device_tensor, launch, make

MOST_INDICES = 12  # shown of a dimension


def places(differs: torch.Tensor) -> str:
    """Which indices of each dimension the differing elements have."""
    found = differs.nonzero()
    dims = []
    for d in range(found.shape[1]):
        indices = found[:, d].unique().tolist()
        shown = ",".join(map(str, indices[:MOST_INDICES]))
        dims.append(shown if len(indices) <= MOST_INDICES else f"{shown},.. ({len(indices)})")
    return f"{len(found)} elements: [{' ; '.join(dims)}]"


def repeat(kernel, case: Case, launches: int) -> tuple[int, str]:
    """How many launches differ from the first, and where the first of them does."""
    out, beside = case.sets[0][case.output], torch.cuda.Stream()
    moved = torch.empty(2, 1 << 27, device="cuda", dtype=torch.uint8)
    first, different, where = None, 0, ""
    for number in range(launches):
        out.fill_(float("nan"))
        torch.cuda.synchronize()
        if number % 2:
            with torch.cuda.stream(beside):
                moved[0].copy_(moved[1])
        launch(kernel, case, 0)
        torch.cuda.synchronize()
        if first is None:
            first = out.clone()
        elif not torch.equal(bits(out), bits(first)):
            different += 1
            where = where or f"launch {number}: {places(bits(out) != bits(first))}"
    return different, where


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """The elements as integers, NaNs being as good as any."""
    return tensor.view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", default="scan,state,attention,decode,matmul,rows")
    parser.add_argument("--only", default="")
    parser.add_argument("--plans", type=int, default=3, help="of the model's best, beside the one that ships")
    parser.add_argument("--launches", type=int, default=40)
    parser.add_argument("--processes", type=int, default=16)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    rows, differing = [], 0
    with ProcessPoolExecutor(args.processes, multiprocessing.get_context("spawn")) as pool:
        for case in (c for op in args.ops.split(",") for c in OPS[op]() if re.search(args.only, c.label)):
            given = tuple((n, device_tensor(t)) for n, t in case.sets[0].items())
            base = dict(kernel=case.kernel, dims=tuple(case.dims.items()), given=given)
            jobs = [Job(**base, rank=k) for k in range(args.plans)] + [Job(**base, tiles=SHIPPED)]
            for made in pool.map(make, jobs):
                if made.kernel is None:
                    continue
                count, where = repeat(made.kernel, case, args.launches)
                differing += bool(count)
                verdict = f"{count} of {args.launches - 1} DIFFER; {where}" if count else "the same"
                print(f"{case.label} {made.about.partition(' regs')[0]}: {verdict}", flush=True)
                rows.append(
                    dict(case=case.label, plan=made.about, different=count, launches=args.launches, where=where)
                )
            torch.cuda.empty_cache()
            if args.json:
                args.json.write_text(json.dumps(dict(schema="threadloom.repeat.gpu.1", rows=rows), indent=1))
    print(f"{len(rows)} plans, {differing} with differences")
    sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main()
