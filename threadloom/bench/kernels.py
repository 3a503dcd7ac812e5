# ruff: noqa: F821  (names of dimensions are strings in annotations)
"""Kernels that only the benchmarks need."""

import threadloom as tl


@tl.kernel
def product(a: tl.Tensor["M", "K", "T"], b: tl.Tensor["K", "N", "T"]) -> tl.Tensor["M", "N", "T"]:
    """The plain product that NumPy's matmul and torch's mm compute."""
    for m, n in tl.grid("M", "N"):
        acc = tl.zeros(m, n, dtype=tl.f32)
        for k in tl.stream("K"):
            acc += tl.dot(a[m, k], b[k, n])
        out[m, n] = acc
