"""Cases of hopper.py: Mamba2's ChunkScan and ChunkState, attention of one query over a long cache."""

from __future__ import annotations

from collections.abc import Callable

import torch
from hopper_timing import Case

HEADS, HEAD_DIM, STATE, CHUNK = 80, 64, 128, 256


def steps(B: int, C: int, L: int, H: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Step sizes and, within each chunk, the running sum of step * A; both [B, H, C, L]."""
    dt = torch.nn.functional.softplus(torch.randn(B, H, C, L, device="cuda") - 4.0)
    A = -torch.exp(torch.rand(H, device="cuda") * 1.5)
    return dt.half(), torch.cumsum(dt * A.view(1, H, 1, 1), -1).half()


def random_half(*shape: int, scale: float = 1.0) -> torch.Tensor:
    return (torch.randn(*shape, device="cuda") * scale).half()


def in_double(function: Callable[..., torch.Tensor], names: tuple[str, ...], batch_of: str):
    """A reference that computes one batch element at a time in float64."""

    def reference(s: dict[str, torch.Tensor]) -> torch.Tensor:
        parts = []
        for b in range(s[batch_of].shape[0]):
            own = {n: (s[n][b] if n != "skip" else s[n]).double() for n in names}
            parts.append(function(**own).to(s["out"].dtype))
        return torch.stack(parts)

    return reference


def scan_of_one(cb, x, dt, decay, c, state, skip) -> torch.Tensor:
    """cb [C, 1, L, L], x [S, H, P], dt and decay [H, C, L], c [S, 1, N], state [C, H, P, N] -> [S, H, P]"""
    C, _, L, _ = cb.shape
    lower = torch.ones(L, L, dtype=torch.bool, device=cb.device).tril_()
    out = torch.empty_like(x)
    for i in range(C):
        a, rows = decay[:, i], slice(i * L, (i + 1) * L)
        fade = torch.exp(torch.where(lower, a[:, :, None] - a[:, None, :], float("-inf")))
        inside = torch.einsum("hls,shp->lhp", cb[i, 0] * fade * dt[:, i, None, :], x[rows])
        before = torch.einsum("ln,hpn->lhp", c[rows, 0], state[i]) * torch.exp(a).t()[:, :, None]
        out[rows] = inside + before + x[rows] * skip[:, None]
    return out


def state_of_one(x, b_in, dt, decay) -> torch.Tensor:
    """x [S, H, P], b_in [S, 1, N], dt and decay [H, C, L] -> [C, H, P, N]"""
    H, C, L = dt.shape
    weights = torch.exp(decay[..., -1:] - decay) * dt
    return torch.einsum("clhp,cln,hcl->chpn", x.view(C, L, H, -1), b_in.view(C, L, -1), weights)


def chunk_scan_cases(table3: bool = False) -> list[Case]:
    import threadloom as tl
    from examples.chunk_scan import chunk_scan

    kernel = chunk_scan.tile(T=tl.f16)
    names = ("cb", "x", "dt", "decay", "c", "state", "skip")

    def case(B: int, C: int, L: int, H: int, P: int, N: int, repeats: int = 0, sets: int = 1) -> Case:
        made = []
        for _ in range(sets):
            dt, decay = steps(B, C, L, H)
            made.append(dict(
                cb=random_half(B, C, 1, L, L), x=random_half(B, C * L, H, P), dt=dt, decay=decay,
                c=random_half(B, C * L, 1, N, scale=0.3), state=random_half(B, C, H, P, N, scale=0.3),
                skip=random_half(H), out=random_half(B, C * L, H, P),
            ))  # fmt: skip
        reference = in_double(scan_of_one, names, "x")
        label = f"chunk_scan B{B} S{C * L} H{H} P{P} N{N} chunk{L}"
        if not repeats:
            return Case(label, kernel, made, {}, reference)
        peers: dict[str, Callable[[int], object]] = {}
        try:
            from mamba_ssm.ops.triton.ssd_chunk_scan import _chunk_scan_fwd

            if made[0]["x"].numel() < 2**31:  # beyond, its 32-bit offsets leave the tensors: an illegal access
                peers["mamba-ssm"] = lambda i: _chunk_scan_fwd(*(made[i % sets][n] for n in names))
        except ImportError:
            pass
        moved = sum(t.numel() * t.element_size() for t in made[0].values())
        policies = ("decoupled",) if table3 else ()
        return Case(label, kernel, made, {}, reference, peers, float(moved), True, repeats, policies=policies)

    full = dict(H=HEADS, P=HEAD_DIM, N=STATE, L=CHUNK)
    if table3:
        return [case(B, 32, **full, repeats=2) for B in (32, 64)]
    return [case(1, 3, 128, 6, 64, 128), case(2, 2, 256, 4, 64, 64), case(8, 16, **full, repeats=4, sets=2)]


def chunk_state_cases() -> list[Case]:
    import threadloom as tl
    from examples.chunk_state import chunk_state

    kernel = chunk_state.tile(T=tl.f16)
    names = ("x", "b_in", "dt", "decay")

    def case(B: int, C: int, L: int, H: int, P: int, N: int, repeats: int = 0, sets: int = 1) -> Case:
        made = []
        for _ in range(sets):
            dt, decay = steps(B, C, L, H)
            made.append(dict(
                x=random_half(B, C * L, H, P), b_in=random_half(B, C * L, 1, N), dt=dt, decay=decay,
                out=random_half(B, C, H, P, N),
            ))  # fmt: skip
        reference = in_double(state_of_one, names, "x")
        label = f"chunk_state B{B} S{C * L} H{H} P{P} N{N} chunk{L}"
        if not repeats:
            return Case(label, kernel, made, {}, reference)
        peers: dict[str, Callable[[int], object]] = {}
        try:
            from mamba_ssm.ops.triton.ssd_chunk_state import _chunk_state_fwd

            order = ("b_in", "x", "dt", "decay")
            peers["mamba-ssm"] = lambda i: _chunk_state_fwd(*(made[i % sets][n] for n in order), states_in_fp32=False)
        except ImportError:
            pass
        moved = sum(t.numel() * t.element_size() for t in made[0].values())
        return Case(label, kernel, made, {}, reference, peers, float(moved), True, repeats)

    return [case(1, 3, 128, 6, 64, 128), case(8, 16, CHUNK, HEADS, HEAD_DIM, STATE, repeats=4, sets=2)]


def decode_cases() -> list[Case]:
    """One query a sequence, H / HKV heads on each of HKV key heads."""
    import threadloom as tl
    from examples.flash_decoding import flash_decoding

    def parts(s: dict[str, torch.Tensor]) -> torch.Tensor:
        splits, D = s["part"].shape[2], s["part"].shape[4]
        k, v = (s[n].double().unflatten(2, (splits, -1)) for n in ("k", "v"))
        weights = torch.softmax(torch.einsum("bhgd,bhsnd->bhsgn", s["q"].double(), k) * D**-0.5, -1)
        return torch.einsum("bhsgn,bhsnd->bhsgd", weights, v)

    def case(
        B: int, S: int, H: int, HKV: int, D: int, splits: int, repeats: int = 0, sets: int = 1,
        tiles: tuple[str, ...] = (),
    ) -> Case:  # fmt: skip
        made = []
        for _ in range(sets):
            q = torch.randn(B, HKV, H // HKV, D, device="cuda").bfloat16()
            k, v = (torch.randn(B, S, HKV, D, device="cuda").bfloat16().transpose(1, 2) for _ in range(2))
            part = torch.empty(B, HKV, splits, H // HKV, D, device="cuda")
            made.append(dict(q=q, k=k, v=v, part=part, log_sum=part.new_empty(B, HKV, splits, H // HKV)))
        kernel = flash_decoding.tile(T=tl.bf16, splits=splits)
        label = f"decode B{B} KV{S} H{H}/{HKV} D{D} splits{splits}"
        scalars, moved = {"scale": D**-0.5}, float(2 * 2 * B * S * HKV * D)
        if not repeats:
            return Case(label, kernel, made, scalars, parts, output="part")
        flat = [dict(q=s["q"].reshape(B, 1, H, D), k=s["k"].transpose(1, 2), v=s["v"].transpose(1, 2)) for s in made]
        peers: dict[str, Callable[[int], object]] = {}
        try:
            from fa3_fwd_interface import flash_attn_with_kvcache

            lengths = torch.full((B,), S, dtype=torch.int32, device="cuda")
            peers["fa3"] = lambda i: flash_attn_with_kvcache(
                flat[i % sets]["q"], flat[i % sets]["k"], flat[i % sets]["v"], cache_seqlens=lengths, num_splits=0
            )
        except ImportError:
            pass
        from torch.nn.attention import SDPBackend, sdpa_kernel

        def cudnn(i: int):
            s = made[i % sets]
            with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
                q = s["q"].reshape(B, H, 1, D)
                return torch.nn.functional.scaled_dot_product_attention(q, s["k"], s["v"], enable_gqa=True)

        peers["cudnn"] = cudnn
        return Case(label, kernel, made, scalars, parts, peers, moved, True, repeats, output="part", tiles=tiles)

    once = ("n64w1@2-once", "n32w1@2-once", "n64w1@2")
    fewer = tuple(f"n32w1@2-smem{kib}" for kib in (40, 56, 72))  # shallower rings: fewer bytes on the way
    return [
        case(2, 512, 16, 4, 128, 2), case(1, 8192, 32, 8, 128, 16, repeats=16, sets=8),
        case(32, 8192, 32, 8, 128, 1, repeats=4, sets=2, tiles=(*fewer, "n64w1x8@2-once")),
        case(32, 8192, 32, 8, 128, 2, repeats=4, sets=2), case(32, 8192, 32, 8, 128, 8, repeats=4, sets=2, tiles=once),
    ]  # fmt: skip
