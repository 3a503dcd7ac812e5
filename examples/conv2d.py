"""Two-dimensional convolution, channels last, with padding and stride: a matrix product over window and channels.

Positions outside the image load as 0, so padding needs no code.
"""

import numpy as np

import threadloom as tl


@tl.kernel
def conv2d(
    x: tl.Tensor["B", "H", "W", "C", "T"],
    w: tl.Tensor["R", "S", "C", "F", "T"],
    pad: tl.Const[int] = 1,
    stride: tl.Const[int] = 1,
) -> tl.Tensor["B", "(H + 2 * pad - R) // stride + 1", "(W + 2 * pad - S) // stride + 1", "F", "T"]:
    rows, columns = "(H + 2 * pad - R) // stride + 1", "(W + 2 * pad - S) // stride + 1"
    for b, i, j, f in tl.grid(tl.each("B"), rows, columns, "F"):
        acc = tl.zeros(i, j, f)
        for r, s, c in tl.stream(tl.each("R"), tl.each("S"), "C"):
            acc += tl.dot(x[b, i * stride + r - pad, j * stride + s - pad, c], w[r, s, c, f])
        out[b, i, j, f] = acc


SHAPE = {"B": 4, "H": 56, "W": 56, "C": 64, "F": 64, "R": 3, "S": 3}
SHAPES = [
    {"B": 2, "H": 7, "W": 9, "C": 5, "F": 6, "R": 3, "S": 3},
    {"B": 1, "H": 1, "W": 4, "C": 3, "F": 2, "R": 1, "S": 1},
]


def inputs(
    rng: np.random.Generator, B: int, H: int, W: int, C: int, F: int, R: int, S: int, dtype: type = np.float32
) -> dict[str, np.ndarray]:
    x, w = rng.standard_normal((B, H, W, C)), rng.standard_normal((R, S, C, F))
    return {"x": x.astype(dtype), "w": w.astype(dtype)}


def reference(x: np.ndarray, w: np.ndarray, pad: int = 1, stride: int = 1) -> np.ndarray:
    padded = np.pad(x.astype(np.float64), ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, w.shape[:2], axis=(1, 2))[:, ::stride, ::stride]
    return np.einsum("bijcrs,rscf->bijf", windows, w.astype(np.float64))


def flops(B: int, H: int, W: int, C: int, F: int, R: int, S: int) -> int:
    return 2 * B * H * W * C * F * R * S


def main() -> None:
    from _run import run_and_compare

    run_and_compare(conv2d, inputs, reference, SHAPES[0])


if __name__ == "__main__":
    main()
