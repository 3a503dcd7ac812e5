"""8-bit integers: exact sums of 32 bits, operands along the depth."""

import numpy as np

import threadloom as tl


@tl.kernel
def byte_product(a: tl.Tensor["M", "K", tl.i8], b: tl.Tensor["N", "K", tl.i8]) -> tl.Tensor["M", "N", tl.i32]:
    for m, n in tl.grid("M", "N"):
        acc = tl.zeros(m, n, dtype=tl.i32)
        for k in tl.stream("K"):
            acc += tl.dot(a[m, k], b[n, k])
        out[m, n] = acc


SHAPE = {"M": 256, "N": 192, "K": 640}
SHAPES = [{"M": 70, "N": 33, "K": 45}]


def inputs(rng: np.random.Generator, M: int, N: int, K: int, dtype: type = np.int8) -> dict[str, object]:
    return {n: rng.integers(-128, 128, s).astype(np.int8) for n, s in (("a", (M, K)), ("b", (N, K)))}


def reference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a.astype(np.int64) @ b.astype(np.int64).T
