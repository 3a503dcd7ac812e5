"""Attention without the matrix of scores in memory (FlashAttention): softmax(q k^T * scale) v.

Grouped-query: each of HKV key heads serves H / HKV query heads. Causal attention is aligned bottom-right: the last
query sees every key. A row that sees no key gives 0.
"""

import math

import numpy as np

import threadloom as tl


@tl.kernel
def flash_attention(
    q: tl.Tensor["B", "H", "SQ", "D", "T"],
    k: tl.Tensor["B", "HKV", "SK", "D", "T"],
    v: tl.Tensor["B", "HKV", "SK", "D", "T"],
    scale: tl.f32,
    causal: tl.Const[bool] = False,
) -> tl.Tensor["B", "H", "SQ", "D", "T"]:
    for b, h, m in tl.grid(tl.each("B"), tl.each("H"), "SQ"):
        d = tl.axis("D")
        group = h // (tl.dim("H") // tl.dim("HKV"))
        shift = tl.dim("SK") - tl.dim("SQ")
        last = m.stop + shift if causal else tl.dim("SK")
        c = scale * math.log2(math.e)  # powers of two are cheaper; at least 0, so that maxima may be scaled
        acc = tl.zeros(m, d)
        row_max = tl.full(-math.inf, m)
        row_sum = tl.zeros(m)
        for n in tl.stream(tl.span("SK", 0, last)):
            s = tl.dot(q[b, h, m, :], k[b, group, n, :])
            if causal:
                s = tl.where(n <= m + shift, s, -math.inf)
            new_max = tl.maximum(row_max, tl.max(s, n) * c)
            safe_max = tl.where(new_max == -math.inf, 0.0, new_max)
            p = tl.exp2(s * c - safe_max)
            old = tl.exp2(row_max - safe_max)
            row_sum = row_sum * old + tl.sum(p, n)
            acc = acc * old + tl.dot(tl.cast(p, v.dtype), v[b, group, n, d])
            row_max = new_max
        out[b, h, m, d] = tl.where(row_sum == 0, 0.0, acc / row_sum)


SHAPE = {"B": 1, "H": 8, "HKV": 8, "SQ": 1024, "SK": 1024, "D": 64}
SHAPES = [
    {"B": 2, "H": 8, "HKV": 2, "SQ": 25, "SK": 25, "D": 80},
    {"B": 1, "H": 2, "HKV": 1, "SQ": 17, "SK": 40, "D": 16},
    {"B": 1, "H": 2, "HKV": 2, "SQ": 40, "SK": 17, "D": 8},
]


def inputs(
    rng: np.random.Generator, B: int, H: int, HKV: int, SQ: int, SK: int, D: int, dtype: type = np.float32
) -> dict[str, object]:
    q, k, v = (rng.standard_normal(s).astype(dtype) for s in ((B, H, SQ, D), (B, HKV, SK, D), (B, HKV, SK, D)))
    return {"q": q, "k": k, "v": v, "scale": D**-0.5}


def reference(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, causal: bool = False) -> np.ndarray:
    group = q.shape[1] // k.shape[1]
    q, k, v = (x.astype(np.float64) for x in (q, np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)))
    s = q @ k.swapaxes(-1, -2) * scale
    if causal:
        rows, columns = np.arange(s.shape[-2])[:, None], np.arange(s.shape[-1])
        s = np.where(columns <= rows + s.shape[-1] - s.shape[-2], s, -np.inf)
    top = s.max(axis=-1, keepdims=True, initial=-np.inf)
    p = np.exp(s - np.where(np.isinf(top), 0, top))
    total = p.sum(axis=-1, keepdims=True)
    return p @ v / np.where(total == 0, 1, total)


def flops(B: int, H: int, HKV: int, SQ: int, SK: int, D: int) -> int:
    return 4 * B * H * SQ * SK * D


def main() -> None:
    from _run import run_and_compare

    run_and_compare(flash_attention, inputs, reference, SHAPES[0])


if __name__ == "__main__":
    main()
