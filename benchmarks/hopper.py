#!/usr/bin/env python3
"""Checks our Hopper kernels against float64 on fresh random inputs and times them beside their peers on one GPU.

    python benchmarks/hopper.py --ops matmul,attention --json out.json [--check-only] [--rounds 15]

Every candidate of a case is captured in a CUDA graph; each round replays all of them in a new random order, because the
card is power-limited and what ran before changes the clock. Needs PyTorch with CUDA; FlashAttention-3 where installed.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch

import threadloom as tl
from threadloom.sched.search import plan
from threadloom.targets.cuda.compile import CudaKernel, DeviceTensor, compile_program, facts_of

DTYPES = {torch.bfloat16: "bf16", torch.float16: "f16", torch.float32: "f32"}


def device_tensor(t: torch.Tensor) -> DeviceTensor:
    return DeviceTensor(t.data_ptr(), tuple(t.shape), tuple(t.stride()))


class Ours:
    """One kernel of ours, planned and compiled for the tensors it is given first."""

    def __init__(self, kernel, choices: dict, tensors: dict[str, torch.Tensor], scalars: dict, defines=(), only=None):
        self.tile = kernel.tile(**choices)
        self.dims = {}
        for p in self.tile.tensors:
            for name, size in zip(p.dims, tensors[p.name].shape, strict=True):
                if isinstance(name, str):
                    self.dims[name] = size
        self.scalars = scalars
        start = time.time()
        self.program = plan(self.tile, self.dims, "h200", only=only).best
        planned = time.time()
        facts = {p.name: facts_of(p, device_tensor(tensors[p.name])) for p in self.tile.tensors}
        self.kernel: CudaKernel = compile_program(self.program, facts, self.dims, defines)
        self.seconds = (planned - start, time.time() - planned)

    def __call__(self, tensors: dict[str, torch.Tensor]) -> None:
        given = {n: device_tensor(t) for n, t in tensors.items()}
        self.kernel.launch(given, self.dims, self.scalars, torch.cuda.current_stream().cuda_stream)

    def describe(self) -> str:
        p = self.program.partition
        tiles = "x".join(f"{t.axis}{t.extent}" for t in p.tiles)
        c = self.kernel.cubin
        return (
            f"{tiles} w{p.workers} regs {c.registers} spill {c.spill_bytes} serialised {c.serialised} "
            f"smem {self.kernel.source.shared_bytes} plan {self.seconds[0]:.1f}s compile {self.seconds[1]:.1f}s"
        )


def relative_error(got: torch.Tensor, want: torch.Tensor) -> float:
    got, want = got.double(), want.double()
    return float((got - want).norm() / want.norm().clamp_min(1e-30)) if torch.isfinite(got).all() else float("nan")


def alternate(runs: dict[str, Callable[[int], None]], repeats: int, rounds: int) -> dict[str, list[float]]:
    """Milliseconds of one call, per round. `run(i)` uses input set i."""
    graphs = {}
    for name, run in runs.items():
        for i in range(3):
            run(i)
        torch.cuda.synchronize()
        graphs[name] = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graphs[name]):
            for i in range(repeats):
                run(i)
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    times: dict[str, list[float]] = {name: [] for name in runs}
    names = list(runs)
    for number in range(rounds + 1):
        random.shuffle(names)
        for name in names:
            begin.record()
            graphs[name].replay()
            end.record()
            torch.cuda.synchronize()
            if number:
                times[name].append(begin.elapsed_time(end) / repeats)
    return times


def report(label: str, times: dict[str, list[float]], flops: float, rows: list[dict]) -> None:
    medians = {n: statistics.median(t) for n, t in times.items()}
    best_peer = min((m for n, m in medians.items() if not n.startswith("ours")), default=None)
    for name, m in medians.items():
        ratio = best_peer / m if best_peer else float("nan")
        spread = (min(times[name]), max(times[name]))
        print(f"  {label:34s} {name:16s} {m * 1e3:9.1f} us {flops / m / 1e9:8.1f} TFLOP/s  x{ratio:.3f}", flush=True)
        rows.append(dict(case=label, name=name, ms=m, min_ms=spread[0], max_ms=spread[1], tflops=flops / m / 1e9, ratio=ratio))


# ---------------------------------------------------------------- cases


def bench_matmul(args, rows: list[dict]) -> None:
    from examples.matmul import matmul

    for M, N, K in ((64, 64, 24), (1, 229, 104), (257, 264, 200), (384, 320, 200), (1024, 1536, 512)):
        a = torch.randn(M, K, device="cuda").bfloat16()
        b = torch.randn(K, N, device="cuda").bfloat16()
        bias = torch.randn(N, device="cuda")
        out = torch.full((M, N), float("nan"), device="cuda").bfloat16()
        check("matmul", f"{M}x{N}x{K}", matmul, {"T": tl.bf16}, dict(a=a, b=b, bias=bias, out=out), {}, rows, args,
              lambda a=a, b=b, bias=bias: (a.double() @ b.double() + bias).relu())  # fmt: skip
    if args.check_only:
        return
    for n in (8192, 4096):
        sets = [
            dict(a=torch.randn(n, n, device="cuda").bfloat16(), b=torch.randn(n, n, device="cuda").bfloat16(),
                 bias=torch.zeros(n, device="cuda"), out=torch.empty(n, n, device="cuda").bfloat16())
            for _ in range(2)
        ]  # fmt: skip
        ours = Ours(matmul, {"T": tl.bf16, "act": identity}, sets[0], {})
        print("  ", ours.describe(), flush=True)
        blas = [torch.empty_like(s["out"]) for s in sets]
        runs = {
            "cublas": lambda i, sets=sets, blas=blas: torch.matmul(sets[i % 2]["a"], sets[i % 2]["b"], out=blas[i % 2]),
            "ours": lambda i, sets=sets, ours=ours: ours(sets[i % 2]),
        }
        times = alternate(runs, 4 if n > 5000 else 16, args.rounds)
        print("   error against cublas", relative_error(sets[0]["out"], blas[0]))
        report(f"matmul bf16 {n}", times, 2.0 * n**3, rows)


def identity(x):
    return x


def bench_attention(args, rows: list[dict]) -> None:
    from examples.flash_attention import flash_attention

    cases = [(2, 4, 2, 300, 300, 128, 0), (2, 4, 2, 300, 300, 128, 1), (1, 2, 2, 1000, 1000, 64, 1), (1, 2, 1, 250, 77, 96, 1),
             (1, 2, 1, 77, 250, 80, 1), (1, 2, 2, 128, 512, 256, 0)]  # fmt: skip
    for B, H, G, SQ, SK, D, causal in cases:
        q, k, v, out = attention_tensors(B, H, G, SQ, SK, D)
        scale = D**-0.5
        tensors, choices = dict(q=q, k=k, v=v, out=out), {"T": tl.bf16, "causal": bool(causal)}
        check("attention", f"B{B} H{H}/{G} S{SQ}/{SK} D{D} causal{causal}", flash_attention, choices, tensors,
              {"scale": scale}, rows, args, lambda t=tensors, c=causal: attention_reference(t, c))  # fmt: skip
    if args.check_only:
        return
    try:
        from fa3_fwd_interface import flash_attn_func as fa3
    except ImportError:
        fa3 = None
    from torch.nn.attention import SDPBackend, sdpa_kernel

    for B, S, H, D, causal in ((4, 4096, 16, 128, 0), (4, 4096, 16, 128, 1), (2, 8192, 32, 64, 0), (2, 8192, 8, 256, 0)):
        sets = [dict(zip("qkv", attention_tensors(B, H, H, S, S, D)[:3], strict=True)) for _ in range(2)]
        for s in sets:
            s["out"] = torch.empty_like(s["q"])
        try:
            ours = Ours(flash_attention, {"T": tl.bf16, "causal": bool(causal)}, sets[0], {"scale": D**-0.5})
        except Exception as e:
            print(f"attention {D}: FAILED {type(e).__name__} {str(e)[:400]}", flush=True)
            continue
        print("  ", ours.describe(), flush=True)
        runs = {"ours": lambda i, sets=sets, ours=ours: ours(sets[i % 2])}
        if fa3:
            flat = [[s[x].transpose(1, 2) for x in "qkv"] for s in sets]
            runs["fa3"] = lambda i, flat=flat, causal=causal: fa3(*flat[i % 2], causal=bool(causal))

        def cudnn(i, sets=sets, causal=causal):
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                s = sets[i % 2]
                return torch.nn.functional.scaled_dot_product_attention(s["q"], s["k"], s["v"], is_causal=bool(causal))

        runs["cudnn"] = cudnn
        times = alternate(runs, 8, args.rounds)
        print("   error against cudnn", relative_error(sets[1]["out"], cudnn(1)))
        report(f"attention D{D} S{S} causal{causal}", times, 4.0 * B * H * S * S * D * (0.5 if causal else 1), rows)


def attention_tensors(B, H, G, SQ, SK, D):
    """q, k, v, out seen as [B, H, S, D] over [B, S, H, D] memory, the layout FlashAttention takes."""
    make = lambda s, h: torch.randn(B, s, h, D, device="cuda").bfloat16().transpose(1, 2)  # noqa: E731
    return make(SQ, H), make(SK, G), make(SK, G), torch.full_like(make(SQ, H), float("nan"))


def attention_reference(t: dict[str, torch.Tensor], causal: bool) -> torch.Tensor:
    q, k, v = (t[x].double() for x in "qkv")
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if causal:
        rows = torch.arange(s.shape[-2], device="cuda")[:, None] + s.shape[-1] - s.shape[-2]
        s = s.masked_fill(torch.arange(s.shape[-1], device="cuda") > rows, float("-inf"))
    return torch.nan_to_num(torch.softmax(s, -1)) @ v


def check(op, label, kernel, choices, tensors, scalars, rows, args, reference) -> None:
    try:
        ours = Ours(kernel, choices, tensors, scalars, defines=("LOOM_WATCHDOG=20000000",))
        ours(tensors)
        torch.cuda.synchronize()
        error = relative_error(tensors["out"], reference())
        print(f"{op} {label}: relative error {error:.2e}; {ours.describe()}", flush=True)
        rows.append(dict(case=f"{op} {label}", check=error))
    except Exception as e:
        print(f"{op} {label}: FAILED {type(e).__name__} {str(e)[:600]}", flush=True)
        rows.append(dict(case=f"{op} {label}", failed=str(e)[:600]))


OPS = {"matmul": bench_matmul, "attention": bench_attention}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", default="matmul")
    parser.add_argument("--json")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--check-only", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(time.time_ns() % 2**31)
    torch.backends.cuda.matmul.allow_tf32 = False
    rows: list[dict] = []
    for op in args.ops.split(","):
        OPS[op](args, rows)
    if args.json:
        smi = "--query-gpu=name,driver_version,clocks.sm,clocks.mem,power.draw"
        state = subprocess.run(["nvidia-smi", smi, "--format=csv,noheader"], capture_output=True, text=True).stdout.strip()
        Path(args.json).write_text(
            json.dumps(dict(schema="threadloom.bench.gpu.1", torch=torch.__version__, gpu=state, rows=rows), indent=1)
        )


if __name__ == "__main__":
    main()
