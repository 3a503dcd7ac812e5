"""Numbers on the command line, refused where they cannot be meant (types for argparse)."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable


def positive(text: str) -> float:
    """Seconds, as a rule: more than 0, and finite."""
    try:
        number = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number") from None
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not positive" if not number > 0 else f"{text} is not finite")
    return number


def at_least(least: int) -> Callable[[str], int]:
    """Whole numbers from `least` on."""

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from None
        if number < least:
            raise argparse.ArgumentTypeError(f"{text} is less than {least}")
        return number

    return parse
