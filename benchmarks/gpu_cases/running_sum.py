"""A scan along rows, forwards and backwards."""

import numpy as np

import threadloom as tl


@tl.kernel
def running_sum(x: tl.Tensor["M", "N", "T"]) -> tl.Tensor["M", "N", tl.f32]:
    for m in tl.grid("M"):
        n = tl.axis("N")
        rows = tl.cast(x[m, n], tl.f32)
        out[m, n] = tl.cumsum(rows, n) - 2.0 * tl.cumsum(rows, n, reverse=True)


SHAPE = {"M": 300, "N": 1000}
SHAPES = [{"M": 33, "N": 200}, {"M": 2, "N": 1}, {"M": 5, "N": 37}]


def inputs(rng: np.random.Generator, M: int, N: int, dtype: type = np.float32) -> dict[str, np.ndarray]:
    return {"x": rng.standard_normal((M, N)).astype(dtype)}


def reference(x: np.ndarray) -> np.ndarray:
    x = x.astype(np.float64)
    return np.cumsum(x, axis=1) - 2 * np.cumsum(x[:, ::-1], axis=1)[:, ::-1]
