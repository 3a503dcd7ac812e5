"""The one table of tolerances: how far a result may lie from the float64 reference.

The bound on |result - reference| is

    (c * eps(accumulator) * sqrt(K) + sum over roundings to a narrow type of eps(type)) * scale

K is the length of the longest reduction behind an element, `scale` the magnitude of the terms summed (at least 1). The
language accumulates narrow floats in f32 (docs/decisions.md), so their eps counts once for each time that a value is
rounded to them: the output, and what the kernel itself casts on the way (probabilities before a product). One rounding
to nearest errs by half an eps; the other half is for what becomes of it. Changing a number here needs an entry in
docs/decisions.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

EPS: dict[str, float] = {
    "f64": 2.0**-52,
    "f32": 2.0**-23,
    "tf32": 2.0**-10,
    "f16": 2.0**-10,
    "bf16": 2.0**-7,
    "f8e4m3": 2.0**-3,
    "f8e5m2": 2.0**-2,
}
# c of a sum accumulated in this type, by the type; sums of the others are f32.
ACCUMULATORS: dict[str, float] = {"f64": 8.0, "f32": 8.0}


def bound(
    dtype: str, reduction_length: int, scale: float = 1.0, roundings: Iterable[str] = (), accumulator: str | None = None
) -> float:
    """The absolute tolerance for results of `dtype` (its name, such as "f32"); integers and bool are exact.

    `roundings` names the type of each narrow value on the way to the result; `accumulator` is the type that sums are
    kept in where the kernel says so itself (a carried f16), else f32, and f64 for f64.
    """
    if dtype not in EPS:
        return 0.0
    kept = accumulator or (dtype if dtype in ACCUMULATORS else "f32")
    summing = ACCUMULATORS.get(kept, ACCUMULATORS["f32"]) * EPS[kept] * math.sqrt(max(1, reduction_length))
    rounded = [*roundings, *([] if dtype in ACCUMULATORS else [dtype])]
    return (summing + sum(EPS[name] for name in rounded)) * max(1.0, scale)


def worst_error(result: np.ndarray, reference: np.ndarray) -> float:
    """Largest absolute difference, in float64; NaN where only one side is NaN counts as infinite."""
    got, want = np.asarray(result, dtype=np.float64), np.asarray(reference, dtype=np.float64)
    if got.shape != want.shape:
        raise ValueError(f"shapes differ: {got.shape} and {want.shape}")
    same = (got == want) | (np.isnan(got) & np.isnan(want))  # equal infinities have no difference
    with np.errstate(invalid="ignore"):
        error = np.where(same, 0.0, np.abs(got - want))
    return float(np.nan_to_num(error, nan=np.inf).max(initial=0.0))
