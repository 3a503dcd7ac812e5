"""What a PyTorch user would write: the peers of operators that torch has no single call for, in eager mode."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

Run = Callable[[], object]


def softmax(arrays: Mapping[str, np.ndarray]) -> Run:
    import torch

    x = torch.from_numpy(arrays["x"])
    out = torch.empty_like(x)
    return lambda: torch.softmax(x, -1, out=out)


def rmsnorm(arrays: Mapping[str, np.ndarray]) -> Run:
    import torch

    x, weight = torch.from_numpy(arrays["x"]), torch.from_numpy(arrays["weight"])
    return lambda: torch.nn.functional.rms_norm(x, (x.shape[-1],), weight, 1e-6)


def layernorm(arrays: Mapping[str, np.ndarray]) -> Run:
    import torch

    x, weight, bias = (torch.from_numpy(arrays[name]) for name in ("x", "weight", "bias"))
    return lambda: torch.nn.functional.layer_norm(x, (x.shape[-1],), weight, bias, 1e-5)


def chunk_scan(arrays: Mapping[str, np.ndarray]) -> Run:
    """Mamba2's reference formulation."""
    import torch

    cb, x, dt, decay, c, state, skip = (
        torch.from_numpy(np.ascontiguousarray(arrays[name]))
        for name in ("cb", "x", "dt", "decay", "c", "state", "skip")
    )
    (batch, chunks, groups, length, _), heads = cb.shape, x.shape[2]
    lower = torch.tril(torch.ones(length, length, dtype=torch.bool))

    def run() -> torch.Tensor:
        repeat = heads // groups
        rows = x.view(batch, chunks, length, heads, -1)
        fade = torch.exp(decay[..., :, None] - decay[..., None, :]).masked_fill(~lower, 0)  # [B, H, C, L, L]
        weights = cb.repeat_interleave(repeat, dim=2) * fade.permute(0, 2, 1, 3, 4)
        weights = weights * dt.permute(0, 2, 1, 3)[:, :, :, None]
        inside = torch.einsum("bchlk,bckhp->bclhp", weights, rows)
        heads_c = c.view(batch, chunks, length, groups, -1).repeat_interleave(repeat, dim=3)
        before = torch.einsum("bclhn,bchpn->bclhp", heads_c, state) * torch.exp(decay).permute(0, 2, 3, 1)[..., None]
        return (inside + before).reshape(x.shape) + x * skip[:, None]

    return run
