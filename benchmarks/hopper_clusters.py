#!/usr/bin/env python3
"""Times products whose blocks load together in clusters (multicast) beside the same plan without, in turns.

    python benchmarks/hopper_clusters.py [--shapes 8192x8192x8192,1000x4096x4096] [--json out.json]

M x N x K in bf16. Each plan first runs once with the watchdog, and its result must be that of the plan without clusters
bit for bit: blocks add the same numbers in the same order. Exit code 1 where one is not, or hangs.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np
from hopper_conditions import conditions

import threadloom as tl
from threadloom.dtypes import ALL, numpy_dtype
from threadloom.errors import CompileError
from threadloom.examples.matmul import matmul
from threadloom.machine.devices import device
from threadloom.sched.ops import Partition
from threadloom.sched.search import plan
from threadloom.targets.cuda import driver_work
from threadloom.targets.cuda.compile import CudaKernel, compile_program
from threadloom.targets.cuda.driver import WATCHDOG
from threadloom.targets.cuda.faults import fault_of
from threadloom.targets.cuda.launch import raise_if_stuck
from threadloom.targets.cuda.time_plan import DeviceData, packed_facts_of, time_kernels

CLUSTERS = (1, 2, 4)
SHAPES = "8192x8192x8192,4096x4096x4096,1024x1024x1024,1000x4096x4096"


def compiled(kernel, dims: dict[str, int], only: Partition) -> tuple[CudaKernel, CudaKernel, float]:
    """With the watchdog and without; nanoseconds that the model predicts."""
    program = plan(kernel, dims, device("h200"), only=only).best
    facts = packed_facts_of(program, dims)
    watched, plain = (compile_program(program, facts, dims, defines) for defines in (WATCHDOG, ()))
    return watched, plain, program.predicted_ns


def result(kernel: CudaKernel, data: DeviceData, dims: dict[str, int], like: np.ndarray) -> np.ndarray:
    """The output of one launch; it is poisoned before."""
    driver_work.fill(data.allocated[0]["out"], 0xFF, like.nbytes)
    kernel.launch(data.tensors, dims, {})
    try:
        driver_work.synchronize(0, kernel.source.name)
    except Exception:
        raise_if_stuck(kernel)
        raise
    found = np.empty_like(like)
    driver_work.download(data.allocated[0]["out"], found)
    return found.view(np.uint16)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shapes", default=SHAPES)
    parser.add_argument("--json")
    args = parser.parse_args()
    rows, good, kernel, rng = [], True, matmul.tile(T=tl.bf16), np.random.default_rng(0)
    bf16 = numpy_dtype(ALL["bf16"])
    for text in args.shapes.split(","):
        m, n, k = map(int, text.split("x"))
        dims = {"M": m, "N": n, "K": k}
        operands = {"a": (m, k), "b": (k, n), "out": (m, n)}
        arrays = {name: rng.standard_normal(shape, np.float32).astype(bf16) for name, shape in operands.items()}
        arrays["bias"] = rng.standard_normal(n, np.float32)
        arrays = {t.name: arrays[t.name] for t in kernel.tensors}
        base = replace(plan(kernel, dims, device("h200"), splits=False).best.partition, cluster=1)
        data, wanted, ready = DeviceData.of(arrays), None, []
        for cluster in CLUSTERS:
            try:
                watched, plain, predicted_ns = compiled(kernel, dims, replace(base, cluster=cluster))
            except CompileError as error:
                print(f"{text} cluster {cluster}: {error.what} ({error.why})", flush=True)
                continue
            found = result(watched, data, dims, arrays["out"])
            wanted = found if wanted is None else wanted
            same = bool((found == wanted).all())
            good &= same
            print(f"{text} cluster {cluster}: {'same' if same else 'DIFFERENT'} {fault_of(plain)}", flush=True)
            ready.append((cluster, plain, predicted_ns, same))
        times = time_kernels([plain for _, plain, _, _ in ready], arrays, dims, {}, device("h200"))
        for (cluster, _, predicted_ns, same), ns in zip(ready, times, strict=True):
            tiles = " ".join(f"{t.axis}{t.extent}" for t in base.tiles)
            rate = 2 * m * n * k / ns / 1e3
            predicted = f"predicted {predicted_ns / 1e3:.1f}"
            print(f"{text} {tiles} cluster {cluster}: {ns / 1e3:.1f} us, {rate:.0f} TFLOP/s, {predicted}", flush=True)
            rows.append(dict(shape=text, tiles=tiles, cluster=cluster, ns=ns, predicted_ns=predicted_ns, same=same))
    if args.json:
        record = dict(schema="threadloom.clusters.gpu.1", **conditions(), rows=rows)
        Path(args.json).write_text(json.dumps(record, indent=1))
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
