"""Running sums, sums and maxima along the rows' axis: what crosses the warps of a worker."""

import numpy as np

import threadloom as tl


@tl.kernel
def column_sum(x: tl.Tensor["M", "N", "T"]) -> tl.Tensor["M", "N", tl.f32]:
    for n in tl.grid("N"):
        m = tl.axis("M")
        part = tl.cast(x[m, n], tl.f32)
        out[m, n] = tl.cumsum(part, m) + tl.sum(part, m) * tl.max(part, m)


SHAPE = {"M": 64, "N": 4096}
SHAPES = [{"M": 48, "N": 96}, {"M": 1, "N": 5}]


def inputs(rng: np.random.Generator, M: int, N: int, dtype: type = np.float32) -> dict[str, np.ndarray]:
    return {"x": rng.standard_normal((M, N)).astype(dtype)}


def reference(x: np.ndarray) -> np.ndarray:
    x = x.astype(np.float64)
    return np.cumsum(x, 0) + x.sum(0) * x.max(0)
