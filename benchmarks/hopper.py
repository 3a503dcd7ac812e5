#!/usr/bin/env python3
"""Checks our Hopper kernels against float64 on fresh random inputs and times them beside their peers on one GPU.

    python benchmarks/hopper.py [--ops matmul,attention] [--top 1] [--tiles m128n256k64w2,...] [--json out.json]
                                [--only REGEX] [--plain]

All kernels are compiled first, in parallel processes (--processes). Every candidate of a case is captured in a CUDA
graph; each round replays all of them in a new random order, because the card is power-limited and what ran before
changes the clock. `--top N` times the model's N best plans. Needs PyTorch with CUDA; FlashAttention-3, mamba-ssm where
installed.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import sys
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import torch
from hopper_conditions import conditions, of_ceilings
from hopper_conv import conv_cases
from hopper_state import chunk_scan_cases, chunk_state_cases, decode_cases
from hopper_timing import Case, make, run_case
from hopper_weights import w4_cases

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


def f8_cases() -> list[Case]:
    """Products of 8-bit floats beside cuBLASLt's."""
    from gpu_cases.f8_product import f8_product

    size, sets = 8192, []
    for _ in range(2):
        a, b = (torch.randn(size, size, device="cuda").to(torch.float8_e4m3fn) for _ in "ab")
        sets.append(dict(a=a, b=b, out=torch.empty(size, size, device="cuda", dtype=torch.bfloat16)))
    one = torch.ones((), device="cuda")

    def cublas(i):
        s = sets[i % 2]
        return torch._scaled_mm(s["a"], s["b"].t(), one, one, out_dtype=torch.bfloat16, use_fast_accum=True)

    def reference(s):
        return s["a"].bfloat16() @ s["b"].bfloat16().t()

    peers, tiles = {"cublas": cublas}, ("m128n256k128w2", "m128n192k128w2", "m256n128k128w2")
    label = f"matmul e4m3 {size}x{size}x{size}"
    return [
        Case(label, f8_product.tile(), sets, {"scale": 1.0}, reference, peers, 2.0 * size**3, False, 4, tiles=tiles)
    ]


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


def attention_cases(table3: bool = False) -> list[Case]:
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
        if table3 and (triton := triton_attention(made, bool(causal))):
            peers["triton"] = triton
        work = 4.0 * B * H * SQ * SK * D * (0.5 if causal else 1)
        policies = ("decoupled",) if table3 else ()
        return Case(
            label, kernel, made, {"scale": D**-0.5}, lambda s: cudnn(0), peers, work, False, repeats, tiles=tiles,
            policies=policies,
        )  # fmt: skip

    if table3:
        return [case(64, 32, 32, 4096, 4096, 128, 0, 2)]

    small = [(2, 4, 2, 300, 300, 128, 0), (2, 4, 2, 300, 300, 128, 1), (1, 2, 2, 1000, 1000, 64, 1),
             (1, 2, 1, 250, 77, 96, 1), (1, 2, 1, 77, 250, 80, 1), (1, 2, 2, 128, 512, 256, 0),
             (4, 16, 8, 1000, 600, 128, 0), (4, 16, 8, 1200, 300, 64, 1)]  # fmt: skip
    # the last two: several tiles an SM, also such that see no key
    wide, narrow = ("m128n128w2", "m128n128w2-ahead"), ("m192n96w3", "m192n112w3", "m192n128w3", "m192n128w3-ahead")
    wide_back = ("m128n128w2-back", "m128n128w2-back-ahead")
    narrow_back = ("m192n112w3-back", "m192n128w3-back", "m192n128w3-back-ahead")
    return [
        *[case(*s) for s in small],
        case(4, 16, 16, 4096, 4096, 128, 0, 8, 2, wide),
        case(4, 16, 16, 4096, 4096, 128, 1, 8, 2, (*wide, *wide_back)),
        case(2, 32, 32, 8192, 8192, 64, 0, 4, 2, (*narrow, "m192n112w3-ahead")),
        case(2, 32, 32, 8192, 8192, 64, 1, 4, 2, (*narrow, *narrow_back)),
        case(2, 8, 8, 8192, 8192, 256, 0, 4, 2, ("m128n64w2",)),
        case(2, 8, 8, 8192, 8192, 256, 1, 4, 2, ("m128n64w2", "m128n64w2-back")),
        *[case(1, 32, 32, 16384, 16384, 64, causal, 2, 2) for causal in (0, 1)],
    ]


