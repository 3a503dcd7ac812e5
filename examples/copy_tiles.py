"""The smallest kernel: copy a matrix, tile by tile."""

import numpy as np

import threadloom as tl


@tl.kernel
def copy_tiles(x: tl.Tensor["M", "N", "T"]) -> tl.Tensor["M", "N", "T"]:
    for m, n in tl.grid("M", "N"):
        out[m, n] = x[m, n]


SHAPE = {"M": 4096, "N": 4096}
SHAPE_GPU = {"M": 16384, "N": 4096}  # more than its caches hold
SHAPES = [{"M": 33, "N": 64}, {"M": 1, "N": 7}, {"M": 0, "N": 5}]


def inputs(rng: np.random.Generator, M: int, N: int, dtype: type = np.float32) -> dict[str, np.ndarray]:
    return {"x": rng.standard_normal((M, N)).astype(dtype)}


def reference(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64)


def bytes_moved(M: int, N: int) -> int:
    return 2 * M * N * 4


def main() -> None:
    from _run import run_and_compare

    run_and_compare(copy_tiles, inputs, reference, SHAPES[0])


if __name__ == "__main__":
    main()
