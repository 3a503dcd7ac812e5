"""Whether two builds of a program gave the host the same: the copies from the device that LOOM_PROFILE leaves behind.

A record has for each copy its bytes and a few words of 8 bytes, evenly spaced. Words are the same where their bits are,
or where they are close as one f64 or as two f32 (sums may have been added up in another order); which of the two they
are shows in their lower halves, which in an f64 are any bits.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

RTOL = 1e-3  # some of Rodinia's programs iterate on single-precision sums
OF_LARGEST = 1e-5  # and leave what is nearly zero beside what is not

Copies = Sequence[Sequence]  # [bytes, hexadecimal words] each


def differ(ours: Copies, others: Copies) -> str:
    """What is not the same, in a few words; "" where nothing is."""
    if [size for size, _ in ours] != [size for size, _ in others]:
        return f"{len(ours)} copies to the host, the other build's {len(others)} or of other sizes"
    for number, ((size, one), (_, other)) in enumerate(zip(ours, others, strict=True)):
        words = [np.array([int(text[at : at + 16], 16) for at in range(0, len(text), 16)], np.uint64)
                 for text in (one, other)]  # fmt: skip
        if one != other and not _close(*words, _kind(words[1])):
            return f"copy {number} to the host, of {size} bytes, differs"
    return ""


def _kind(words: np.ndarray) -> type:
    low = abs(words.astype(np.uint32).view(np.float32))  # NaN and infinity compare false
    usual = (low == 0) | ((low > 2.0**-40) & (low < 2.0**40))
    return np.float32 if usual.mean() > 0.7 else np.float64


def _close(ours: np.ndarray, others: np.ndarray, kind: type) -> bool:
    """As numbers of `kind`; whole numbers are no numbers of it, as their bits make tiny ones."""
    a, b = ours.view(kind), others.view(kind)
    same = a.view(f"u{a.itemsize}") == b.view(f"u{b.itemsize}")
    large = np.finfo(kind).tiny
    with np.errstate(all="ignore"):
        numbers = np.isfinite(a) & np.isfinite(b) & ((abs(a) >= large) | (a == 0)) & ((abs(b) >= large) | (b == 0))
        largest = np.max(abs(b), where=np.isfinite(b), initial=0)
        close = numbers & (abs(a - b) <= RTOL * abs(b) + OF_LARGEST * largest)
    return bool(np.all(same | close))
