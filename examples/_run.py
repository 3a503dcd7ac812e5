"""`python examples/NAME.py`: run an example once and compare with its float64 reference."""

from collections.abc import Callable

import numpy as np

from threadloom.lang.kernel import Kernel


def run_and_compare(
    kernel: Kernel, inputs: Callable[..., dict], reference: Callable[..., object], shape: dict[str, int]
) -> None:
    arguments = inputs(np.random.default_rng(0), **shape)
    got, want = kernel(**arguments), reference(**arguments)
    pairs = zip(got, want, strict=True) if isinstance(got, tuple) else [(got, want)]
    errors = [float(np.abs(np.asarray(g, np.float64) - w).max(initial=0)) for g, w in pairs]
    sizes = ", ".join(f"{n}={extent}" for n, extent in shape.items())
    print(f"{kernel.name} at {sizes}: largest error against float64 {max(errors):.2e}")
