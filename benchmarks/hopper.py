#!/usr/bin/env python3
"""Checks our Hopper kernels against float64 on fresh random inputs and times them beside their peers on one GPU.

    python benchmarks/hopper.py [--ops matmul,attention] [--top 1] [--tiles m128n256k64w2,...] [--json out.json]

All kernels are compiled first, in parallel processes (--processes). Every candidate of a case is captured in a CUDA
graph; each round replays all of them in a new random order, because the card is power-limited and what ran before
changes the clock. `--top N` times the model's N best plans. Needs PyTorch with CUDA; FlashAttention-3 where installed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch

from threadloom.machine.devices import device as find_device
from threadloom.sched.ops import Partition
from threadloom.sched.partition import partitions
from threadloom.sched.search import context_of, graphs_of, plan
from threadloom.targets.cuda.compile import CudaKernel, DeviceTensor, compile_program, facts_of
from threadloom.targets.cuda.driver import WATCHDOG
from threadloom.tile.ops import Kernel


def device_tensor(t: torch.Tensor) -> DeviceTensor:
    return DeviceTensor(t.data_ptr(), tuple(t.shape), tuple(t.stride()))


def contiguous(shape: tuple[int, ...]) -> DeviceTensor:
    strides = [1] * len(shape)
    for d in range(len(shape) - 2, -1, -1):
        strides[d] = strides[d + 1] * shape[d + 1]
    return DeviceTensor(0, shape, tuple(strides))


# ---------------------------------------------------------------- jobs: what is planned and compiled


@dataclass(frozen=True, slots=True)
class Job:
    """One kernel to be planned and compiled. `tiles`: "" for the model's plan number `rank`, else "m128n256k64w2"."""

    kernel: Kernel
    dims: tuple[tuple[str, int], ...]
    given: tuple[tuple[str, DeviceTensor], ...]
    tiles: str = ""
    rank: int = 0
    defines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Made:
    kernel: CudaKernel | None
    about: str
    error: str = ""


def make(job: Job) -> Made:
    start = time.time()
    dims, given = dict(job.dims), dict(job.given)
    try:
        only = find_partition(job.kernel, dims, job.tiles) if job.tiles else None
        outcome = plan(job.kernel, dims, "h200", only=only)
        program = outcome.best
        if job.rank:
            if job.rank >= len(outcome.candidates):
                return Made(None, "", "no such plan")
            chosen = outcome.candidates[job.rank]
            program = plan(job.kernel, dims, "h200", only=chosen.partition, granularity=chosen.context.granularity).best
        planned = time.time()
        facts = {p.name: facts_of(p, given[p.name]) for p in job.kernel.tensors}
        made = compile_program(program, facts, dims, job.defines)
    except Exception as e:  # reported with the case
        return Made(None, "", f"{type(e).__name__} {str(e)[:500]}")
    c, tiles = made.cubin, "".join(f"{t.axis}{t.extent}" for t in program.partition.tiles)
    return Made(
        made,
        f"{tiles}w{program.partition.workers} regs {c.registers} spill {c.spill_bytes} serialised {c.serialised} "
        f"smem {made.source.shared_bytes} plan {planned - start:.1f}s compile {time.time() - planned:.1f}s",
    )


def find_partition(kernel: Kernel, dims: dict[str, int], tiles: str) -> Partition:
    wanted = {a: int(n) for a, n in re.findall(r"([a-v]+)(\d+)", tiles)}
    workers = int(re.search(r"w(\d+)$", tiles).group(1))
    machine = find_device("h200")
    for _, graph in graphs_of(kernel, None, machine):
        context = context_of(graph, dims, machine)
        for p in partitions(graph, context.whole, machine):
            if {t.axis: t.extent for t in p.tiles} == wanted and p.workers == workers:
                return p
    raise ValueError(f"no partition {tiles}")


# ---------------------------------------------------------------- cases


