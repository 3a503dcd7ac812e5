"""Product with a block-sparse matrix: blocks of `a` whose mask is false count as 0 and are not even loaded."""

import numpy as np

import threadloom as tl


@tl.kernel
def block_sparse_matmul(
    a: tl.Tensor["M", "K", "T"],
    b: tl.Tensor["K", "N", "T"],
    mask: tl.Tensor["(M + block - 1) // block", "(K + block - 1) // block", tl.bool_],
    block: tl.Const[int] = 32,
) -> tl.Tensor["M", "N", "T"]:
    for i, n in tl.grid(tl.each("(M + block - 1) // block"), "N"):
        r, k = tl.axis("block"), tl.axis("block")
        acc = tl.zeros(r, n)
        for j in tl.stream(tl.each("(K + block - 1) // block")):
            if mask[i, j]:
                acc += tl.dot(a[i * block + r, j * block + k], b[j * block + k, n])
        out[i * block + r, n] = acc


SHAPE = {"M": 2048, "K": 2048, "N": 2048}
SHAPES = [{"M": 70, "K": 100, "N": 33}, {"M": 5, "K": 3, "N": 2}]


def inputs(rng: np.random.Generator, M: int, K: int, N: int, dtype: type = np.float32) -> dict[str, np.ndarray]:
    """About a third of the blocks are used; the first row of blocks is all empty."""
    mask = rng.random((-(-M // 32), -(-K // 32))) < 0.35
    mask[0] = False
    return {
        "a": rng.standard_normal((M, K)).astype(dtype),
        "b": rng.standard_normal((K, N)).astype(dtype),
        "mask": mask,
    }


def reference(a: np.ndarray, b: np.ndarray, mask: np.ndarray, block: int = 32) -> np.ndarray:
    used = np.kron(mask, np.ones((block, block)))[: a.shape[0], : a.shape[1]]
    return (a.astype(np.float64) * used) @ b.astype(np.float64)


def flops(M: int, K: int, N: int) -> int:
    return 2 * M * K * N


def main() -> None:
    from _run import run_and_compare

    run_and_compare(block_sparse_matmul, inputs, reference, SHAPES[0])


if __name__ == "__main__":
    main()
