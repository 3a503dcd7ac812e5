"""When integer arithmetic may wrap: what clang's flags say, asked in one place by all passes that reason about indices.

    add nsw i32 %a, 1          no signed wrap: as a whole number it is %a + 1
    add nuw nsw i32 %a, 1      nor below zero: sign extension, zero extension and comparison of either kind agree
    zext nneg i32 %a to i64    the number itself, as sext is always

CUDA's indices are unsigned and wrap by right, so most sums come without a flag. Who reasons how:

    affine.py, conditions.py   modulo 2^bits: differences of polynomials, in which what wrapped cancels; needs no flag
    global_index.py            gives both flags to sums that a launch of few threads cannot make wrap
    ../vectorize/bounds.py     whole numbers: only through sums with a flag
    ../vectorize/shapes.py     lanes step by a constant modulo 2^bits; leaves.py watches where that is widened
"""

from __future__ import annotations

from dataclasses import replace

from threadloom.par.ops import Attrs, Int, Leaf, Type

COUNTING_BITS = 32  # narrower numbers are flags and characters, of which no index is made
BOTH = frozenset({"nsw", "nuw"})
OF_NUMBERS = BOTH | {"nneg"}
PROMISES = OF_NUMBERS | {"exact", "disjoint", "inbounds", "nusw", "samesign"}


def counts(type_: Type | None) -> bool:
    """An integer wide enough to be an index."""
    return isinstance(type_, Int) and type_.bits >= COUNTING_BITS


def is_whole_sum(leaf: Leaf) -> bool:
    """A sum or difference that is so of the whole numbers, too, read as signed ones."""
    return leaf.opcode in ("add", "sub") and "nsw" in leaf.attrs.flags


def widens_whole(leaf: Leaf) -> bool:
    """An extension that keeps the signed number."""
    return leaf.opcode == "sext" or (leaf.opcode == "zext" and "nneg" in leaf.attrs.flags)


def never_wraps(leaf: Leaf) -> bool:
    """Neither as a signed nor as an unsigned number."""
    return set(leaf.attrs.flags) >= BOTH


def without_wrap(leaf: Leaf) -> Leaf:
    """`leaf`, of which that is known."""
    flags = dict.fromkeys((*leaf.attrs.flags, "nuw", "nsw"))
    return replace(leaf, attrs=replace(leaf.attrs, flags=tuple(flags)))


def without_promises(attrs: Attrs) -> Attrs:
    """For code that also runs where the program does not: what is promised may then be untrue."""
    return replace(attrs, flags=tuple(flag for flag in attrs.flags if flag not in PROMISES))
