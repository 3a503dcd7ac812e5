"""Rotary embedding of queries or keys by halves: every element with the one half a row away, which is gathered."""

import numpy as np

import threadloom as tl


@tl.kernel
def rotary(
    x: tl.Tensor["B", "S", "H", "2 * P", "T"], cos: tl.Tensor["S", "P", tl.f32], sin: tl.Tensor["S", "P", tl.f32]
) -> tl.Tensor["B", "S", "H", "2 * P", "T"]:
    for b, s in tl.grid(tl.each("B"), "S"):
        h, d, half = tl.axis("H"), tl.axis("2 * P"), tl.dim("P")
        other = tl.where(d < half, -tl.cast(x[b, s, h, d + half], tl.f32), tl.cast(x[b, s, h, d - half], tl.f32))
        out[b, s, h, d] = tl.cast(x[b, s, h, d], tl.f32) * cos[s, d % half] + other * sin[s, d % half]


SHAPE = {"B": 2, "S": 2048, "H": 16, "P": 64}
SHAPES = [{"B": 2, "S": 40, "H": 3, "P": 16}, {"B": 1, "S": 3, "H": 1, "P": 5}]


def inputs(rng: np.random.Generator, B: int, S: int, H: int, P: int, dtype: type = np.float32) -> dict[str, np.ndarray]:
    angle = rng.uniform(0, 6, (S, P))
    x = rng.standard_normal((B, S, H, 2 * P)).astype(dtype)
    return {"x": x, "cos": np.cos(angle).astype(np.float32), "sin": np.sin(angle).astype(np.float32)}


def reference(x: np.ndarray, cos: np.ndarray, sin: np.ndarray) -> np.ndarray:
    low, high = np.split(x.astype(np.float64), 2, axis=-1)
    cos, sin = cos.astype(np.float64)[:, None], sin.astype(np.float64)[:, None]
    return np.concatenate([low * cos - high * sin, high * cos + low * sin], -1)
