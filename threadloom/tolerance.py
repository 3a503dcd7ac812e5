"""The one table of tolerances: how far a result may lie from the float64 reference.

The bound on |result - reference| is `c * eps(dtype) * sqrt(K) * scale`, where K is the length of the longest
reduction behind an element and `scale` the magnitude of the terms summed (at least 1). Changing a number here needs
an entry in docs/decisions.md.
"""

from __future__ import annotations

import math

import numpy as np

# dtype name -> (c, eps)
TABLE: dict[str, tuple[float, float]] = {
    "f64": (8.0, 2.0**-52),
    "f32": (8.0, 2.0**-23),
    "tf32": (4.0, 2.0**-10),
    "f16": (4.0, 2.0**-10),
    "bf16": (4.0, 2.0**-7),
    "f8e4m3": (4.0, 2.0**-3),
    "f8e5m2": (4.0, 2.0**-2),
}


def bound(dtype: str, reduction_length: int, scale: float = 1.0) -> float:
    """The absolute tolerance for results of `dtype` (its name, such as "f32"); integers and bool are exact."""
    c, eps = TABLE.get(dtype, (0.0, 0.0))
    return c * eps * math.sqrt(max(1, reduction_length)) * max(1.0, scale)


def worst_error(result: np.ndarray, reference: np.ndarray) -> float:
    """Largest absolute difference, in float64; NaN where only one side is NaN counts as infinite."""
    got, want = np.asarray(result, dtype=np.float64), np.asarray(reference, dtype=np.float64)
    if got.shape != want.shape:
        raise ValueError(f"shapes differ: {got.shape} and {want.shape}")
    same = (got == want) | (np.isnan(got) & np.isnan(want))  # equal infinities have no difference
    with np.errstate(invalid="ignore"):
        error = np.where(same, 0.0, np.abs(got - want))
    return float(np.nan_to_num(error, nan=np.inf).max(initial=0.0))
