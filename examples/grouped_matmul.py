"""Products with a matrix per expert (mixture of experts): rows starts[e] .. starts[e + 1] are multiplied with w[e]."""

import numpy as np

import threadloom as tl


@tl.kernel
def grouped_matmul(
    a: tl.Tensor["M", "K", "T"], w: tl.Tensor["E", "K", "N", "T"], starts: tl.Tensor["E + 1", tl.i32]
) -> tl.Tensor["M", "N", "T"]:
    for e in tl.grid(tl.each("E")):
        for m, n in tl.grid(tl.span("M", starts[e], starts[e + 1]), "N"):
            acc = tl.zeros(m, n)
            for k in tl.stream("K"):
                acc += tl.dot(a[m, k], w[e, k, n])
            out[m, n] = acc


SHAPE = {"E": 8, "M": 2048, "K": 1024, "N": 1024}
SHAPES = [{"E": 5, "M": 23, "K": 20, "N": 17}, {"E": 2, "M": 1, "K": 3, "N": 4}]


def inputs(rng: np.random.Generator, E: int, M: int, K: int, N: int, dtype: type = np.float32) -> dict[str, np.ndarray]:
    """One expert (if there are more than two) gets no row."""
    cuts = np.sort(rng.integers(0, M + 1, E - 1))
    cuts[: E // 2] = cuts[0]
    starts = np.concatenate([[0], cuts, [M]]).astype(np.int32)
    a, w = rng.standard_normal((M, K)).astype(dtype), rng.standard_normal((E, K, N)).astype(dtype)
    return {"a": a, "w": w, "starts": starts}


def reference(a: np.ndarray, w: np.ndarray, starts: np.ndarray) -> np.ndarray:
    a, w = a.astype(np.float64), w.astype(np.float64)
    return np.concatenate([a[starts[e] : starts[e + 1]] @ w[e] for e in range(len(w))])


def flops(E: int, M: int, K: int, N: int) -> int:
    return 2 * M * K * N


def main() -> None:
    from _run import run_and_compare

    run_and_compare(grouped_matmul, inputs, reference, SHAPES[0])


if __name__ == "__main__":
    main()
