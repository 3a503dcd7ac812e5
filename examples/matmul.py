"""Matrix product with a bias and an activation: out = act(a @ b + bias)."""

import numpy as np

import threadloom as tl


@tl.kernel
def matmul(
    a: tl.Tensor["M", "K", "T"],
    b: tl.Tensor["K", "N", "T"],
    bias: tl.Tensor["N", tl.f32],
    act: tl.Function = tl.relu,
) -> tl.Tensor["M", "N", "T"]:
    for m, n in tl.grid("M", "N"):
        acc = tl.zeros(m, n, dtype=tl.f32)
        for k in tl.stream("K"):
            acc += tl.dot(a[m, k], b[k, n])
        out[m, n] = act(acc + bias[n])


SHAPE = {"M": 1024, "K": 1024, "N": 1024}
SHAPE_GPU = {"M": 4096, "K": 4096, "N": 4096}
SHAPES = [{"M": 64, "K": 24, "N": 64}, {"M": 1, "K": 100, "N": 229}, {"M": 33, "K": 8, "N": 65}]


def inputs(rng: np.random.Generator, M: int, K: int, N: int, dtype: type = np.float32) -> dict[str, np.ndarray]:
    a, b = rng.standard_normal((M, K)), rng.standard_normal((K, N))
    return {"a": a.astype(dtype), "b": b.astype(dtype), "bias": rng.standard_normal(N).astype(np.float32)}


def reference(a: np.ndarray, b: np.ndarray, bias: np.ndarray) -> np.ndarray:
    return np.maximum(a.astype(np.float64) @ b.astype(np.float64) + bias, 0)


def flops(M: int, K: int, N: int) -> int:
    return 2 * M * N * K


def main() -> None:
    from _run import run_and_compare

    run_and_compare(matmul, inputs, reference, SHAPES[0])


if __name__ == "__main__":
    main()
