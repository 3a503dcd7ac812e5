"""Convolutions of ResNet-50 beside cuDNN (hopper.py)."""

from __future__ import annotations

from collections.abc import Callable

import torch
from hopper_timing import Case

LAYERS = ((56, 64), (28, 128), (14, 256), (7, 512))  # side of the image, channels; windows of 3 x 3
BATCH = 128


def conv_case(images: int, side: int, channels: int, filters: int, window: int, repeats: int, sets: int) -> Case:
    import threadloom as tl
    from examples.conv2d import conv2d

    made = []
    for _ in range(sets):
        x = torch.randn(images, side, side, channels, device="cuda").half()
        w = (torch.randn(window, window, channels, filters, device="cuda") / (window * channels**0.5)).half()
        out = torch.empty(images, side, side, filters, device="cuda", dtype=torch.float16)
        made.append(dict(x=x, w=w, out=out))

    def reference(s: dict[str, torch.Tensor]) -> torch.Tensor:
        x, w = s["x"].permute(0, 3, 1, 2).float(), s["w"].permute(3, 2, 0, 1).float()
        return torch.nn.functional.conv2d(x, w, padding=window // 2).permute(0, 2, 3, 1)

    peers: dict[str, Callable[[int], object]] = {}
    if repeats:
        torch.backends.cudnn.benchmark = True
        last = torch.channels_last
        filters_of = [s["w"].permute(3, 2, 0, 1).contiguous(memory_format=last) for s in made]
        peers["cudnn"] = lambda i: torch.nn.functional.conv2d(
            made[i % sets]["x"].permute(0, 3, 1, 2), filters_of[i % sets], padding=window // 2
        )
    work = 2.0 * images * side**2 * channels * filters * window**2
    label = f"conv {window}x{window} {channels}ch {side}^2 B{images}"
    return Case(label, conv2d.tile(T=tl.f16), made, {}, reference, peers, work, False, repeats)


def conv_cases() -> list[Case]:
    shapes = ((14, 64, 32), (7, 128, 64), (9, 64, 96), (28, 64, 128), (20, 72, 40))
    small = [conv_case(2, side, channels, filters, 3, 0, 1) for side, channels, filters in shapes]
    return [*small, *[conv_case(BATCH, side, channels, channels, 3, 10, 3) for side, channels in LAYERS]]
