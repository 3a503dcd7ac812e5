"""Functions written in the language itself; the parser inlines them like a user's helper."""

from __future__ import annotations

from threadloom.lang.builtins import abs, erf, exp, log, maximum


def relu(x: object) -> object:
    """x where positive, else 0."""
    return maximum(x, 0)


def sigmoid(x: object) -> object:
    """1 / (1 + exp(-x))."""
    return 1.0 / (1.0 + exp(-x))


def silu(x: object) -> object:
    """x * sigmoid(x)."""
    return x / (1.0 + exp(-x))


def gelu(x: object) -> object:
    """x times the normal distribution function (the exact form, with erf)."""
    return 0.5 * x * (1.0 + erf(x * 0.7071067811865476))


def softplus(x: object) -> object:
    """log(1 + exp(x)), without overflow."""
    return maximum(x, 0.0) + log(1.0 + exp(-abs(x)))


def identity(x: object) -> object:
    """x itself: a default for tl.Function parameters."""
    return x
