"""Dimensions written as formulas: "H - R + 1". A formula gets a plain name of its own (`H_m_R_p_1`) in the IR; its
value is computed from the other dimensions at launch, so that all later stages see names and numbers only.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from threadloom.errors import CompileError, slug

DIMENSION = slug("dimension-formula", "a dimension is not a name, an extent or a formula over names")

_OPERATORS: dict[type, Callable[[int, int], int]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b if b else 0,
    ast.Mod: lambda a, b: a % b if b else 0,
}
_WORDS = {"+": "_p_", "-": "_m_", "*": "_x_", "//": "_div_", "%": "_mod_", "(": "_", ")": "_", ",": "_", " ": ""}


@dataclass(frozen=True, slots=True)
class Formula:
    """`name` in the IR, `text` as written (normalised), the `names` it is computed from."""

    name: str
    text: str
    names: tuple[str, ...]

    def value(self, dims: Mapping[str, int]) -> int:
        return max(0, _evaluate(ast.parse(self.text, mode="eval").body, dims))

    def solve(self, dims: Mapping[str, int], extent: int) -> dict[str, int]:
        """The one unknown name's value for which the formula gives `extent`, where it is that name times, plus or
        minus what is known; else nothing."""
        unknown = [n for n in self.names if n not in dims]
        found = _linear(ast.parse(self.text, mode="eval").body, unknown[0], dims) if len(unknown) == 1 else None
        if found is None or found[0] == 0:
            return {}
        value, rest = divmod(extent - found[1], found[0])
        return {unknown[0]: value} if rest == 0 and value >= 0 else {}


def parse_dim(text: str | int, consts: Mapping[str, object]) -> str | int | Formula:
    """A dimension of an annotation: an extent, a name, or a Formula. Compile-time constants are put in."""
    if isinstance(text, int):
        return text
    if text.isidentifier() and text not in consts:
        return text
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        raise _not_a_dim(text) from None
    tree = ast.fix_missing_locations(_PutConstants(consts).visit(tree))
    names = tuple(dict.fromkeys(n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id not in ("min", "max")))
    _check(tree, text)
    if not names:
        return max(0, _evaluate(tree, {}))
    normal = ast.unparse(tree)
    if isinstance(tree, ast.Name):
        return normal
    return Formula(_identifier(normal), normal, names)


class _PutConstants(ast.NodeTransformer):
    def __init__(self, consts: Mapping[str, object]):
        self.consts = consts

    def visit_Name(self, node: ast.Name) -> ast.expr:
        value = self.consts.get(node.id)
        return ast.Constant(value) if isinstance(value, int) and not isinstance(value, bool) else node


def _identifier(text: str) -> str:
    for sign, word in (("//", _WORDS["//"]), *_WORDS.items()):
        text = text.replace(sign, word)
    return re.sub(r"\W", "_", re.sub(r"_+", "_", text)).strip("_")


def _not_a_dim(text: str) -> CompileError:
    return CompileError(
        DIMENSION,
        f"{text!r} is not a dimension",
        why="a dimension is a name, an extent, or a formula of names with + - * // % min max",
        try_='"M", 64, or "H - R + 1"',
    )


def _check(node: ast.expr, text: str) -> None:
    match node:
        case ast.Constant(value=int()) | ast.Name():
            return
        case ast.BinOp(left, op, right) if type(op) in _OPERATORS:
            _check(left, text)
            _check(right, text)
        case ast.UnaryOp(ast.USub(), operand):
            _check(operand, text)
        case ast.Call(ast.Name("min" | "max"), args, []):
            for arg in args:
                _check(arg, text)
        case _:
            raise _not_a_dim(text)


def _linear(node: ast.expr, name: str, dims: Mapping[str, int]) -> tuple[int, int] | None:
    """(factor, rest) if the formula is factor * name + rest; all other names are in `dims`."""
    if not any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(node)):
        return 0, _evaluate(node, dims)
    match node:
        case ast.Name():
            return 1, 0
        case ast.UnaryOp(ast.USub(), operand) if (inner := _linear(operand, name, dims)) is not None:
            return -inner[0], -inner[1]
        case ast.BinOp(left, ast.Add() | ast.Sub() | ast.Mult() as op, right):
            a, b = _linear(left, name, dims), _linear(right, name, dims)
            if a is None or b is None:
                return None
            if not isinstance(op, ast.Mult):
                sign = 1 if isinstance(op, ast.Add) else -1
                return a[0] + sign * b[0], a[1] + sign * b[1]
            if a[0] == 0 or b[0] == 0:
                return a[0] * b[1] + a[1] * b[0], a[1] * b[1]
    return None


def _evaluate(node: ast.expr, dims: Mapping[str, int]) -> int:
    match node:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(name):
            return dims[name]
        case ast.BinOp(left, op, right):
            return _OPERATORS[type(op)](_evaluate(left, dims), _evaluate(right, dims))
        case ast.UnaryOp(ast.USub(), operand):
            return -_evaluate(operand, dims)
        case ast.Call(ast.Name(fn), args):
            numbers = [_evaluate(a, dims) for a in args]
            return min(numbers) if fn == "min" else max(numbers)
    raise _not_a_dim(ast.unparse(node))
