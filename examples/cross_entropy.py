"""Cross entropy of logits with labels, as in training: the loss of every row, and its gradient.

Two passes over a row that may be longer than what fits on chip: one keeps the largest logit and the sum of
exponentials, the other writes softmax(x) less 1 at the label. A label outside the row adds nothing to its loss.
"""

import math

import numpy as np

import threadloom as tl


@tl.kernel
def cross_entropy(x: tl.Tensor["M", "V", "T"], label: tl.Tensor["M", tl.i32]) -> tl.outputs(
    loss=tl.Tensor["M", tl.f32], grad=tl.Tensor["M", "V", "T"]
):
    for m in tl.grid("M"):
        top, total = tl.full(-math.inf, m), tl.zeros(m)
        for v in tl.stream("V"):
            logits = tl.cast(x[m, v], tl.f32)
            new_top = tl.maximum(top, tl.max(logits, v))
            total = total * tl.exp(top - new_top) + tl.sum(tl.exp(logits - new_top), v)
            top = new_top
        log_sum = top + tl.log(total)
        loss[m] = log_sum - x[m, label[m]]
        for v in tl.stream("V"):
            grad[m, v] = tl.exp(x[m, v] - log_sum) - tl.where(v == label[m], 1.0, 0.0)


SHAPE = {"M": 512, "V": 32000}
SHAPE_GPU = {"M": 4096, "V": 32000}  # more than its caches hold
SHAPES = [{"M": 5, "V": 1000}, {"M": 33, "V": 37}, {"M": 1, "V": 1}]


def inputs(rng: np.random.Generator, M: int, V: int, dtype: type = np.float32) -> dict[str, np.ndarray]:
    x = (rng.standard_normal((M, V), dtype=np.float32) * 3).astype(dtype)
    return {"x": x, "label": rng.integers(0, V, M).astype(np.int32)}


def reference(x: np.ndarray, label: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    x, rows = x.astype(np.float64), np.arange(len(x))
    top = x.max(axis=1)
    log_sum = top + np.log(np.exp(x - top[:, None]).sum(axis=1))
    grad = np.exp(x - log_sum[:, None])
    grad[rows, label] -= 1
    return log_sum - x[rows, label], grad


def bytes_moved(M: int, V: int) -> int:
    return 3 * M * V * 4


def main() -> None:
    from _run import run_and_compare

    run_and_compare(cross_entropy, inputs, reference, SHAPES[0])


if __name__ == "__main__":
    main()
