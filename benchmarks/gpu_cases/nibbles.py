"""Results of four bits, two to a byte: of an odd number a row, the last byte is half a byte."""

import numpy as np

import threadloom as tl


@tl.kernel
def nibbles(x: tl.Tensor["M", "N", "T"]) -> tl.Tensor["M", "N", tl.u4]:
    for m, n in tl.grid("M", "N"):
        out[m, n] = tl.cast(tl.abs(tl.cast(x[m, n], tl.f32)) * 8.0, tl.u4)


SHAPE = {"M": 1000, "N": 4096}
SHAPES = [{"M": 33, "N": 200}, {"M": 5, "N": 37}, {"M": 3, "N": 1}]


def inputs(rng: np.random.Generator, M: int, N: int, dtype: type = np.float32) -> dict[str, np.ndarray]:
    return {"x": (rng.integers(-20, 21, (M, N)) / 8).astype(dtype)}


def reference(x: np.ndarray) -> np.ndarray:
    """The values themselves, one an element, as references of four bits are compared."""
    return np.minimum(np.abs(x.astype(np.float64)) * 8, 15).astype(np.uint8)
