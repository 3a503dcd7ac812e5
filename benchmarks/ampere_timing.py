#!/usr/bin/env python3
"""Times sm_80 code beside PyTorch on the GPU at hand, for information: bf16 matmul 4096 cubed, attention of depth 128.

    python benchmarks/ampere_timing.py [--arch sm_90] [--json out.json]

The plans are those of the a100 model; on a newer GPU the same source is compiled for it (`--arch`). Medians of 20
rounds, in each of which all candidates run in a new random order.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch

import threadloom as tl
from threadloom.examples.flash_attention import flash_attention
from threadloom.examples.matmul import matmul
from threadloom.machine.devices import device
from threadloom.sched.search import plan, proved_program
from threadloom.targets.cuda.compile import DeviceTensor, compile_program, facts_of
from threadloom.targets.cuda.nvrtc import compile_source

ROUNDS, PLANS = 20, 3


def candidates(kernel, tensors: dict[str, torch.Tensor], dims: dict[str, int], scalars: dict, arch: str):
    """(label, function that launches it) of the model's best plans."""
    given = {n: DeviceTensor(t.data_ptr(), tuple(t.shape), tuple(t.stride())) for n, t in tensors.items()}
    facts = {t.name: facts_of(t, given[t.name]) for t in kernel.tensors}
    outcome = plan(kernel, dims, device("a100"))
    programs = [outcome.best, *(proved_program(c) for c in outcome.candidates[1:PLANS])]
    for program in (p for p in programs if p is not None):
        made = compile_program(program, facts, dims)
        if arch:
            made = replace(made, cubin=compile_source(made.source.text, arch))
        tiles = " ".join(f"{t.axis}{t.extent}" for t in program.partition.tiles)
        label = f"{tiles}: {made.cubin.registers} registers, {made.cubin.spill_bytes} bytes spilled"
        yield label, lambda made=made: made.launch(given, dims, scalars, torch.cuda.current_stream().cuda_stream)


def medians_us(runs: dict[str, Callable[[], object]]) -> dict[str, float]:
    times: dict[str, list[float]] = {label: [] for label in runs}
    for _ in range(ROUNDS):
        for label in random.sample(list(runs), len(runs)):
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            runs[label]()
            begin.record()
            for _ in range(10):
                runs[label]()
            end.record()
            torch.cuda.synchronize()
            times[label].append(begin.elapsed_time(end) * 100)
    return {label: statistics.median(t) for label, t in times.items()}


def report(name: str, runs: dict[str, Callable[[], object]], flops: float, rows: list[dict]) -> None:
    for label, us in medians_us(runs).items():
        print(f"{name} {label}: {us:.1f} us, {flops / us / 1e6:.0f} TFLOP/s", flush=True)
        rows.append(dict(case=name, label=label, us=us, flops=flops))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arch", default="")
    parser.add_argument("--json")
    args = parser.parse_args()
    rows: list[dict] = []
    n = 4096
    a, b = (torch.randn(n, n, device="cuda").bfloat16() for _ in range(2))
    tensors = dict(a=a, b=b, bias=torch.zeros(n, device="cuda"), out=torch.empty_like(a))
    runs = dict(candidates(matmul.tile(T=tl.bf16), tensors, dict(M=n, N=n, K=n), {}, args.arch))
    report("matmul bf16 4096", runs | {"torch": lambda: torch.matmul(a, b)}, 2.0 * n**3, rows)
    batch, heads, length, depth = 4, 16, 4096, 128
    q, k, v = (torch.randn(batch, heads, length, depth, device="cuda").bfloat16() for _ in range(3))
    tensors = dict(q=q, k=k, v=v, out=torch.empty_like(q))
    kernel = flash_attention.tile(T=tl.bf16, causal=False)
    dims = dict(B=batch, H=heads, HKV=heads, SQ=length, SK=length, D=depth)
    runs = dict(candidates(kernel, tensors, dims, {"scale": depth**-0.5}, args.arch))
    peer = {"torch": lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v)}
    report("attention bf16 hd128", runs | peer, 4.0 * batch * heads * length**2 * depth, rows)
    if args.json:
        about = dict(schema="threadloom.bench.sm80.1", gpu=torch.cuda.get_device_name(), rows=rows)
        Path(args.json).write_text(json.dumps(about, indent=1))


if __name__ == "__main__":
    main()
