"""Product with 4-bit weights: out = a @ ((w - 8) * scales)^T, one scale for each `group` weights of a row.

`w` holds two weights to a byte along K, the low nibble first. K need not be a multiple of the group.
"""

import numpy as np

import threadloom as tl


@tl.kernel
def w4_matmul(
    a: tl.Tensor["M", "K", "T"],
    w: tl.Tensor["N", "K", tl.u4],
    scales: tl.Tensor["N", "(K + group - 1) // group", "T"],
    group: tl.Const[int] = 128,
) -> tl.Tensor["M", "N", "T"]:
    for m, n in tl.grid("M", "N"):
        j = tl.axis("group")
        acc = tl.zeros(m, n)
        for g in tl.stream(tl.each("(K + group - 1) // group")):
            weights = tl.cast((w[n, g * group + j] - 8) * scales[n, g], a.dtype)
            acc += tl.dot(a[m, g * group + j], weights)
        out[m, n] = acc


SHAPE = {"M": 16, "N": 4096, "K": 4096}
SHAPES = [{"M": 5, "N": 17, "K": 256}, {"M": 1, "N": 9, "K": 130}, {"M": 3, "N": 2, "K": 7}]


def inputs(rng: np.random.Generator, M: int, N: int, K: int, dtype: type = np.float32) -> dict[str, np.ndarray]:
    w = rng.integers(0, 256, (N, (K + 1) // 2), dtype=np.uint8)
    scales = rng.uniform(0.5, 1.5, (N, -(-K // 128))).astype(dtype)
    return {"a": rng.standard_normal((M, K)).astype(dtype), "w": w, "scales": scales}


def reference(a: np.ndarray, w: np.ndarray, scales: np.ndarray, group: int = 128) -> np.ndarray:
    columns = a.shape[1]
    weights = np.stack([w & 15, w >> 4], axis=-1).reshape(len(w), -1)[:, :columns].astype(np.float64) - 8
    return a.astype(np.float64) @ (weights * np.repeat(scales, group, axis=1)[:, :columns]).T


def flops(M: int, N: int, K: int) -> int:
    return 2 * M * N * K


def main() -> None:
    from _run import run_and_compare

    run_and_compare(w4_matmul, inputs, reference, SHAPES[0])


if __name__ == "__main__":
    main()
