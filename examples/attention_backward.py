"""The gradients of attention, softmax(q k^T * scale) v, without the matrix of scores in memory.

`attention_backward` goes over blocks of keys and streams queries, for dk and dv; `query_gradient` goes over blocks of
queries and streams keys, for dq: nothing is added atomically, so results are the same in every run. Both compute the
probabilities anew from `lse`, the logarithm of every row's sum of exponentials, and take `delta`, the sums of do * o.
"""

import numpy as np

import threadloom as tl


def score_gradient(q, k, v, do, lse, delta, b, h, m, n, scale, causal):
    """(probabilities, gradients of the scores) of a block of queries `m` and keys `n`."""
    shift = tl.dim("SK") - tl.dim("SQ")
    p = tl.exp(tl.dot(q[b, h, m, :], k[b, h, n, :]) * scale - lse[b, h, m])
    if causal:
        p = tl.where(n <= m + shift, p, 0.0)
    return p, p * (tl.dot(do[b, h, m, :], v[b, h, n, :]) - delta[b, h, m]) * scale


@tl.kernel
def attention_backward(
    q: tl.Tensor["B", "H", "SQ", "D", "T"],
    k: tl.Tensor["B", "H", "SK", "D", "T"],
    v: tl.Tensor["B", "H", "SK", "D", "T"],
    do: tl.Tensor["B", "H", "SQ", "D", "T"],
    lse: tl.Tensor["B", "H", "SQ", tl.f32],
    delta: tl.Tensor["B", "H", "SQ", tl.f32],
    scale: tl.f32,
    causal: tl.Const[bool] = False,
) -> tl.outputs(dk=tl.Tensor["B", "H", "SK", "D", "T"], dv=tl.Tensor["B", "H", "SK", "D", "T"]):
    for b, h, n in tl.grid(tl.each("B"), tl.each("H"), "SK"):
        d = tl.axis("D")
        first = n.start + tl.dim("SQ") - tl.dim("SK") if causal else 0
        dk_sum, dv_sum = tl.zeros(n, d), tl.zeros(n, d)
        for m in tl.stream(tl.span("SQ", tl.maximum(first, 0), tl.dim("SQ"))):
            p, ds = score_gradient(q, k, v, do, lse, delta, b, h, m, n, scale, causal)
            dv_sum += tl.dot(tl.cast(p, v.dtype), do[b, h, m, d])
            dk_sum += tl.dot(tl.cast(ds, q.dtype), q[b, h, m, d])
        dk[b, h, n, d] = dk_sum
        dv[b, h, n, d] = dv_sum


@tl.kernel
def query_gradient(
    q: tl.Tensor["B", "H", "SQ", "D", "T"],
    k: tl.Tensor["B", "H", "SK", "D", "T"],
    v: tl.Tensor["B", "H", "SK", "D", "T"],
    do: tl.Tensor["B", "H", "SQ", "D", "T"],
    lse: tl.Tensor["B", "H", "SQ", tl.f32],
    delta: tl.Tensor["B", "H", "SQ", tl.f32],
    scale: tl.f32,
    causal: tl.Const[bool] = False,
) -> tl.Tensor["B", "H", "SQ", "D", "T"]:
    for b, h, m in tl.grid(tl.each("B"), tl.each("H"), "SQ"):
        d = tl.axis("D")
        last = m.stop + tl.dim("SK") - tl.dim("SQ") if causal else tl.dim("SK")
        dq = tl.zeros(m, d)
        for n in tl.stream(tl.span("SK", 0, last)):
            _, ds = score_gradient(q, k, v, do, lse, delta, b, h, m, n, scale, causal)
            dq += tl.dot(tl.cast(ds, k.dtype), k[b, h, n, d])
        out[b, h, m, d] = dq


SHAPE = {"B": 1, "H": 8, "SQ": 1024, "SK": 1024, "D": 64}
SHAPES = [{"B": 2, "H": 3, "SQ": 25, "SK": 40, "D": 16}, {"B": 1, "H": 2, "SQ": 40, "SK": 40, "D": 80}]


def inputs(
    rng: np.random.Generator, B: int, H: int, SQ: int, SK: int, D: int, dtype: type = np.float32
) -> dict[str, object]:
    shapes = (B, H, SQ, D), (B, H, SK, D), (B, H, SK, D), (B, H, SQ, D)
    q, k, v, do = (rng.standard_normal(shape).astype(dtype) for shape in shapes)
    o, lse = _forward(q, k, v, D**-0.5, False)
    delta = (o * do.astype(np.float64)).sum(axis=-1).astype(np.float32)
    return {"q": q, "k": k, "v": v, "do": do, "lse": lse.astype(np.float32), "delta": delta, "scale": D**-0.5}


def _scores(q: np.ndarray, k: np.ndarray, scale: float, causal: bool) -> np.ndarray:
    s = q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2) * scale
    rows, columns = np.arange(s.shape[-2])[:, None], np.arange(s.shape[-1])
    return np.where(columns <= rows + s.shape[-1] - s.shape[-2], s, -np.inf) if causal else s


def _forward(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, causal: bool) -> tuple[np.ndarray, np.ndarray]:
    s = _scores(q, k, scale, causal)
    top = s.max(axis=-1, keepdims=True)
    lse = top[..., 0] + np.log(np.exp(s - top).sum(axis=-1))
    return np.exp(s - lse[..., None]) @ v.astype(np.float64), lse


def gradients(q, k, v, do, lse, delta, scale: float, causal: bool = False) -> tuple[np.ndarray, ...]:
    """(dq, dk, dv)"""
    p = np.exp(_scores(q, k, scale, causal) - lse[..., None].astype(np.float64))
    q, k, v, do = (x.astype(np.float64) for x in (q, k, v, do))
    ds = p * (do @ v.swapaxes(-1, -2) - delta[..., None]) * scale
    return ds @ k, ds.swapaxes(-1, -2) @ q, p.swapaxes(-1, -2) @ do


def reference(q, k, v, do, lse, delta, scale: float, causal: bool = False) -> tuple[np.ndarray, np.ndarray]:
    return gradients(q, k, v, do, lse, delta, scale, causal)[1:]


def flops(B: int, H: int, SQ: int, SK: int, D: int) -> int:
    return 8 * B * H * SQ * SK * D


def main() -> None:
    from _run import run_and_compare

    run_and_compare(attention_backward, inputs, reference, SHAPES[0])


if __name__ == "__main__":
    main()
