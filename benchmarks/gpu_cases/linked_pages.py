"""Loops that carry what loads and bounds depend on: pages that name the next one, rows that begin where others end."""

import numpy as np

import threadloom as tl


@tl.kernel
def linked_pages(
    x: tl.Tensor["P", "M", "K", "T"],
    w: tl.Tensor["K", "N", "T"],
    first: tl.Tensor["B", tl.i32],
    link: tl.Tensor["P", tl.i32],
    length: tl.Tensor["B", "S", tl.i32],
    rows: tl.Tensor["R", "N", "T"],
) -> tl.outputs(y=tl.Tensor["B", "M", "N", tl.f32], sums=tl.Tensor["B", "S", "N", tl.f32], end=tl.Tensor["B", tl.i32]):
    for b, n in tl.grid(tl.each("B"), "N"):
        m, k = tl.axis("M"), tl.axis("K")
        acc = tl.zeros(m, n)
        page = first[b]
        for _ in tl.stream(tl.each("S")):
            if page >= 0:
                acc += tl.dot(x[page, m, k], w[k, n])
            page = link[page]
        y[b, m, n] = acc
        at = 0
        for s in tl.stream(tl.each("S")):
            stop = at + length[b, s]
            part = tl.zeros(n)
            for r in tl.stream(tl.span("R", at, stop)):
                part += tl.sum(tl.cast(rows[r, n], tl.f32), r)
            sums[b, s, n] = part
            at = stop
        tl.atomic_add(end[b], tl.where(n.start == 0, at, 0))


SHAPE = {"P": 64, "M": 128, "K": 128, "N": 256, "B": 40, "S": 6, "R": 300}
SHAPES = [
    {"P": 7, "M": 20, "K": 24, "N": 40, "B": 3, "S": 4, "R": 30},
    {"P": 1, "M": 3, "K": 5, "N": 1, "B": 1, "S": 1, "R": 2},
]


def inputs(
    rng: np.random.Generator, P: int, M: int, K: int, N: int, B: int, S: int, R: int, dtype: type = np.float32
) -> dict[str, np.ndarray]:
    floats = {"x": (P, M, K), "w": (K, N), "rows": (R, N)}
    made = {name: (rng.standard_normal(shape) / 2).astype(dtype) for name, shape in floats.items()}
    made["first"] = rng.integers(0, P, B).astype(np.int32)
    made["link"] = rng.integers(-1, P, P).astype(np.int32)
    made["length"] = rng.integers(0, 2 * R // S + 1, (B, S)).astype(np.int32)
    return made


def reference(
    x: np.ndarray, w: np.ndarray, first: np.ndarray, link: np.ndarray, length: np.ndarray, rows: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x, w, rows = (t.astype(np.float64) for t in (x, w, rows))
    y = np.zeros((len(first), x.shape[1], w.shape[1]))
    sums = np.zeros((*length.shape, w.shape[1]))
    for b, page in enumerate(first):
        at = 0
        for s in range(length.shape[1]):
            y[b] += x[page] @ w if page >= 0 else 0
            page = link[page] if page >= 0 else 0
            sums[b, s] = rows[at : at + length[b, s]].sum(0)
            at += length[b, s]
    return y, sums, length.sum(1)
