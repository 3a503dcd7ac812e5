"""Retention (RetNet), parallel form: like causal attention, with a decay per head in place of the softmax.

out = s v / max(sum |s|, 1)    where s = tril(q k^T * gamma^(m - n))
"""

import numpy as np

import threadloom as tl


@tl.kernel
def retention(
    q: tl.Tensor["B", "H", "S", "D", "T"],
    k: tl.Tensor["B", "H", "S", "D", "T"],
    v: tl.Tensor["B", "H", "S", "E", "T"],
    log_gamma: tl.Tensor["H", tl.f32],
    scale: tl.f32,
) -> tl.Tensor["B", "H", "S", "E", "T"]:
    for b, h, m, e in tl.grid(tl.each("B"), tl.each("H"), "S", "E"):
        acc = tl.zeros(m, e)
        norm = tl.zeros(m)
        for n in tl.stream(tl.span("S", 0, m.stop)):
            decay = tl.where(n <= m, tl.exp2((m - n) * log_gamma[h]), 0.0)
            s = tl.dot(q[b, h, m, :], k[b, h, n, :]) * scale * decay
            norm += tl.sum(tl.abs(s), n)
            acc += tl.dot(tl.cast(s, v.dtype), v[b, h, n, e])
        out[b, h, m, e] = acc / tl.maximum(norm, 1.0)


SHAPE = {"B": 1, "H": 8, "S": 1024, "D": 128, "E": 128}
SHAPES = [{"B": 2, "H": 3, "S": 25, "D": 8, "E": 16}, {"B": 1, "H": 1, "S": 1, "D": 3, "E": 5}]


def inputs(
    rng: np.random.Generator, B: int, H: int, S: int, D: int, E: int, dtype: type = np.float32
) -> dict[str, object]:
    q, k, v = (rng.standard_normal((B, H, S, n)).astype(dtype) for n in (D, D, E))
    log_gamma = np.log2(1 - 2.0 ** (-5 - np.arange(H))).astype(np.float32)
    return {"q": q, "k": k, "v": v, "log_gamma": log_gamma, "scale": D**-0.5}


def reference(q: np.ndarray, k: np.ndarray, v: np.ndarray, log_gamma: np.ndarray, scale: float) -> np.ndarray:
    q, k, v, log_gamma = (a.astype(np.float64) for a in (q, k, v, log_gamma))
    m, n = np.indices((q.shape[2], q.shape[2]))
    decay = np.where(n <= m, np.exp2(np.maximum(m - n, 0) * log_gamma[:, None, None]), 0)
    s = q @ k.swapaxes(-1, -2) * scale * decay
    return s @ v / np.maximum(np.abs(s).sum(axis=-1, keepdims=True), 1)


def flops(B: int, H: int, S: int, D: int, E: int) -> int:
    return B * H * S * S * (D + E)


def main() -> None:
    from _run import run_and_compare

    run_and_compare(retention, inputs, reference, SHAPES[0])


if __name__ == "__main__":
    main()
