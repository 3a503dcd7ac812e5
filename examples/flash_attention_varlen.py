"""Attention over packed sequences of different lengths, causal (aligned bottom-right) or not.

Sequence b has its queries at rows starts_q[b] .. starts_q[b + 1] and its keys at starts_k[b] .. starts_k[b + 1]. An
empty sequence contributes nothing; a query that sees no key gives 0.
"""

import math

import numpy as np

import threadloom as tl


@tl.kernel
def flash_attention_varlen(
    q: tl.Tensor["TQ", "H", "D", "T"],
    k: tl.Tensor["TK", "HKV", "D", "T"],
    v: tl.Tensor["TK", "HKV", "D", "T"],
    starts_q: tl.Tensor["B + 1", tl.i32],
    starts_k: tl.Tensor["B + 1", tl.i32],
    scale: tl.f32,
    causal: tl.Const[bool] = True,
) -> tl.Tensor["TQ", "H", "D", "T"]:
    for b, h in tl.grid(tl.each("B"), tl.each("H")):
        for m in tl.grid(tl.span("TQ", starts_q[b], starts_q[b + 1])):
            d = tl.axis("D")
            group = h // (tl.dim("H") // tl.dim("HKV"))
            shift = starts_k[b + 1] - starts_q[b + 1]  # key n is seen by query m where n <= m + shift
            last = tl.minimum(m.stop + shift, starts_k[b + 1]) if causal else starts_k[b + 1]
            c = scale * math.log2(math.e)  # powers of two are cheaper; at least 0, so that maxima may be scaled
            acc = tl.zeros(m, d)
            row_max = tl.full(-math.inf, m)
            row_sum = tl.zeros(m)
            for n in tl.stream(tl.span("TK", starts_k[b], last)):
                s = tl.dot(q[m, h, :], k[n, group, :])
                if causal:
                    s = tl.where(n <= m + shift, s, -math.inf)
                new_max = tl.maximum(row_max, tl.max(s, n) * c)
                safe_max = tl.where(new_max == -math.inf, 0.0, new_max)
                p = tl.exp2(s * c - safe_max)
                old = tl.exp2(row_max - safe_max)
                row_sum = row_sum * old + tl.sum(p, n)
                acc = acc * old + tl.dot(tl.cast(p, v.dtype), v[n, group, d])
                row_max = new_max
            out[m, h, d] = tl.where(row_sum == 0, 0.0, acc / row_sum)


SHAPE = {"B": 8, "H": 8, "HKV": 8, "L": 512, "D": 64}
SHAPES = [{"B": 4, "H": 4, "HKV": 2, "L": 20, "D": 16}, {"B": 3, "H": 2, "HKV": 2, "L": 9, "D": 8}]


def inputs(
    rng: np.random.Generator, B: int, H: int, HKV: int, L: int, D: int, dtype: type = np.float32
) -> dict[str, object]:
    """L is the longest sequence; the first is empty and the last has length 1."""
    lengths_q, lengths_k = rng.integers(1, L + 1, B), rng.integers(1, L + 1, B)
    lengths_q[0] = lengths_k[0] = 0
    lengths_q[-1] = lengths_k[-1] = 1
    starts_q, starts_k = (np.concatenate([[0], np.cumsum(x)]).astype(np.int32) for x in (lengths_q, lengths_k))
    q = rng.standard_normal((starts_q[-1], H, D)).astype(dtype)
    k, v = (rng.standard_normal((starts_k[-1], HKV, D)).astype(dtype) for _ in range(2))
    return {"q": q, "k": k, "v": v, "starts_q": starts_q, "starts_k": starts_k, "scale": D**-0.5}


def reference(
    q: np.ndarray,
    k: np.ndarray,
    v: np.ndarray,
    starts_q: np.ndarray,
    starts_k: np.ndarray,
    scale: float,
    causal: bool = True,
) -> np.ndarray:
    group = q.shape[1] // k.shape[1]
    q, k, v = (x.astype(np.float64) for x in (q, np.repeat(k, group, axis=1), np.repeat(v, group, axis=1)))
    out = np.zeros_like(q)
    for b in range(len(starts_q) - 1):
        rows, columns = slice(*starts_q[b : b + 2]), slice(*starts_k[b : b + 2])
        s = np.einsum("mhd,nhd->hmn", q[rows], k[columns]) * scale
        if causal:
            i, j = np.indices(s.shape[1:])
            s = np.where(j <= i + s.shape[2] - s.shape[1], s, -np.inf)
        top = s.max(axis=-1, keepdims=True, initial=-np.inf)
        p = np.exp(s - np.where(np.isinf(top), 0, top))
        total = p.sum(axis=-1, keepdims=True)
        out[rows] = np.einsum("hmn,nhd->mhd", p / np.where(total == 0, 1, total), v[columns])
    return out


def main() -> None:
    from _run import run_and_compare

    run_and_compare(flash_attention_varlen, inputs, reference, SHAPES[0])


if __name__ == "__main__":
    main()