def triton_attention(sets: list[dict[str, torch.Tensor]], causal: bool) -> Callable[[int], object] | None:
    """Attention by the Triton kernel of the kit of peers; None where it is not on the path or does not run."""
    try:
        from pk.tk import fa_fwd
    except ImportError:
        return None
    packed = [[s[x].contiguous() for x in "qkv"] for s in sets]
    out = torch.empty_like(packed[0][0])
    try:
        fa_fwd(*packed[0], out, causal)  # builds and tunes it
    except Exception as e:  # the other peers are still worth timing
        print(f"triton's attention: FAILED {str(e)[:300]}", flush=True)
        return None
    return lambda i: fa_fwd(*packed[i % len(sets)], out, causal)


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
        direct = [f"m1w1@{blocks}-direct" for blocks in (3, 4, 6)]
        peers = {"copy": lambda i: copies[i % 3].copy_(sets[i % 3]["x"])}
        return Case(
            f"{name} {rows}x{columns}", kernel, sets, scalars, reference, peers, 4.0 * rows * columns, True, repeats,
            tiles=(*direct, "m2w1@3-direct", "m8w2", "m2w1@3", "m2w1@3-once", "m1w1@4-once"),
        )  # fmt: skip

    small = [case(name, *shape) for name in operators for shape in ((33, 80), (3, 1000), (33, 229))]
    return [*small, *[case(name, 16384, 4096, 8) for name in operators]]


def table3_cases() -> list[Case]:
    """PipeThreader's Table 3: tiles chosen before the order ("decoupled") against both at once, beside the peers, of
    which mamba-ssm and "triton" are Triton's."""
    return [*chunk_scan_cases(table3=True), *attention_cases(table3=True)]


OPS = {
    "matmul": matmul_cases,
    "f8": f8_cases,
    "llama": llama_cases,
    "attention": attention_cases,
    "rows": row_cases,
    "scan": chunk_scan_cases,
    "state": chunk_state_cases,
    "decode": decode_cases,
    "table3": table3_cases,
    "w4": w4_cases,
    "conv": conv_cases,
}


def write_results(path: Path, rows: list[dict], **more: object) -> None:
    path.write_text(json.dumps(dict(schema="threadloom.bench.gpu.1", **conditions(), **more, rows=rows), indent=1))


def measured_ceilings(rows: list[dict]) -> dict[str, float]:
    """What this GPU reaches now, and each row's fraction of it."""
    from threadloom.targets.cuda.gpu_peaks import measure

    peaks = measure()
    found = of_ceilings(rows, peaks.flops_per_s, peaks.copy_bytes_per_s)
    print("measured ceilings:", ", ".join(f"{rate:.0f} {unit}" for unit, rate in found.items()), flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ops", default="matmul")
    parser.add_argument("--json")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--top", type=int, default=1)
    parser.add_argument("--tiles", default="")
    parser.add_argument("--processes", type=int, default=16)
    parser.add_argument("--check-only", action="store_true")
    parser.add_argument("--plain", action="store_true", help="only the model's own choice and the plan that ships")
    parser.add_argument("--only", default="", help="cases whose label matches this regular expression")
    args = parser.parse_args()
    torch.manual_seed(time.time_ns() % 2**31)
    torch.backends.cuda.matmul.allow_tf32 = False
    rows: list[dict] = []
    tiles = tuple(t for t in args.tiles.split(",") if t)
    start = time.time()
    with ProcessPoolExecutor(args.processes, multiprocessing.get_context("spawn")) as pool:
        for op in args.ops.split(","):
            cases = [c for c in OPS[op]() if not (args.check_only and c.repeats) and re.search(args.only, c.label)]
            for case in cases if args.plain else ():
                case.tiles = ()
            waiting = [{n: pool.submit(make, j) for n, j in c.jobs(args.top, tiles).items()} for c in cases]
            for case, futures in zip(cases, waiting, strict=True):
                run_case(case, {n: f.result() for n, f in futures.items()}, args, rows)
                if args.json:  # after each, so that a run that is cut short loses nothing
                    write_results(Path(args.json), rows)
            print(f"{op}: {time.time() - start:.0f} s", flush=True)
    if args.json and any("rate" in row for row in rows):
        write_results(Path(args.json), rows, ceilings=measured_ceilings(rows))


if __name__ == "__main__":
    main()