@dataclass
class Case:
    """`sets`: input sets (tensors by name; the first is checked); `peers`: name -> function of the set's number."""

    label: str
    kernel: Kernel
    sets: list[dict[str, torch.Tensor]]
    scalars: dict[str, float]
    reference: Callable[[dict[str, torch.Tensor]], torch.Tensor]
    peers: dict[str, Callable[[int], object]] = field(default_factory=dict)
    work: float = 0.0  # operations, or bytes where `bytes_moved`
    bytes_moved: bool = False
    repeats: int = 0  # calls per graph; 0: check only
    output: str = "out"
    tiles: tuple[str, ...] = ()

    @property
    def dims(self) -> dict[str, int]:
        return {
            n: s
            for p in self.kernel.tensors
            for n, s in zip(p.dims, self.sets[0][p.name].shape, strict=True)
            if isinstance(n, str)
        }

    def jobs(self, top: int, tiles: tuple[str, ...]) -> dict[str, Job]:
        given = tuple((n, device_tensor(t)) for n, t in self.sets[0].items())
        base = dict(kernel=self.kernel, dims=tuple(self.dims.items()), given=given)
        if not self.repeats:
            return {"ours": Job(**base, defines=WATCHDOG)}
        named = {f"ours.{k}" if k else "ours": Job(**base, rank=k) for k in range(top)}
        return named | {f"ours.{t}": Job(**base, tiles=t) for t in (*self.tiles, *tiles)}


def launch(made: CudaKernel, case: Case, number: int) -> None:
    given = {n: device_tensor(t) for n, t in case.sets[number % len(case.sets)].items()}
    made.launch(given, case.dims, case.scalars, torch.cuda.current_stream().cuda_stream)


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


def report(case: Case, times: dict[str, list[float]], rows: list[dict]) -> None:
    medians = {n: statistics.median(t) for n, t in times.items()}
    best_peer = min((m for n, m in medians.items() if not n.startswith("ours")), default=None)
    unit = "GB/s" if case.bytes_moved else "TFLOP/s"
    for name, m in sorted(medians.items(), key=lambda x: x[1]):
        ratio = best_peer / m if best_peer else float("nan")
        rate = case.work / m / (1e6 if case.bytes_moved else 1e9)
        print(f"  {case.label:30s} {name:28s} {m * 1e3:9.1f} us {rate:8.1f} {unit}  x{ratio:.3f}", flush=True)
        rows.append(
            dict(
                case=case.label,
                name=name,
                ms=m,
                min_ms=min(times[name]),
                max_ms=max(times[name]),
                rate=rate,
                ratio=ratio,
            )
        )


def run_case(case: Case, made: dict[str, Made], args, rows: list[dict]) -> None:
    runs: dict[str, Callable[[int], object]] = {}
    want = case.reference(case.sets[0])
    for name, one in made.items():
        if one.kernel is None:
            print(f"{case.label} {name}: FAILED {one.error}", flush=True)
            rows.append(dict(case=case.label, name=name, failed=one.error))
            continue
        out = case.sets[0][case.output]
        if out.dtype.is_floating_point:
            out.fill_(float("nan"))
        try:
            launch(one.kernel, case, 0)
            torch.cuda.synchronize()
        except Exception as e:  # the others are still worth timing
            print(f"{case.label} {name}: FAILED {str(e)[:300]}; {one.about}", flush=True)
            rows.append(dict(case=case.label, name=name, failed=str(e)[:300]))
            continue
        error = relative_error(out, want)
        print(f"{case.label} {name}: error {error:.2e}; {one.about}", flush=True)
        rows.append(dict(case=case.label, name=name, error=error, about=one.about))
        runs[name] = lambda i, k=one.kernel: launch(k, case, i)
    del want
    if case.repeats and runs and not args.check_only:
        report(case, alternate({**runs, **case.peers}, case.repeats, args.rounds), rows)
    torch.cuda.empty_cache()


# ---------------------------------------------------------------- operators


def identity(x):
    return x


def matmul_case(M, N, K, act=None, repeats=0, sets=1) -> Case:
    import threadloom as tl
    from examples.matmul import matmul

    made = [
        dict(a=torch.randn(M, K, device="cuda").bfloat16(), b=torch.randn(K, N, device="cuda").bfloat16(),
             bias=torch.randn(N, device="cuda"), out=torch.empty(M, N, device="cuda", dtype=torch.bfloat16))
        for _ in range(sets)
    ]  # fmt: skip
    kernel = matmul.tile(T=tl.bf16, **({"act": act} if act else {}))
    if not repeats:
        return Case(
            f"matmul {M}x{N}x{K}", kernel, made, {}, lambda s: (s["a"].double() @ s["b"].double() + s["bias"]).relu()
        )
    for s in made:
        s["bias"].zero_()
    blas = [torch.empty_like(s["out"]) for s in made]
    peers = {"cublas": lambda i: torch.matmul(made[i % sets]["a"], made[i % sets]["b"], out=blas[i % sets])}
    tiles = ("m128n256k64w2", "m128n192k64w2", "m256n128k64w2")
    label, work = f"matmul bf16 {M}x{N}x{K}", 2.0 * M * N * K
    return Case(label, kernel, made, {}, lambda s: s["a"] @ s["b"], peers, work, False, repeats, tiles=tiles)


