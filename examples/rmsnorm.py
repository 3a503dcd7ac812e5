"""Root-mean-square normalisation of rows: x / sqrt(mean(x^2) + eps) * weight."""

import numpy as np

import threadloom as tl


@tl.kernel
def rmsnorm(x: tl.Tensor["M", "N", "T"], weight: tl.Tensor["N", "T"], eps: tl.f32 = 1e-6) -> tl.Tensor["M", "N", "T"]:
    for m in tl.grid("M"):
        n = tl.axis("N")
        row = tl.cast(x[m, n], tl.f32)
        scale = tl.rsqrt(tl.sum(row * row, n) / tl.dim("N") + eps)
        out[m, n] = row * scale * weight[n]


SHAPE = {"M": 4096, "N": 4096}
SHAPE_GPU = {"M": 16384, "N": 4096}  # more than its caches hold
SHAPES = [{"M": 16, "N": 229}, {"M": 3, "N": 1}, {"M": 7, "N": 64}]


def inputs(rng: np.random.Generator, M: int, N: int, dtype: type = np.float32) -> dict[str, np.ndarray]:
    return {"x": rng.standard_normal((M, N)).astype(dtype), "weight": rng.standard_normal(N).astype(dtype)}


def reference(x: np.ndarray, weight: np.ndarray, eps: float = 1e-6) -> np.ndarray:
    x, weight = x.astype(np.float64), weight.astype(np.float64)
    return x / np.sqrt((x * x).mean(axis=1, keepdims=True) + eps) * weight


def bytes_moved(M: int, N: int) -> int:
    return (2 * M * N + N) * 4


def main() -> None:
    from _run import run_and_compare

    run_and_compare(rmsnorm, inputs, reference, SHAPES[0])


if __name__ == "__main__":
    main()
