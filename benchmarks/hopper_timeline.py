#!/usr/bin/env python3
"""Runs a case of hopper.py with in-kernel clocks on one block, and writes the measured timeline beside the planned one.

    python benchmarks/hopper_timeline.py OUT_FOLDER [--ops attention] [--only "D128 causal1"] [--tiles m128n128w2]

The first case whose label matches is taken, by the model's own choice or with the tiles given. The text report says how
long iterations and tiles took and where each role waited. task-times.json holds what vector sTasks took; `loom schedule
KERNEL --device h200 --task-times FILE` plans with it.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

from hopper import OPS
from hopper_timing import device_tensor, find_partition, launch, relative_error

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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--ops", default="attention")
    parser.add_argument("--only", default="D128 causal0")
    parser.add_argument("--tiles", default="")
    args = parser.parse_args()
    case = next(c for op in args.ops.split(",") for c in OPS[op]() if c.repeats and re.search(args.only, c.label))
    h200 = device("h200")
    only = find_partition(case.kernel, case.dims, args.tiles, h200) if args.tiles else None
    program = plan(case.kernel, case.dims, h200, only=only).best
    facts = {p.name: facts_of(p, device_tensor(case.sets[0][p.name])) for p in case.kernel.tensors}
    made = compile_program(program, facts, case.dims, timeline=RECORDS)
    for _ in range(3):
        launch(made, case, 0)
    records = read_clocks(made, RECORDS)
    machine = device(program.device)
    timeline = measured_timeline(program, machine, records)
    args.out.mkdir(parents=True, exist_ok=True)
    (args.out / "timeline.json").write_text(to_json(timeline))
    (args.out / "task-times.json").write_text(json.dumps(times_of_records(program, case.dims, machine, records)))
    print(case.label, program.device, " ".join(f"{t.axis}{t.extent}" for t in program.partition.tiles))
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
    print("error", relative_error(case.sets[0][case.output], case.reference(case.sets[0])))


if __name__ == "__main__":
    main()
