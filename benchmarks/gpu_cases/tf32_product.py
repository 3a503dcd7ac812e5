"""f32 operands rounded to tf32, one of them across the depth in memory and one along it."""

import numpy as np

import threadloom as tl


@tl.kernel
def tf32_product(a: tl.Tensor["M", "K", tl.f32], b: tl.Tensor["N", "K", tl.f32]) -> tl.Tensor["M", "N", tl.f32]:
    for m, n in tl.grid("M", "N"):
        acc = tl.zeros(m, n)
        for k in tl.stream("K"):
            acc += tl.dot(tl.cast(a[m, k], tl.tf32), tl.cast(b[n, k], tl.tf32))
        out[m, n] = acc


SHAPE = {"M": 256, "N": 192, "K": 320}
SHAPES = [{"M": 70, "N": 33, "K": 45}]


def inputs(rng: np.random.Generator, M: int, N: int, K: int, dtype: type = np.float32) -> dict[str, object]:
    """Numbers that tf32 holds exactly, whatever `dtype`."""
    return {n: rng.integers(-64, 64, s).astype(np.float32) for n, s in (("a", (M, K)), ("b", (N, K)))}


def reference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype(np.float64) @ b.astype(np.float64).T
