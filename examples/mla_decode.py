"""Decoding with multi-head latent attention (DeepSeek's MLA, absorbed form).

All heads share one latent key, which is the value too; a small rotary part is added to the scores. So one tile of `kv`
serves two products.
"""

import math

import numpy as np

import threadloom as tl


@tl.kernel
def mla_decode(
    q: tl.Tensor["B", "H", "D", "T"],
    q_rope: tl.Tensor["B", "H", "R", "T"],
    kv: tl.Tensor["B", "S", "D", "T"],
    k_rope: tl.Tensor["B", "S", "R", "T"],
    scale: tl.f32,
) -> tl.Tensor["B", "H", "D", "T"]:
    for b, h in tl.grid(tl.each("B"), "H"):
        d = tl.axis("D")
        acc = tl.zeros(h, d)
        row_max = tl.full(-math.inf, h)
        row_sum = tl.zeros(h)
        for n in tl.stream("S"):
            latent = kv[b, n, d]
            s = tl.dot(q[b, h, d], latent) + tl.dot(q_rope[b, h, :], k_rope[b, n, :])
            s *= scale * math.log2(math.e)
            new_max = tl.maximum(row_max, tl.max(s, n))
            p = tl.exp2(s - new_max)
            old = tl.exp2(row_max - new_max)
            row_sum = row_sum * old + tl.sum(p, n)
            acc = acc * old + tl.dot(tl.cast(p, kv.dtype), latent)
            row_max = new_max
        out[b, h, d] = acc / row_sum


SHAPE = {"B": 8, "H": 128, "S": 1024, "D": 512, "R": 64}
SHAPES = [{"B": 2, "H": 12, "S": 37, "D": 24, "R": 8}, {"B": 1, "H": 1, "S": 1, "D": 4, "R": 2}]


def inputs(
    rng: np.random.Generator, B: int, H: int, S: int, D: int, R: int, dtype: type = np.float32
) -> dict[str, object]:
    shapes = {"q": (B, H, D), "q_rope": (B, H, R), "kv": (B, S, D), "k_rope": (B, S, R)}
    arrays = {name: rng.standard_normal(shape).astype(dtype) for name, shape in shapes.items()}
    return {**arrays, "scale": (D + R) ** -0.5}


def reference(q: np.ndarray, q_rope: np.ndarray, kv: np.ndarray, k_rope: np.ndarray, scale: float) -> np.ndarray:
    q, q_rope, kv, k_rope = (a.astype(np.float64) for a in (q, q_rope, kv, k_rope))
    s = (np.einsum("bhd,bnd->bhn", q, kv) + np.einsum("bhr,bnr->bhn", q_rope, k_rope)) * scale
    p = np.exp(s - s.max(axis=-1, keepdims=True))
    return np.einsum("bhn,bnd->bhd", p / p.sum(axis=-1, keepdims=True), kv)


def flops(B: int, H: int, S: int, D: int, R: int) -> int:
    return 2 * B * H * S * (2 * D + R)


def main() -> None:
    from _run import run_and_compare

    run_and_compare(mla_decode, inputs, reference, SHAPES[0])


if __name__ == "__main__":
    main()
