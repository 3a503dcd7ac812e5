"""Sums of products of different types, which a GPU makes on different units and in different registers: in one
loop, and in loops one after the other."""

import numpy as np

import threadloom as tl


@tl.kernel
def mixed_products(
    a: tl.Tensor["M", "K", tl.f32], b: tl.Tensor["K", "N", tl.f32], c: tl.Tensor["M", "K", "T"],
    d: tl.Tensor["K", "N", "T"],
) -> tl.outputs(scaled=tl.Tensor["M", "N", tl.f32], plain=tl.Tensor["M", "N", tl.f32]):
    for m, n in tl.grid("M", "N"):
        first = tl.zeros(m, n, dtype=tl.f32)
        second = tl.zeros(m, n, dtype=tl.f32)
        for k in tl.stream("K"):
            first += tl.dot(a[m, k], b[k, n]) * 0.5
            first += tl.dot(c[m, k], d[k, n])
        for k in tl.stream("K"):
            second += tl.dot(a[m, k], b[k, n])
        for k in tl.stream("K"):
            second += tl.dot(c[m, k], d[k, n])
        scaled[m, n] = first
        plain[m, n] = second


SHAPE = {"M": 512, "N": 512, "K": 512}
SHAPES = [{"M": 70, "N": 33, "K": 45}, {"M": 8, "N": 3, "K": 200}]


def inputs(rng: np.random.Generator, M: int, N: int, K: int, dtype: type = np.float32) -> dict[str, np.ndarray]:
    a, b, c, d = ((rng.standard_normal(s) / 4).astype(np.float32) for s in ((M, K), (K, N)) * 2)
    return {"a": a, "b": b, "c": c.astype(dtype), "d": d.astype(dtype)}


def reference(a: np.ndarray, b: np.ndarray, c: np.ndarray, d: np.ndarray) -> tuple[np.ndarray, ...]:
    exact, narrow = (x.astype(np.float64) @ y.astype(np.float64) for x, y in ((a, b), (c, d)))
    return exact / 2 + narrow, exact + narrow
