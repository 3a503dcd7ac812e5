"""Row softmax, in one pass over each row that keeps the row on chip."""

import numpy as np

import threadloom as tl


@tl.kernel
def softmax(x: tl.Tensor["M", "N", "T"]) -> tl.Tensor["M", "N", "T"]:
    for m in tl.grid("M"):
        n = tl.axis("N")
        row = tl.cast(x[m, n], tl.f32)
        p = tl.exp(row - tl.max(row, n))
        out[m, n] = p / tl.sum(p, n)


SHAPE = {"M": 4096, "N": 4096}
SHAPE_GPU = {"M": 16384, "N": 4096}  # more than its caches hold
SHAPES = [{"M": 16, "N": 192}, {"M": 16, "N": 229}, {"M": 5, "N": 257}, {"M": 1, "N": 1}]


def inputs(rng: np.random.Generator, M: int, N: int, dtype: type = np.float32) -> dict[str, np.ndarray]:
    return {"x": (rng.standard_normal((M, N)) * 4).astype(dtype)}


def reference(x: np.ndarray) -> np.ndarray:
    p = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    return p / p.sum(axis=1, keepdims=True)


def bytes_moved(M: int, N: int) -> int:
    return 2 * M * N * 4


def main() -> None:
    from _run import run_and_compare

    run_and_compare(softmax, inputs, reference, SHAPES[0])


if __name__ == "__main__":
    main()
