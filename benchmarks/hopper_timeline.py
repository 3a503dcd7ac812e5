#!/usr/bin/env python3
"""Runs attention with in-kernel clocks on one block, and writes the measured timeline below the planned one.

    python benchmarks/hopper_timeline.py OUT_FOLDER [TILES [CAUSAL [HEAD_DIM]]]

The text report says how long iterations and tiles took and where each role waited. task-times.json holds what vector
sTasks took; `loom schedule flash_attention --device h200 --task-times FILE` plans with it.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch
from hopper import attention_reference
from hopper_timing import Case, device_tensor, find_partition, launch, relative_error

import threadloom as tl
from examples.flash_attention import flash_attention
from threadloom.machine.devices import device
from threadloom.sched.ops import Issue
from threadloom.sched.profiled import times_of_records
from threadloom.sched.search import plan
from threadloom.sched.timeline import to_json
from threadloom.sched.timeline_measured import measured_timeline
from threadloom.targets.cuda.clocks import read_clocks
from threadloom.targets.cuda.compile import compile_program, facts_of

RECORDS = 6000


def main() -> None:
    out = Path(sys.argv[1])
    tiles, causal, D = (sys.argv[2:] + ["m128n128w2", "0", "128"][len(sys.argv) - 2 :])[:3]
    kernel = flash_attention.tile(T=tl.bf16, causal=bool(int(causal)))
    D = int(D)
    tensors = {n: torch.randn(4, 4096, 16, D, device="cuda").bfloat16().transpose(1, 2) for n in ("q", "k", "v", "out")}
    case = Case("attention", kernel, [tensors], {"scale": D**-0.5}, lambda s: attention_reference(s, int(causal)))
    program = plan(kernel, case.dims, "h200", only=find_partition(kernel, case.dims, tiles)).best
    facts = {p.name: facts_of(p, device_tensor(tensors[p.name])) for p in kernel.tensors}
    made = compile_program(program, facts, case.dims, timeline=RECORDS)
    for _ in range(3):
        launch(made, case, 0)
    records = read_clocks(made, RECORDS)
    timeline = measured_timeline(program, device("h200"), records)
    (out / "timeline.json").write_text(to_json(timeline))
    (out / "task-times.json").write_text(json.dumps(times_of_records(program, case.dims, device("h200"), records)))
    sections = {(s.loop, s.role): s.instrs for s in program.sections}
    spent = defaultdict(list)
    for r in records:
        instr = sections[r.loop, r.role][r.position]
        what = instr.task if isinstance(instr, Issue) else f"wait {instr.signal} {instr.reason.buffer}"
        spent[r.role, r.loop, r.position, what].append((r.start_cycles, r.end_cycles))
    for (role, loop, position, what), times in sorted(spent.items()):
        lengths = sorted(e - s for s, e in times)
        gaps = sorted(b[0] - a[0] for a, b in pairwise(times))
        middle = gaps[len(gaps) // 2] if gaps else 0
        print(
            f"{role:9s} loop {loop} {position:2d} {what:44s} n {len(times):5d} "
            f"median {lengths[len(lengths) // 2]:7.0f} mean {sum(lengths) / len(lengths):8.0f} "
            f"max {lengths[-1]:7.0f} every {middle:7.0f}"
        )
    print("error", relative_error(tensors["out"][:1, :2], case.reference({n: t[:1, :2] for n, t in tensors.items()})))


if __name__ == "__main__":
    main()
