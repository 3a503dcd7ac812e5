"""Rows that computed indices name, as an operand of a product and elementwise; additions of every width to places that
indices name (an output of 1, 2, 4 and 8 bytes an element), some of them outside."""

import numpy as np

import threadloom as tl


@tl.kernel
def gathered_sums(
    x: tl.Tensor["P", "K", "T"], w: tl.Tensor["K", "N", "T"], at: tl.Tensor["M", tl.i32], to: tl.Tensor["M", tl.i32],
    v: tl.Tensor["M", "N", "T"], bins: tl.Const[int],
) -> tl.outputs(
    y=tl.Tensor["M", "N", tl.f32], z=tl.Tensor["M", "N", "T"], sums=tl.Tensor["bins", "N", "T"],
    few=tl.Tensor["bins", "N", tl.i8], many=tl.Tensor["bins", tl.i64],
):
    for m, n in tl.grid("M", "N"):
        k = tl.axis("K")
        row = (at[m] * 3 + 1) % tl.dim("P")
        y[m, n] = tl.dot(x[row, k], w[k, n])
        z[m, n] = v[tl.maximum(at[m], 0) % tl.dim("M"), n] + v[m, n]
        tl.atomic_add(sums[to[m], n], v[m, n])
        tl.atomic_add(few[to[m], n], tl.cast(v[m, n], tl.i8))
        tl.atomic_add(many[to[m]], tl.where(n.start == 0, 1, 0))


SHAPE = {"P": 500, "K": 96, "N": 128, "M": 300}
SHAPES = [{"P": 9, "K": 24, "N": 40, "M": 33}, {"P": 1, "K": 3, "N": 1, "M": 2}]
BINS = 11


def inputs(
    rng: np.random.Generator, P: int, K: int, N: int, M: int, dtype: type = np.float32
) -> dict[str, np.ndarray | int]:
    """Small integers where their sums must be exact."""
    return {
        "x": (rng.standard_normal((P, K)) / 2).astype(dtype),
        "w": (rng.standard_normal((K, N)) / 2).astype(dtype),
        "at": rng.integers(-5, 2 * P + 2, M).astype(np.int32),
        "to": rng.integers(-1, BINS + 1, M).astype(np.int32),
        "v": rng.integers(-3, 4, (M, N)).astype(dtype),
        "bins": BINS,
    }


def reference(
    x: np.ndarray, w: np.ndarray, at: np.ndarray, to: np.ndarray, v: np.ndarray, bins: int
) -> tuple[np.ndarray, ...]:
    x, w, v = (t.astype(np.float64) for t in (x, w, v))
    inside = (to >= 0) & (to < bins)
    sums = np.zeros((bins, v.shape[1]))
    np.add.at(sums, to[inside], v[inside])
    few = (sums.astype(np.int64) + 128) % 256 - 128
    z = v[np.maximum(at, 0) % len(at)] + v
    return x[(at * 3 + 1) % len(x)] @ w, z, sums, few, np.bincount(to[inside], minlength=bins)
