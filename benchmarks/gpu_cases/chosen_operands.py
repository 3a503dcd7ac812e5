"""Scalars that are computed of tiles and place, bound and choose: the best of some scores says which weights a product
takes, a sum how long it is, another whether it is made."""

import numpy as np

import threadloom as tl


@tl.kernel
def chosen_operands(
    scores: tl.Tensor["B", "E", "T"],
    a: tl.Tensor["B", "M", "K", "T"],
    w: tl.Tensor["E", "K", "N", "T"],
    lengths: tl.Tensor["B", "E", tl.i32],
    link: tl.Tensor["E", tl.i32],
) -> tl.outputs(
    y=tl.Tensor["B", "M", "N", tl.f32], cut=tl.Tensor["B", "M", "N", tl.f32], chosen=tl.Tensor["B", "M", "N", tl.f32]
):
    for b, m, n in tl.grid(tl.each("B"), "M", "N"):
        e = tl.axis("E")
        best = tl.argmax(scores[b, e], e)
        stop = tl.sum(lengths[b, e], e)
        all_of_it = tl.zeros(m, n)
        part = tl.zeros(m, n)
        for k in tl.stream("K"):
            all_of_it += tl.dot(a[b, m, k], w[best, k, n])
        for k in tl.stream(tl.span("K", 0, stop)):
            part += tl.dot(a[b, m, k], w[link[best], k, n])
        y[b, m, n] = all_of_it
        cut[b, m, n] = tl.where(n < stop, part, 0.0)
        if tl.any(scores[b, e] > 1.0, e):
            chosen[b, m, n] = part
        else:
            chosen[b, m, n] = all_of_it


SHAPE = {"B": 24, "E": 16, "M": 128, "K": 512, "N": 256}
SHAPES = [
    {"B": 3, "E": 5, "M": 20, "K": 40, "N": 24},
    {"B": 2, "E": 1, "M": 3, "K": 7, "N": 1},
]


def inputs(
    rng: np.random.Generator, B: int, E: int, M: int, K: int, N: int, dtype: type = np.float32
) -> dict[str, np.ndarray]:
    floats = {"scores": (B, E), "a": (B, M, K), "w": (E, K, N)}
    made = {name: (rng.standard_normal(shape) / 2).astype(dtype) for name, shape in floats.items()}
    made["lengths"] = rng.integers(0, 2 * K // E + 1, (B, E)).astype(np.int32)
    made["link"] = rng.integers(0, E, E).astype(np.int32)
    return made


def reference(
    scores: np.ndarray, a: np.ndarray, w: np.ndarray, lengths: np.ndarray, link: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    a, w = a.astype(np.float64), w.astype(np.float64)
    best, stops = scores.astype(np.float64).argmax(1), lengths.sum(1)
    y = a @ w[best]
    part = np.stack([a[b, :, :stop] @ w[link[best[b]], :stop] for b, stop in enumerate(stops)])
    cut = np.where(np.arange(w.shape[2]) < stops[:, None, None], part, 0)
    return y, cut, np.where((scores > 1).any(1)[:, None, None], part, y)