def matmul_cases() -> list[Case]:
    small = [(64, 64, 24), (1, 232, 104), (1, 229, 104), (257, 264, 200), (384, 320, 200), (1024, 1536, 512)]
    cases = [matmul_case(*s) for s in small]
    large = [matmul_case(8192, 8192, 8192, identity, 4, 2), matmul_case(4096, 4096, 4096, identity, 16, 3)]
    return [*cases, *large]


def llama_cases() -> list[Case]:
    """The layers of LLAMA3 8B and 70B at 4096 tokens."""
    shapes = (
        (6144, 4096),
        (4096, 4096),
        (28672, 4096),
        (4096, 14336),
        (10240, 8192),
        (8192, 8192),
        (57344, 8192),
        (8192, 28672),
    )
    return [matmul_case(4096, n, k, identity, 4, 2) for n, k in shapes]


def attention_cases() -> list[Case]:
    import threadloom as tl
    from examples.flash_attention import flash_attention

    try:
        from fa3_fwd_interface import flash_attn_func as fa3
    except ImportError:
        fa3 = None
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def tensors(B, H, G, SQ, SK, D):
        """q, k, v, out seen as [B, H, S, D] over [B, S, H, D] memory, the layout FlashAttention takes."""
        make = lambda s, h: torch.randn(B, s, h, D, device="cuda").bfloat16().transpose(1, 2)  # noqa: E731
        return dict(q=make(SQ, H), k=make(SK, G), v=make(SK, G), out=torch.empty_like(make(SQ, H)))

    def case(B, H, G, SQ, SK, D, causal, repeats=0, sets=1, tiles=()):
        made = [tensors(B, H, G, SQ, SK, D) for _ in range(sets)]
        kernel = flash_attention.tile(T=tl.bf16, causal=bool(causal))
        label = f"attention B{B} H{H}/{G} S{SQ}/{SK} D{D} causal{causal}"
        reference = lambda s: attention_reference(s, causal)  # noqa: E731
        if not repeats:
            return Case(label, kernel, made, {"scale": D**-0.5}, reference)

        def cudnn(i):
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                s = made[i % sets]
                return torch.nn.functional.scaled_dot_product_attention(s["q"], s["k"], s["v"], is_causal=bool(causal))

        peers: dict[str, Callable[[int], object]] = {"cudnn": cudnn}
        if fa3:
            flat = [[s[x].transpose(1, 2) for x in "qkv"] for s in made]
            peers["fa3"] = lambda i: fa3(*flat[i % sets], causal=bool(causal))
        work = 4.0 * B * H * SQ * SK * D * (0.5 if causal else 1)
        return Case(
            label, kernel, made, {"scale": D**-0.5}, lambda s: cudnn(0), peers, work, False, repeats, tiles=tiles
        )

    small = [(2, 4, 2, 300, 300, 128, 0), (2, 4, 2, 300, 300, 128, 1), (1, 2, 2, 1000, 1000, 64, 1),
             (1, 2, 1, 250, 77, 96, 1), (1, 2, 1, 77, 250, 80, 1), (1, 2, 2, 128, 512, 256, 0)]  # fmt: skip
    wide = ("m128n128w2", "m128n160w2", "m128n176w2", "m128n96w2")
    narrow = ("m192n128w3", "m192n112w3", "m128n192w2", "m128n176w2")
    return [
        *[case(*s) for s in small],
        case(4, 16, 16, 4096, 4096, 128, 0, 8, 2, wide),
        case(4, 16, 16, 4096, 4096, 128, 1, 8, 2, wide),
        case(2, 32, 32, 8192, 8192, 64, 0, 4, 2, narrow),
        case(2, 32, 32, 8192, 8192, 64, 1, 4, 2, narrow),
        case(2, 8, 8, 8192, 8192, 256, 0, 4, 2, ("m128n64w2", "m128n80w2")),
        case(2, 8, 8, 8192, 8192, 256, 1, 4, 2),
    ]


