"""Which of several experts each row goes to, with which weight, and how many rows each gets."""

import numpy as np

import threadloom as tl


@tl.kernel
def routing(x: tl.Tensor["M", "K", "T"], w: tl.Tensor["E", "K", "T"]) -> tl.outputs(
    expert=tl.Tensor["M", tl.i64], weight=tl.Tensor["M", tl.f32], rows=tl.Tensor["E", tl.i32]
):
    for m in tl.grid("M"):
        e = tl.axis("E")
        logits = tl.zeros(m, e)
        for k in tl.stream("K"):
            logits += tl.dot(x[m, k], w[e, k])
        best = tl.argmax(logits, e)
        expert[m] = best
        weight[m] = 1.0 / tl.sum(tl.exp(logits - tl.max(logits, e)), e)
        tl.atomic_add(rows[best], 1)


SHAPE = {"M": 4000, "K": 512, "E": 64}
SHAPES = [{"M": 75, "K": 40, "E": 8}, {"M": 3, "K": 5, "E": 1}]


def inputs(rng: np.random.Generator, M: int, K: int, E: int, dtype: type = np.float32) -> dict[str, np.ndarray]:
    """Small integers: sums are exact, so everyone takes the same expert, the first of the best."""
    return {n: rng.integers(-2, 3, shape).astype(dtype) for n, shape in (("x", (M, K)), ("w", (E, K)))}


def reference(x: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, ...]:
    logits = x.astype(np.float64) @ w.astype(np.float64).T
    best = logits.argmax(1)
    weight = 1 / np.exp(logits - logits.max(1, keepdims=True)).sum(1)
    return best, weight, np.bincount(best, minlength=len(w))
