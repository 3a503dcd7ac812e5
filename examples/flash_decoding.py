"""Attention of one query per head over a long cache (FlashDecoding): the keys are split over the machine, each part
gives its own softmax and the logarithm of its sum; `combine` weighs the parts. `attend` does both.

The G query heads that share a key head are rows of one tile.
"""

import math

import numpy as np

import threadloom as tl


@tl.kernel
def flash_decoding(
    q: tl.Tensor["B", "HKV", "G", "D", "T"],
    k: tl.Tensor["B", "HKV", "S", "D", "T"],
    v: tl.Tensor["B", "HKV", "S", "D", "T"],
    scale: tl.f32,
    splits: tl.Const[int] = 4,
) -> tl.outputs(
    part=tl.Tensor["B", "HKV", "splits", "G", "D", tl.f32],
    log_sum=tl.Tensor["B", "HKV", "splits", "G", tl.f32],
):
    for b, h, split in tl.grid(tl.each("B"), tl.each("HKV"), tl.each("splits")):
        g, d = tl.axis("G"), tl.axis("D")
        size = (tl.dim("S") + splits - 1) // splits
        acc = tl.zeros(g, d)
        row_max = tl.full(-math.inf, g)
        row_sum = tl.zeros(g)
        for n in tl.stream(tl.span("S", split * size, split * size + size)):
            s = tl.dot(q[b, h, g, :], k[b, h, n, :]) * (scale * math.log2(math.e))
            new_max = tl.maximum(row_max, tl.max(s, n))
            p = tl.exp2(s - new_max)
            old = tl.exp2(row_max - new_max)
            row_sum = row_sum * old + tl.sum(p, n)
            acc = acc * old + tl.dot(tl.cast(p, v.dtype), v[b, h, n, d])
            row_max = new_max
        part[b, h, split, g, d] = tl.where(row_sum == 0, 0.0, acc / row_sum)
        log_sum[b, h, split, g] = tl.where(row_sum == 0, -math.inf, row_max + tl.log2(row_sum))


@tl.kernel
def combine(
    part: tl.Tensor["B", "HKV", "P", "G", "D", tl.f32], log_sum: tl.Tensor["B", "HKV", "P", "G", tl.f32]
) -> tl.Tensor["B", "HKV", "G", "D", tl.f32]:
    for b, h in tl.grid(tl.each("B"), tl.each("HKV")):
        p, g = tl.axis("P"), tl.axis("G")
        logs = log_sum[b, h, p, g]
        top = tl.max(logs, p)
        weights = tl.exp2(logs - tl.where(top == -math.inf, 0.0, top))
        total = tl.sum(weights, p)
        mixed = tl.sum(part[b, h, p, g, :] * weights, p)
        out[b, h, g, :] = tl.where(total == 0, 0.0, mixed / total)


def attend(q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, splits: int = 4) -> np.ndarray:
    return combine(*flash_decoding(q, k, v, scale, splits))


SHAPE = {"B": 4, "HKV": 4, "G": 8, "S": 8192, "D": 128}
SHAPES = [{"B": 2, "HKV": 2, "G": 4, "S": 50, "D": 16}, {"B": 1, "HKV": 1, "G": 1, "S": 2, "D": 8}]


def inputs(
    rng: np.random.Generator, B: int, HKV: int, G: int, S: int, D: int, dtype: type = np.float32
) -> dict[str, object]:
    shapes = (B, HKV, G, D), (B, HKV, S, D), (B, HKV, S, D)
    q, k, v = (rng.standard_normal(s).astype(dtype) for s in shapes)
    return {"q": q, "k": k, "v": v, "scale": D**-0.5}


def reference(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, scale: float, splits: int = 4
) -> tuple[np.ndarray, np.ndarray]:
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    size = -(-k.shape[2] // splits)
    part = np.zeros((*q.shape[:2], splits, *q.shape[2:]))
    log_sum = np.full(part.shape[:-1], -np.inf)
    for split in range(splits):
        keys, values = (x[:, :, split * size : split * size + size] for x in (k, v))
        if keys.shape[2]:
            p = np.exp(np.einsum("bhgd,bhnd->bhgn", q, keys) * scale)
            part[:, :, split] = np.einsum("bhgn,bhnd->bhgd", p / p.sum(-1, keepdims=True), values)
            log_sum[:, :, split] = np.log2(p.sum(-1))
    return part, log_sum


def flops(B: int, HKV: int, G: int, S: int, D: int) -> int:
    return 4 * B * HKV * G * S * D


def main() -> None:
    from _run import run_and_compare

    run_and_compare(flash_decoding, inputs, reference, SHAPES[0])


if __name__ == "__main__":
    main()
