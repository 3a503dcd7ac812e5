"""Small tile kernels of the kinds that schedulers meet; the annotations are read from their text."""

from __future__ import annotations

import threadloom as tl


@tl.kernel
def matmul(a: tl.Tensor["M", "K", "T"], b: tl.Tensor["K", "N", "T"]) -> tl.Tensor["M", "N", "T"]:
    for m, n in tl.grid("M", "N"):
        acc = tl.zeros(m, n, dtype=tl.f32)
        for k in tl.stream("K"):
            acc += tl.dot(a[m, k], b[k, n])
        out[m, n] = acc


@tl.kernel
def attention(
    q: tl.Tensor["B", "H", "S", "D", "T"],
    k: tl.Tensor["B", "H", "L", "D", "T"],
    v: tl.Tensor["B", "H", "L", "D", "T"],
    causal: tl.Const[bool] = False,
) -> tl.Tensor["B", "H", "S", "D", "T"]:
    for b, h, m in tl.grid(tl.each("B"), tl.each("H"), "S"):
        d, e = tl.axis("D"), tl.axis("D")
        top = tl.full(float("-inf"), m)
        total = tl.zeros(m)
        acc = tl.zeros(m, e)
        queries = q[b, h, m, d]
        for n in tl.stream(tl.span("L", 0, m.stop) if causal else "L"):
            s = tl.dot(queries, k[b, h, n, d]) * 0.125
            if causal:
                s = tl.where(tl.index(n) <= tl.index(m), s, float("-inf"))
            above = tl.maximum(top, tl.max(s, n))
            scale = tl.exp2(top - above)
            p = tl.exp2(s - above)
            total = total * scale + tl.sum(p, n)
            acc = acc * scale
            acc += tl.dot(tl.cast(p, q.dtype), v[b, h, n, e])
            top = above
        out[b, h, m, e] = acc / total


@tl.kernel
def softmax(x: tl.Tensor["M", "N", "T"]) -> tl.Tensor["M", "N", "T"]:
    for m in tl.grid("M"):
        n = tl.axis("N")
        row = tl.cast(x[m, n], tl.f32)
        e = tl.exp(row - tl.max(row, n))
        out[m, n] = e / tl.sum(e, n)


@tl.kernel
def chunk_scan(
    cb: tl.Tensor["M", "K", "T"],
    decay: tl.Tensor["K", "T"],
    step: tl.Tensor["K", "T"],
    x: tl.Tensor["K", "N", "T"],
) -> tl.Tensor["M", "N", "T"]:
    for m, n in tl.grid("M", "N"):
        acc = tl.zeros(m, n)
        for k in tl.stream("K"):
            factor = tl.exp2(tl.cast(decay[k], tl.f32)) * tl.cast(step[k], tl.f32)
            weights = tl.cast(tl.cast(cb[m, k], tl.f32) * factor, cb.dtype)
            acc += tl.dot(weights, x[k, n])
        out[m, n] = acc


@tl.kernel
def weighted_sums(x: tl.Tensor["M", "N", tl.f32], weight: tl.Tensor["M", tl.f32]) -> tl.Tensor["M", tl.f32]:
    for m in tl.grid("M"):
        total = tl.zeros(m)
        for n in tl.stream("N"):
            total += tl.sum(x[m, n], n)
        out[m] = total * weight[m]
