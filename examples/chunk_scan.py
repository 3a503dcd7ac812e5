"""Mamba2's ChunkScan: outputs of a state-space model within chunks of length L, given each chunk's incoming state.

    out = exp(decay) * (c @ state^T)  +  tril(cb * exp(decay_m - decay_k) * dt_k) @ x  +  x * skip

`decay` is the running sum of dt * A inside a chunk; `cb` the products of C and B inside a chunk (ChunkState's sibling).
"""

import numpy as np

import threadloom as tl


@tl.kernel
def chunk_scan(
    cb: tl.Tensor["B", "C", "G", "L", "L", "T"],
    x: tl.Tensor["B", "C * L", "H", "P", "T"],
    dt: tl.Tensor["B", "H", "C", "L", "T"],
    decay: tl.Tensor["B", "H", "C", "L", "T"],
    c: tl.Tensor["B", "C * L", "G", "N", "T"],
    state: tl.Tensor["B", "C", "H", "P", "N", "T"],
    skip: tl.Tensor["H", "T"],
) -> tl.Tensor["B", "C * L", "H", "P", "T"]:
    for b, chunk, h, m, p in tl.grid(tl.each("B"), tl.each("C"), tl.each("H"), "L", "P"):
        group = h // (tl.dim("H") // tl.dim("G"))
        first = chunk * tl.dim("L")
        rows = tl.cast(decay[b, h, chunk, m], tl.f32)
        acc = tl.dot(c[b, first + m, group, :], state[b, chunk, h, p, :]) * tl.exp(rows)
        for k in tl.stream(tl.span("L", 0, m.stop)):
            fade = tl.exp(rows - tl.cast(decay[b, h, chunk, k], tl.f32))
            weights = cb[b, chunk, group, m, k] * fade * dt[b, h, chunk, k]
            weights = tl.where(k <= m, weights, 0.0)
            acc += tl.dot(tl.cast(weights, x.dtype), x[b, first + k, h, p])
        out[b, first + m, h, p] = acc + x[b, first + m, h, p] * skip[h]


SHAPE = {"B": 1, "C": 8, "L": 256, "H": 16, "P": 64, "N": 128, "G": 1}
SHAPES = [
    {"B": 2, "C": 2, "L": 16, "H": 4, "P": 8, "N": 8, "G": 1},
    {"B": 1, "C": 3, "L": 21, "H": 2, "P": 5, "N": 7, "G": 2},
]


def inputs(
    rng: np.random.Generator, B: int, C: int, L: int, H: int, P: int, N: int, G: int, dtype: type = np.float32
) -> dict[str, np.ndarray]:
    dt = np.log1p(np.exp(rng.standard_normal((B, H, C, L)) - 4))
    decay = np.cumsum(-dt * np.exp(1.5 * rng.random((H, 1, 1))), axis=-1)
    shapes = {"cb": (B, C, G, L, L), "x": (B, C * L, H, P), "c": (B, C * L, G, N), "state": (B, C, H, P, N)}
    arrays = {name: rng.standard_normal(shape) for name, shape in shapes.items()}
    arrays |= {"dt": dt, "decay": decay, "skip": rng.standard_normal(H)}
    return {name: array.astype(dtype) for name, array in arrays.items()}


def reference(
    cb: np.ndarray,
    x: np.ndarray,
    dt: np.ndarray,
    decay: np.ndarray,
    c: np.ndarray,
    state: np.ndarray,
    skip: np.ndarray,
) -> np.ndarray:
    cb, x, dt, decay, c, state, skip = (a.astype(np.float64) for a in (cb, x, dt, decay, c, state, skip))
    (batch, chunks, groups, length, _), heads = cb.shape, x.shape[2]
    x_chunks = x.reshape(batch, chunks, length, heads, -1)
    cb, c = (np.repeat(a, heads // groups, axis=at) for a, at in ((cb, 2), (c, 2)))
    fade = np.exp(np.minimum(decay[..., :, None] - decay[..., None, :], 0)).transpose(0, 2, 1, 3, 4)
    weights = np.tril(cb * fade) * dt.transpose(0, 2, 1, 3)[:, :, :, None]
    inside = np.einsum("bchlk,bckhp->bclhp", weights, x_chunks)
    before = np.einsum("bclhn,bchpn,bhcl->bclhp", c.reshape(batch, chunks, length, heads, -1), state, np.exp(decay))
    return (inside + before).reshape(x.shape) + x * skip[:, None]


def flops(B: int, C: int, L: int, H: int, P: int, N: int, G: int) -> int:
    return 2 * B * C * H * L * P * (N + L // 2)


def main() -> None:
    from _run import run_and_compare

    run_and_compare(chunk_scan, inputs, reference, SHAPES[0])


if __name__ == "__main__":
    main()
