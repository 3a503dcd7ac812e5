"""Products with a batch axis in a tile, summed over two axes, with a vector, and of one tile along and across its rows.

    s[m, h, n] = sum over j, k of a[m, h, j, k] * b[n, h, j, k]; y = s v, z = s^T w, norm = a over its whole rows
"""

import numpy as np

import threadloom as tl


@tl.kernel
def batched_product(
    a: tl.Tensor["M", "H", "J", "K", "T"],
    b: tl.Tensor["N", "H", "J", "K", "T"],
    v: tl.Tensor["N", "E", "T"],
    w: tl.Tensor["M", "E", "T"],
    x: tl.Tensor["K", "T"],
) -> tl.outputs(
    y=tl.Tensor["H", "M", "E", tl.f32], z=tl.Tensor["H", "N", "E", tl.f32], g=tl.Tensor["M", "H", "J", tl.f32]
):
    for h in tl.grid(tl.each("H")):
        m, n, j, k, e = tl.axis("M"), tl.axis("N"), tl.axis("J"), tl.axis("K"), tl.axis("E")
        s = tl.cast(tl.dot(a[m, h, j, k], b[n, h, j, k], over=(j, k)) * 0.125, x.dtype)
        y[h, m, e] = tl.dot(s, v[n, e])
        z[h, n, e] = tl.dot(s, w[m, e])
        g[m, h, j] = tl.dot(a[m, h, j, k], x[k])


SHAPE = {"M": 64, "N": 64, "H": 24, "J": 3, "K": 32, "E": 32}
SHAPES = [{"M": 50, "N": 40, "H": 2, "J": 2, "K": 24, "E": 16}, {"M": 5, "N": 3, "H": 1, "J": 1, "K": 7, "E": 2}]


def inputs(
    rng: np.random.Generator, M: int, N: int, H: int, J: int, K: int, E: int, dtype: type = np.float32
) -> dict[str, np.ndarray]:
    shapes = {"a": (M, H, J, K), "b": (N, H, J, K), "v": (N, E), "w": (M, E), "x": (K,)}
    return {name: (rng.standard_normal(shape) / 2).astype(dtype) for name, shape in shapes.items()}


def reference(
    a: np.ndarray, b: np.ndarray, v: np.ndarray, w: np.ndarray, x: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    a, b, v, w, x = (t.astype(np.float64) for t in (a, b, v, w, x))
    s = np.einsum("mhjk,nhjk->hmn", a, b) / 8
    return s @ v, np.swapaxes(s, 1, 2) @ w, a @ x
