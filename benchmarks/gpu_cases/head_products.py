"""A product for each head, heads being an axis of the tiles: a batch axis that is tiled, and one that is whole."""

import numpy as np

import threadloom as tl


@tl.kernel
def head_products(a: tl.Tensor["B", "M", "H", "K", "T"], b: tl.Tensor["B", "N", "H", "K", "T"]) -> tl.Tensor[
    "B", "H", "M", "N", tl.f32
]:
    for s, m, n in tl.grid("B", "M", "N"):
        h = tl.axis("H")
        acc = tl.zeros(s, h, m, n)
        for k in tl.stream("K"):
            acc += tl.dot(a[s, m, h, k], b[s, n, h, k], over=k)
        out[s, h, m, n] = acc


SHAPE = {"B": 6, "M": 256, "N": 192, "H": 4, "K": 256}
SHAPES = [{"B": 3, "M": 70, "N": 33, "H": 3, "K": 45}, {"B": 1, "M": 3, "N": 2, "H": 2, "K": 5}]


def inputs(
    rng: np.random.Generator, B: int, M: int, N: int, H: int, K: int, dtype: type = np.float32
) -> dict[str, np.ndarray]:
    return {"a": rng.standard_normal((B, M, H, K)).astype(dtype), "b": rng.standard_normal((B, N, H, K)).astype(dtype)}


def reference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.einsum("smhk,snhk->shmn", a.astype(np.float64), b.astype(np.float64))
