"""A product in f64, of the transposed right operand."""

import numpy as np

import threadloom as tl


@tl.kernel
def double_product(a: tl.Tensor["M", "K", "T"], b: tl.Tensor["N", "K", "T"]) -> tl.Tensor["M", "N", tl.f64]:
    for m, n in tl.grid("M", "N"):
        acc = tl.zeros(m, n, dtype=tl.f64)
        for k in tl.stream("K"):
            acc += tl.dot(tl.cast(a[m, k], tl.f64), tl.cast(b[n, k], tl.f64))
        out[m, n] = acc


SHAPE = {"M": 256, "N": 200, "K": 512}
SHAPES = [{"M": 70, "N": 33, "K": 40}, {"M": 1, "N": 1, "K": 3}]


def inputs(rng: np.random.Generator, M: int, N: int, K: int, dtype: type = np.float32) -> dict[str, np.ndarray]:
    return {"a": rng.standard_normal((M, K)).astype(dtype), "b": rng.standard_normal((N, K)).astype(dtype)}


def reference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype(np.float64) @ b.astype(np.float64).T
