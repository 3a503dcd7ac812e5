"""Products with 4-bit weights, and products of few rows, beside their peers (hopper.py)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from hopper_timing import Case

GROUP = 128
FEW = ("n128m16w1@2", "n256m16w2", "n192m16w3", "n64m16w1@2", "n64m16w1@4", "n128m16w1@3")
MANY = ("n128m256w2", "n256m128w2", "n192m128w3", "n128m192w2", "n192m160w3")


def w4_case(rows: int, columns: int, depth: int, repeats: int, sets: int, tiles: tuple[str, ...]) -> Case:
    """Beside dense f16 weights by cuBLAS, and beside PyTorch's own 4-bit product (tinygemm, bf16 activations)."""
    import threadloom as tl
    from examples.w4_matmul import w4_matmul

    made = []
    for _ in range(sets):
        w = torch.randint(0, 256, (columns, depth // 2), device="cuda", dtype=torch.uint8)
        scales = (torch.rand(columns, -(-depth // GROUP), device="cuda") + 0.5).mul(0.01).half()
        a = torch.randn(rows, depth, device="cuda").half()
        made.append(dict(a=a, w=w, scales=scales, out=torch.empty(rows, columns, device="cuda", dtype=torch.float16)))

    def dense(s: dict[str, torch.Tensor]) -> torch.Tensor:
        weights = torch.stack([s["w"] & 15, s["w"] >> 4], -1).reshape(columns, depth).half() - 8
        return weights * s["scales"].repeat_interleave(GROUP, 1)[:, :depth]

    peers: dict[str, Callable[[int], object]] = {}
    if repeats:
        weights, results = [dense(s) for s in made], [torch.empty_like(s["out"]) for s in made]
        peers["cublas f16"] = lambda i: torch.mm(made[i % sets]["a"], weights[i % sets].t(), out=results[i % sets])
        packed = [tinygemm_weights(s) for s in made]
        peers["tinygemm"] = lambda i: torch.ops.aten._weight_int4pack_mm(
            packed[i % sets][0], packed[i % sets][1], GROUP, packed[i % sets][2]
        )
    moved = columns * depth / 2 + 2.0 * columns * (depth // GROUP) + 2.0 * rows * (depth + columns)
    few = rows <= 64
    work = moved if few else 2.0 * rows * columns * depth
    reference = lambda s: s["a"].double() @ dense(s).double().t()  # noqa: E731
    label = f"w4 {rows}x{columns}x{depth}"
    return Case(label, w4_matmul.tile(T=tl.f16), made, {}, reference, peers, work, few, repeats, tiles=tiles)


def tinygemm_weights(s: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(activations in bf16, packed weights, scales and zeros)."""
    nibbles = torch.stack([s["w"] & 15, s["w"] >> 4], -1).reshape(len(s["w"]), -1)
    packed = torch.ops.aten._convert_weight_to_int4pack((nibbles[:, ::2] << 4 | nibbles[:, 1::2]).contiguous(), 8)
    scales = s["scales"].t().bfloat16()
    return s["a"].bfloat16(), packed, torch.stack([scales, torch.zeros_like(scales)], -1).contiguous()


def w4_cases() -> list[Case]:
    small = [w4_case(*shape, 0, 1, ()) for shape in ((1, 40, 256), (5, 200, 384), (130, 264, 1024), (17, 64, 160))]
    few = [w4_case(rows, 28672, 4096, 20, 4, FEW) for rows in (1, 32)]
    return [*small, *few, w4_case(4096, 28672, 4096, 4, 2, MANY)]
