"""A product for each part of the summed axis, which ends inside the tensors: what follows must not count."""

from itertools import pairwise

import numpy as np

import threadloom as tl


@tl.kernel
def split_sums(
    a: tl.Tensor["M", "K", "T"], b: tl.Tensor["K", "N", "T"], starts: tl.Tensor["G + 1", tl.i32]
) -> tl.Tensor["G", "M", "N", tl.f32]:
    for g, m, n in tl.grid(tl.each("G"), "M", "N"):
        acc = tl.zeros(m, n)
        for k in tl.stream(tl.span("K", starts[g], starts[g + 1])):
            acc += tl.dot(a[m, k], b[k, n])
        out[g, m, n] = acc


SHAPE = {"M": 256, "N": 256, "K": 1024, "G": 4}
SHAPES = [{"M": 40, "N": 24, "K": 200, "G": 3}, {"M": 3, "N": 5, "K": 7, "G": 2}]


def inputs(rng: np.random.Generator, M: int, N: int, K: int, G: int, dtype: type = np.float32) -> dict[str, np.ndarray]:
    cuts = np.concatenate([[0], np.sort(rng.integers(0, K + 1, G - 1)), [K]]).astype(np.int32)
    a, b = rng.standard_normal((M, K)).astype(dtype), rng.standard_normal((K, N)).astype(dtype)
    return {"a": a, "b": b, "starts": cuts}


def reference(a: np.ndarray, b: np.ndarray, starts: np.ndarray) -> np.ndarray:
    a, b = a.astype(np.float64), b.astype(np.float64)
    return np.stack([a[:, s:e] @ b[s:e] for s, e in pairwise(starts)])
