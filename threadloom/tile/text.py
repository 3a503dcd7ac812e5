"""The text form of level `tile`: `print_kernel` and `parse_text` are inverse to each other.

    kernel matmul(a: [M, K] f16 in, b: [K, N] f16 in, out: [M, N] f16 out) {
      axes m: M tile, n: N tile, k: K tile
      grid m, n {
        %c: [] f32 = const 0.0
        %acc: [m, n] f32 = full %c
        stream k carry (%acc.1: [m, n] f32 = %acc) -> (%acc.3) {
          %t.1: [m, k] f16 = load a[m, k]
          %t.2: [k, n] f16 = load b[k, n]
          %t.3: [m, n] f32 = dot %t.1, %t.2 over k
          %acc.2: [m, n] f32 = add %acc.1, %t.3
          yield %acc.2
        }
        store out[m, n] = %acc.3
      }
    }

Values start with %, so that they cannot be confused with axes in subscripts such as [2*m + k - 1, %start + n]. With
`locations`, an operation ends in `; file:line:column-end`.
"""

from __future__ import annotations

from threadloom.tile.print_text import print_kernel, print_op
from threadloom.tile.read_text import parse_op, parse_text, parse_type

__all__ = ["parse_op", "parse_text", "parse_type", "print_kernel", "print_op"]
