"""Gated linear attention in chunks, from a state that is given: products in a chunk under a mask of decays, products
with the state that the loop over chunks carries."""

import numpy as np

import threadloom as tl


@tl.kernel
def gated_linear(
    q: tl.Tensor["B", "C", "L", "D", "T"], k: tl.Tensor["B", "C", "L", "D", "T"], v: tl.Tensor["B", "C", "L", "E", "T"],
    g: tl.Tensor["B", "C", "L", tl.f32], h0: tl.Tensor["B", "D", "E", tl.f32],
) -> tl.outputs(y=tl.Tensor["B", "C", "L", "E", tl.f32], h=tl.Tensor["B", "D", "E", tl.f32]):
    for b, e in tl.grid(tl.each("B"), "E"):
        d, i, j = tl.axis("D"), tl.axis("L"), tl.axis("L")
        state = h0[b, d, e]
        for c in tl.stream(tl.each("C")):
            decay, decay_j = tl.cumsum(g[b, c, i], i), tl.cumsum(g[b, c, j], j)
            whole = tl.sum(g[b, c, j], j)
            scores = tl.dot(q[b, c, i, d], k[b, c, j, d])
            scores = tl.where(j <= i, scores * tl.exp(decay - decay_j), 0.0)
            before = tl.dot(q[b, c, i, d], tl.cast(state, q.dtype)) * tl.exp(decay)
            y[b, c, i, e] = before + tl.dot(tl.cast(scores, q.dtype), v[b, c, j, e])
            weighed = tl.cast(tl.cast(k[b, c, j, d], tl.f32) * tl.exp(whole - decay_j), q.dtype)
            state = state * tl.exp(whole) + tl.dot(weighed, v[b, c, j, e])
        h[b, d, e] = state


SHAPE = {"B": 8, "C": 16, "L": 64, "D": 64, "E": 128}
SHAPES = [{"B": 2, "C": 3, "L": 16, "D": 32, "E": 24}, {"B": 1, "C": 1, "L": 5, "D": 7, "E": 3}]


def inputs(
    rng: np.random.Generator, B: int, C: int, L: int, D: int, E: int, dtype: type = np.float32
) -> dict[str, np.ndarray]:
    q, k = ((rng.standard_normal((B, C, L, D)) * 0.3).astype(dtype) for _ in range(2))
    v = (rng.standard_normal((B, C, L, E)) * 0.5).astype(dtype)
    g = -rng.uniform(0, 0.2, (B, C, L)).astype(np.float32)
    return {"q": q, "k": k, "v": v, "g": g, "h0": (rng.standard_normal((B, D, E)) * 0.3).astype(np.float32)}


def reference(q: np.ndarray, k: np.ndarray, v: np.ndarray, g: np.ndarray, h0: np.ndarray) -> tuple[np.ndarray, ...]:
    """Step by step."""
    q, k, v, g, state = (a.astype(np.float64) for a in (q, k, v, g, h0))
    y = np.empty(v.shape)
    for c, t in np.ndindex(*q.shape[1:3]):
        state = state * np.exp(g[:, c, t])[:, None, None] + k[:, c, t, :, None] * v[:, c, t, None, :]
        y[:, c, t] = np.einsum("bd,bde->be", q[:, c, t], state)
    return y, state