def attention_reference(t: dict[str, torch.Tensor], causal: bool) -> torch.Tensor:
    q, k, v = (t[x].double() for x in "qkv")
    k, v = (x.repeat_interleave(q.shape[1] // x.shape[1], 1) for x in (k, v))
    s = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
    if causal:
        rows = torch.arange(s.shape[-2], device="cuda")[:, None] + s.shape[-1] - s.shape[-2]
        s = s.masked_fill(torch.arange(s.shape[-1], device="cuda") > rows, float("-inf"))
    return torch.nan_to_num(torch.softmax(s, -1)) @ v


def row_cases() -> list[Case]:
    """Kernels without products: their bound is the rate of a copy."""
    import threadloom as tl
    from examples.layernorm import layernorm
    from examples.rmsnorm import rmsnorm
    from examples.softmax import softmax

    nn = torch.nn.functional

    def softmax_reference(s):
        return torch.softmax(s["x"].double(), -1)

    def rmsnorm_reference(s):
        return nn.rms_norm(s["x"].double(), s["x"].shape[-1:], s["weight"].double(), 1e-5)

    def layernorm_reference(s):
        return nn.layer_norm(s["x"].double(), s["x"].shape[-1:], s["weight"].double(), s["bias"].double(), 1e-5)

    operators = {
        "softmax": (softmax, softmax_reference, {}),
        "rmsnorm": (rmsnorm, rmsnorm_reference, {"eps": 1e-5}),
        "layernorm": (layernorm, layernorm_reference, {"eps": 1e-5}),
    }

    def case(name, rows, columns, repeats=0):
        function, reference, scalars = operators[name]
        kernel = function.tile(T=tl.bf16)
        shapes = {t.name: (columns,) if len(t.dims) == 1 else (rows, columns) for t in kernel.tensors}
        sets = [{n: torch.randn(*s, device="cuda").bfloat16() for n, s in shapes.items()} for _ in range(3)]
        copies = [torch.empty_like(s["x"]) for s in sets]
        peers = {"copy": lambda i: copies[i % 3].copy_(sets[i % 3]["x"])}
        return Case(
            f"{name} {rows}x{columns}", kernel, sets, scalars, reference, peers, 4.0 * rows * columns, True, repeats
        )

    small = [case(name, *shape) for name in operators for shape in ((33, 80), (3, 1000), (33, 229))]
    return [*small, *[case(name, 16384, 4096, 8) for name in operators]]


OPS = {"matmul": matmul_cases, "llama": llama_cases, "attention": attention_cases, "rows": row_cases}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", default="matmul")
    parser.add_argument("--json")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--top", type=int, default=1)
    parser.add_argument("--tiles", default="")
    parser.add_argument("--processes", type=int, default=16)
    parser.add_argument("--check-only", action="store_true")
    args = parser.parse_args()
    torch.manual_seed(time.time_ns() % 2**31)
    torch.backends.cuda.matmul.allow_tf32 = False
    rows: list[dict] = []
    tiles = tuple(t for t in args.tiles.split(",") if t)
    start = time.time()
    with ProcessPoolExecutor(args.processes, multiprocessing.get_context("spawn")) as pool:
        for op in args.ops.split(","):
            cases = [c for c in OPS[op]() if not (args.check_only and c.repeats)]
            waiting = [{n: pool.submit(make, j) for n, j in c.jobs(args.top, tiles).items()} for c in cases]
            for case, futures in zip(cases, waiting, strict=True):
                run_case(case, {n: f.result() for n, f in futures.items()}, args, rows)
            print(f"{op}: {time.time() - start:.0f} s", flush=True)
    if args.json:
        smi = "--query-gpu=name,driver_version,clocks.sm,clocks.mem,power.draw"
        state = subprocess.run(
            ["nvidia-smi", smi, "--format=csv,noheader"], capture_output=True, text=True
        ).stdout.strip()
        commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
        head = dict(schema="threadloom.bench.gpu.1", torch=torch.__version__, gpu=state, commit=commit)
        Path(args.json).write_text(json.dumps(dict(**head, rows=rows), indent=1))


if __name__ == "__main__":
    main()
