"""Mamba2's ChunkState: what each chunk of length L adds to the state: its steps' x * b * dt, faded to its end."""

import numpy as np

import threadloom as tl


@tl.kernel
def chunk_state(
    x: tl.Tensor["B", "C * L", "H", "P", "T"],
    b_in: tl.Tensor["B", "C * L", "G", "N", "T"],
    dt: tl.Tensor["B", "H", "C", "L", "T"],
    decay: tl.Tensor["B", "H", "C", "L", "T"],
) -> tl.Tensor["B", "C", "H", "P", "N", "T"]:
    for b, chunk, h, p, n in tl.grid(tl.each("B"), tl.each("C"), tl.each("H"), "P", "N"):
        group = h // (tl.dim("H") // tl.dim("G"))
        first = chunk * tl.dim("L")
        last = tl.cast(decay[b, h, chunk, tl.dim("L") - 1], tl.f32)
        acc = tl.zeros(p, n)
        for k in tl.stream("L"):
            weight = tl.exp(last - decay[b, h, chunk, k]) * dt[b, h, chunk, k]
            weighted = tl.cast(x[b, first + k, h, p] * weight, x.dtype)
            acc += tl.dot(weighted, b_in[b, first + k, group, n])
        out[b, chunk, h, p, n] = acc


SHAPE = {"B": 1, "C": 8, "L": 256, "H": 16, "P": 64, "N": 128, "G": 1}
SHAPES = [
    {"B": 2, "C": 2, "L": 16, "H": 4, "P": 8, "N": 8, "G": 1},
    {"B": 1, "C": 3, "L": 21, "H": 2, "P": 5, "N": 7, "G": 2},
]


def inputs(
    rng: np.random.Generator, B: int, C: int, L: int, H: int, P: int, N: int, G: int, dtype: type = np.float32
) -> dict[str, np.ndarray]:
    dt = np.log1p(np.exp(rng.standard_normal((B, H, C, L)) - 4))
    decay = np.cumsum(-dt * np.exp(1.5 * rng.random((H, 1, 1))), axis=-1)
    x, b_in = rng.standard_normal((B, C * L, H, P)), rng.standard_normal((B, C * L, G, N))
    return {name: a.astype(dtype) for name, a in {"x": x, "b_in": b_in, "dt": dt, "decay": decay}.items()}


def reference(x: np.ndarray, b_in: np.ndarray, dt: np.ndarray, decay: np.ndarray) -> np.ndarray:
    x, b_in, dt, decay = (a.astype(np.float64) for a in (x, b_in, dt, decay))
    batch, heads, chunks, length = dt.shape
    x = x.reshape(batch, chunks, length, heads, -1)
    b_in = np.repeat(b_in, heads // b_in.shape[2], axis=2).reshape(batch, chunks, length, heads, -1)
    return np.einsum("bclhp,bclhn,bhcl->bchpn", x, b_in, np.exp(decay[..., -1:] - decay) * dt)


def flops(B: int, C: int, L: int, H: int, P: int, N: int, G: int) -> int:
    return 2 * B * C * H * L * P * N


def main() -> None:
    from _run import run_and_compare

    run_and_compare(chunk_state, inputs, reference, SHAPES[0])


if __name__ == "__main__":
    main()
