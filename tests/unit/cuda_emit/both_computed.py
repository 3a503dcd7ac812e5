"""A product of two computed tiles: the second gives the columns, so it goes through shared memory."""

import numpy as np

import threadloom as tl
from threadloom.examples import w4_matmul


@tl.kernel
def both_computed(
    a: tl.Tensor["M", "K", "T"],
    w: tl.Tensor["N", "K", tl.u4],
    scales: tl.Tensor["N", "(K + group - 1) // group", "T"],
    group: tl.Const[int] = 128,
) -> tl.Tensor["M", "N", "T"]:
    for m, n in tl.grid("M", "N"):
        j = tl.axis("group")
        acc = tl.zeros(m, n)
        for g in tl.stream(tl.each("(K + group - 1) // group")):
            weights = tl.cast((w[n, g * group + j] - 8) * scales[n, g], a.dtype)
            acc += tl.dot(tl.cast(a[m, g * group + j] * 2, a.dtype), weights)
        out[m, n] = acc


def bound(m: int, n: int, k: int):
    return both_computed.bind(**w4_matmul.inputs(np.random.default_rng(0), m, n, k, np.float16))
