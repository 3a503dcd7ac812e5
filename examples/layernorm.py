"""Layer normalisation of rows: (x - mean) / sqrt(variance + eps) * weight + bias."""

import numpy as np

import threadloom as tl


@tl.kernel
def layernorm(
    x: tl.Tensor["M", "N", "T"],
    weight: tl.Tensor["N", "T"],
    bias: tl.Tensor["N", "T"],
    eps: tl.f32 = 1e-5,
) -> tl.Tensor["M", "N", "T"]:
    for m in tl.grid("M"):
        n = tl.axis("N")
        row = tl.cast(x[m, n], tl.f32)
        centred = row - tl.sum(row, n) / tl.dim("N")
        variance = tl.sum(centred * centred, n) / tl.dim("N")
        out[m, n] = centred * tl.rsqrt(variance + eps) * weight[n] + bias[n]


SHAPE = {"M": 4096, "N": 4096}
SHAPE_GPU = {"M": 16384, "N": 4096}  # more than its caches hold
SHAPES = [{"M": 16, "N": 257}, {"M": 3, "N": 2}, {"M": 7, "N": 64}]


def inputs(rng: np.random.Generator, M: int, N: int, dtype: type = np.float32) -> dict[str, np.ndarray]:
    x, weight, bias = (rng.standard_normal(s).astype(dtype) for s in ((M, N), N, N))
    return {"x": x, "weight": weight, "bias": bias}


def reference(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: float = 1e-5) -> np.ndarray:
    x, weight, bias = (a.astype(np.float64) for a in (x, weight, bias))
    centred = x - x.mean(axis=1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + eps) * weight + bias


def bytes_moved(M: int, N: int) -> int:
    return (2 * M * N + 2 * N) * 4


def main() -> None:
    from _run import run_and_compare

    run_and_compare(layernorm, inputs, reference, SHAPES[0])


if __name__ == "__main__":
    main()
