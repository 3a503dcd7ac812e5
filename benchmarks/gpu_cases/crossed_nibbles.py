"""Results of four bits whose neighbours different threads have: across the rows, and at places that indices name."""

import numpy as np

import threadloom as tl


@tl.kernel
def crossed_nibbles(x: tl.Tensor["M", "N", "T"], index: tl.Tensor["N", tl.i32]) -> tl.outputs(
    y=tl.Tensor["N", "M", tl.u4], z=tl.Tensor["M", "N", tl.u4]
):
    for m in tl.grid("M"):
        n = tl.axis("N")
        made = tl.cast(tl.abs(tl.cast(x[m, n], tl.f32)) * 8.0, tl.u4)
        y[n, m] = made
        z[m, index[n]] = made


SHAPE = {"M": 1000, "N": 512}
SHAPES = [{"M": 33, "N": 72}, {"M": 5, "N": 37}, {"M": 3, "N": 1}]


def inputs(rng: np.random.Generator, M: int, N: int, dtype: type = np.float32) -> dict[str, np.ndarray]:
    return {"x": (rng.integers(-20, 21, (M, N)) / 8).astype(dtype), "index": rng.permutation(N).astype(np.int32)}


def reference(x: np.ndarray, index: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The values themselves, one an element, as references of four bits are compared."""
    made = np.minimum(np.abs(x.astype(np.float64)) * 8, 15).astype(np.uint8)
    moved = np.zeros_like(made)
    moved[:, index] = made
    return np.ascontiguousarray(made.T), moved
