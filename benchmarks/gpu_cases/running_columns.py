"""Running sums down the columns of a product, whose rows several warpgroups share, from both ends; and values stored to
places that indices name along an axis that the values lack."""

import numpy as np

import threadloom as tl


@tl.kernel
def running_columns(
    a: tl.Tensor["M", "K", "T"], b: tl.Tensor["K", "N", "T"], at: tl.Tensor["N", tl.i32]
) -> tl.outputs(
    down=tl.Tensor["M", "N", tl.f32], up=tl.Tensor["M", "N", tl.f32], most=tl.Tensor["M", "N", tl.f32],
    placed=tl.Tensor["M", "N", tl.f32],
):
    for n in tl.grid("N"):
        m, k = tl.axis("M"), tl.axis("K")
        product = tl.dot(a[m, k], b[k, n])
        down[m, n] = tl.cumsum(product, m)
        up[m, n] = tl.cumsum(product, m, reverse=True)
        most[m, n] = tl.cummax(product, m)
        placed[m, at[n]] = tl.cast(a[m, 0], tl.f32)


SHAPE = {"M": 128, "N": 4096, "K": 64}
SHAPES = [{"M": 100, "N": 72, "K": 40}, {"M": 3, "N": 1, "K": 5}]


def inputs(rng: np.random.Generator, M: int, N: int, K: int, dtype: type = np.float32) -> dict[str, np.ndarray]:
    a, b = ((rng.standard_normal(s) / 4).astype(dtype) for s in ((M, K), (K, N)))
    return {"a": a, "b": b, "at": rng.permutation(N).astype(np.int32)}


def reference(a: np.ndarray, b: np.ndarray, at: np.ndarray) -> tuple[np.ndarray, ...]:
    product = a.astype(np.float64) @ b.astype(np.float64)
    up = np.cumsum(product[::-1], 0)[::-1]
    placed = np.broadcast_to(a[:, :1].astype(np.float64), product.shape)
    return np.cumsum(product, 0), up, np.maximum.accumulate(product, 0), placed
