"""Which dtype an operation on mixed dtypes has: the language's one table, like NumPy's with fewer surprises on GPUs.

- Literals of Python are weak: they take the other operand's dtype, except that a float literal turns integers into f32.
- u4, f8 and tf32 are for storage and products; arithmetic widens u4 to i32 and f8, tf32 to f32 first.
- An integer with a float gives that float; two floats the wider one, f16 with bf16 f32.
- Sums and products of narrow floats are kept in f32, of narrow integers in i32, as `dot` does.
"""

from __future__ import annotations

from threadloom.dtypes import Dtype, bf16, bool_, f8e4m3, f8e5m2, f16, f32, f64, i8, i32, i64, tf32, u4, u8

_COMPUTED_AS: dict[Dtype, Dtype] = {u4: i32, f8e4m3: f32, f8e5m2: f32, tf32: f32}

# Rows and columns in the same order; the table is symmetric.
_ORDER = (bool_, u8, i8, i32, i64, f16, bf16, f32, f64)
_TABLE = {
    bool_: (bool_, u8, i8, i32, i64, f16, bf16, f32, f64),
    u8: (u8, u8, i32, i32, i64, f16, bf16, f32, f64),
    i8: (i8, i32, i8, i32, i64, f16, bf16, f32, f64),
    i32: (i32, i32, i32, i32, i64, f16, bf16, f32, f64),
    i64: (i64, i64, i64, i64, i64, f16, bf16, f32, f64),
    f16: (f16, f16, f16, f16, f16, f16, f32, f32, f64),
    bf16: (bf16, bf16, bf16, bf16, bf16, f32, bf16, f32, f64),
    f32: (f32, f32, f32, f32, f32, f32, f32, f32, f64),
    f64: (f64, f64, f64, f64, f64, f64, f64, f64, f64),
}


def compute_dtype(dtype: Dtype) -> Dtype:
    """The dtype in which elementwise code computes on values stored as `dtype`."""
    return _COMPUTED_AS.get(dtype, dtype)


def promote(a: Dtype, b: Dtype) -> Dtype:
    a, b = compute_dtype(a), compute_dtype(b)
    return _TABLE[a][_ORDER.index(b)]


def literal_dtype(number: int | float | bool, beside: Dtype | None) -> Dtype:
    """The dtype of a literal used with an operand of dtype `beside` (None: with other literals only)."""
    if isinstance(number, bool):
        return bool_ if beside is None else compute_dtype(beside)
    if beside is None:
        return f32 if isinstance(number, float) else i64
    beside = compute_dtype(beside)
    if isinstance(number, float) and not beside.is_float:
        return f32
    return i64 if beside is bool_ else beside


def accumulate_dtype(operand: Dtype) -> Dtype:
    """The dtype of a dot, sum or product over elements of dtype `operand`."""
    if operand.is_float:
        return f64 if operand is f64 else f32
    return i64 if operand is i64 else i32
