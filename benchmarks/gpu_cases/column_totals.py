"""Sums and counts over the rows of a product, added up from the tiles: rows that several workers share."""

import numpy as np

import threadloom as tl


@tl.kernel
def column_totals(
    a: tl.Tensor["M", "K", "T"], b: tl.Tensor["K", "N", "T"], x: tl.Tensor["N", tl.i32]
) -> tl.outputs(
    y=tl.Tensor["M", "N", tl.f32], sums=tl.Tensor["N", tl.f32], above=tl.Tensor["N", tl.i64],
    times=tl.Tensor["N", tl.i32],
):
    for m, n in tl.grid("M", "N"):
        k = tl.axis("K")
        acc = tl.cast(tl.dot(a[m, k], b[k, n]), tl.f32)
        y[m, n] = acc
        tl.atomic_add(sums[n], tl.sum(acc * acc, m))
        tl.atomic_add(above[n], tl.cast(tl.sum(tl.cast((acc > 0.0) & (m < tl.dim("M")), tl.i32), m), tl.i64))
        tl.atomic_add(times[n], tl.where(m.start == 0, x[n], 0))


SHAPE = {"M": 3000, "N": 1024, "K": 64}
SHAPES = [{"M": 300, "N": 72, "K": 40}, {"M": 3, "N": 1, "K": 5}]


def inputs(rng: np.random.Generator, M: int, N: int, K: int, dtype: type = np.float32) -> dict[str, np.ndarray]:
    """Whole numbers, so that signs are exact."""
    a, b = rng.integers(-4, 5, (M, K)).astype(dtype), rng.integers(-4, 5, (K, N)).astype(dtype)
    return {"a": a, "b": b, "x": rng.integers(-9, 10, N).astype(np.int32)}


def reference(a: np.ndarray, b: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, ...]:
    y = a.astype(np.float64) @ b.astype(np.float64)
    return y, (y * y).sum(0), (y > 0).sum(0), x
