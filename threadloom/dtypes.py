"""Element types. One table; everything else asks it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np


@dataclass(frozen=True, slots=True)
class Dtype:
    """An element type: `name` as users write it, `bits` in memory, `kind` float, int, uint or bool."""

    name: str
    bits: int
    kind: str

    def __repr__(self) -> str:
        return f"tl.{self.name}"

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        return self.kind in ("int", "uint")

    def bytes_for(self, elems: int) -> int:
        """Bytes that `elems` elements take when stored without gaps (u4: two to a byte)."""
        return (elems * self.bits + 7) // 8


f64 = Dtype("f64", 64, "float")
f32 = Dtype("f32", 32, "float")
tf32 = Dtype("tf32", 32, "float")  # stored as f32; products round operands to 10 bits of mantissa
f16 = Dtype("f16", 16, "float")
bf16 = Dtype("bf16", 16, "float")
f8e4m3 = Dtype("f8e4m3", 8, "float")
f8e5m2 = Dtype("f8e5m2", 8, "float")
i64 = Dtype("i64", 64, "int")
i32 = Dtype("i32", 32, "int")
i8 = Dtype("i8", 8, "int")
u8 = Dtype("u8", 8, "uint")
u4 = Dtype("u4", 4, "uint")  # two to a byte along the last dimension, low nibble first
bool_ = Dtype("bool", 8, "bool")

ALL: dict[str, Dtype] = {
    t.name: t for t in (f64, f32, tf32, f16, bf16, f8e4m3, f8e5m2, i64, i32, i8, u8, u4, bool_)
}


@cache
def numpy_dtype(dtype: Dtype) -> np.dtype:
    """The NumPy dtype that stores `dtype` (u4 is stored in uint8, tf32 in float32)."""
    plain = {"f64": "f8", "f32": "f4", "tf32": "f4", "f16": "f2", "i64": "i8", "i32": "i4", "i8": "i1"}
    plain |= {"u8": "u1", "u4": "u1", "bool": "?"}
    if dtype.name in plain:
        return np.dtype(plain[dtype.name])
    import ml_dtypes

    extended = {"bf16": "bfloat16", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2"}
    return np.dtype(getattr(ml_dtypes, extended[dtype.name]))
