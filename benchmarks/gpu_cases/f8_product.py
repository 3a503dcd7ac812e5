"""8-bit floats: operands along the depth, sums in f32, one scale for the whole product."""

import ml_dtypes
import numpy as np

import threadloom as tl


@tl.kernel
def f8_product(
    a: tl.Tensor["M", "K", tl.f8e4m3], b: tl.Tensor["N", "K", tl.f8e4m3], scale: tl.f32
) -> tl.Tensor["M", "N", tl.bf16]:
    for m, n in tl.grid("M", "N"):
        acc = tl.zeros(m, n, dtype=tl.f32)
        for k in tl.stream("K"):
            acc += tl.dot(a[m, k], b[n, k])
        out[m, n] = acc * scale


SHAPE = {"M": 256, "N": 192, "K": 640}
SHAPES = [{"M": 70, "N": 33, "K": 45}]


def inputs(rng: np.random.Generator, M: int, N: int, K: int, dtype: type = np.float32) -> dict[str, object]:
    made = {n: rng.standard_normal(s).astype(ml_dtypes.float8_e4m3fn) for n, s in (("a", (M, K)), ("b", (N, K)))}
    return {**made, "scale": 0.125}


def reference(a: np.ndarray, b: np.ndarray, scale: float) -> np.ndarray:
    return a.astype(np.float64) @ b.astype(np.float64).T * scale
