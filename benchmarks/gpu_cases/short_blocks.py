"""Products of blocks of 16 rows, a length that the kernel itself states: an instruction has 64 rows, and what
the others hold must not leave."""

import numpy as np

import threadloom as tl


@tl.kernel
def short_blocks(
    a: tl.Tensor["B", 16, "K", "T"], w: tl.Tensor["K", "N", "T"],
) -> tl.Tensor["B", 16, "N", "T"]:
    m = tl.axis(16)
    for b, n in tl.grid(tl.each("B"), "N"):
        total = tl.zeros(m, n, dtype=tl.f32)
        for k in tl.stream("K"):
            total += tl.dot(a[b, m, k], w[k, n])
        out[b, m, n] = total


SHAPE = {"B": 64, "K": 512, "N": 512}
SHAPES = [{"B": 5, "K": 64, "N": 64}, {"B": 3, "K": 72, "N": 136}]


def inputs(rng: np.random.Generator, B: int, K: int, N: int, dtype: type = np.float16) -> dict[str, np.ndarray]:
    return {n: (rng.standard_normal(s) / 4).astype(dtype) for n, s in {"a": (B, 16, K), "w": (K, N)}.items()}


def reference(a: np.ndarray, w: np.ndarray) -> np.ndarray:
    return a.astype(np.float64) @ w.astype(np.float64)
