"""Addresses as index vectors of integer polynomials over thread indices and uniform symbols.

    %a = getelementptr [16 x [16 x float]], ptr %tile, i64 0, i64 %ty
    %b = getelementptr [16 x float], ptr %a, i64 0, i64 (sext %tx + 1)     ->  {1024: 0, 64: ty, 4: tx + 1}

A key is the stride in bytes of one dimension, a value the polynomial that indexes it. Dimensions inside an array type
are never left (CUDA C++ forbids it), so two addresses with the same dimensions are equal only if all indices are;
pointer arithmetic on an element (`&tile[0][0] + i`) may leave them, so such an address is `flat`: one number of bytes.
Integer arithmetic is taken modulo 2^bits: polynomials are compared by their difference, in which uniform parts cancel
exactly and what remains is far below 2^31 (thread indices are below 1024).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from threadloom.cuda.lower.traverse import walk
from threadloom.cuda.optimize.wrapping import counts
from threadloom.par.constants import int_value
from threadloom.par.ops import Array, Leaf, Op, Operand, Struct, Type, Value
from threadloom.par.result_types import size_bytes, struct_layout

Monomial = tuple[str, ...]  # sorted names; () is the constant's
_MOST_TERMS = 24


@dataclass(frozen=True, slots=True)
class Polynomial:
    """Sum of coefficient x product of atoms; an atom is the name of a value."""

    terms: tuple[tuple[Monomial, int], ...]

    def coefficient(self, *atoms: str) -> int:
        return dict(self.terms).get(tuple(sorted(atoms)), 0)

    def atoms(self) -> set[str]:
        return {atom for monomial, _ in self.terms for atom in monomial}


def polynomial(terms: Mapping[Monomial, int]) -> Polynomial:
    return Polynomial(tuple(sorted((monomial, factor) for monomial, factor in terms.items() if factor)))


def constant(value: int) -> Polynomial:
    return polynomial({(): value})


def plus(a: Polynomial, b: Polynomial, factor: int = 1) -> Polynomial:
    terms = dict(a.terms)
    for monomial, coefficient in b.terms:
        terms[monomial] = terms.get(monomial, 0) + factor * coefficient
    return polynomial(terms)


def times(a: Polynomial, b: Polynomial) -> Polynomial:
    terms: dict[Monomial, int] = {}
    for x, p in a.terms:
        for y, q in b.terms:
            monomial = tuple(sorted((*x, *y)))
            terms[monomial] = terms.get(monomial, 0) + p * q
    return polynomial(terms)


def renamed(a: Polynomial, names: Mapping[str, str]) -> Polynomial:
    terms: dict[Monomial, int] = {}
    for monomial, coefficient in a.terms:
        new = tuple(sorted(names.get(atom, atom) for atom in monomial))
        terms[new] = terms.get(new, 0) + coefficient
    return polynomial(terms)


@dataclass(frozen=True, slots=True)
class Address:
    """`base` is the value or constant at the bottom of the chain of getelementptrs."""

    base: Operand
    indices: tuple[tuple[int, Polynomial], ...]  # (stride in bytes, index), largest stride first
    flat: bool = False

    def flattened(self) -> Address:
        total = constant(0)
        for stride, index in self.indices:
            total = plus(total, index, stride)
        return Address(self.base, ((1, total),), True)

    def index(self, stride: int) -> Polynomial:
        return dict(self.indices).get(stride, constant(0))

    def strides(self) -> set[int]:
        return {stride for stride, index in self.indices if index.terms}


class Arithmetic:
    """Polynomials and addresses of the values that a tree of operations defines."""

    def __init__(self, ops: Iterable[Op]):
        self._leaves = {op.result.name: op for op in walk(ops) if isinstance(op, Leaf) and op.result is not None}
        self._known: dict[str, Polynomial] = {}

    def of(self, operand: Operand) -> Polynomial:
        if (value := int_value(operand)) is not None:
            return constant(value)
        if not isinstance(operand, Value):
            return polynomial({(operand.text,): 1})
        if operand.name not in self._known:
            self._known[operand.name] = self._compute(operand)
        return self._known[operand.name]

    def _compute(self, value: Value) -> Polynomial:
        atom = polynomial({(value.name,): 1})
        leaf = self._leaves.get(value.name)
        if leaf is None:
            return atom
        match leaf.opcode:
            case "sext" | "zext" | "freeze":
                if not counts(leaf.operands[0].type):
                    return atom  # a flag or a character: its own symbol
                result = self.of(leaf.operands[0])
            case "trunc":
                result = self.of(leaf.operands[0]) if counts(value.type) else atom
            case "add" | "sub":
                result = plus(self.of(leaf.operands[0]), self.of(leaf.operands[1]), 1 if leaf.opcode == "add" else -1)
            case "or" if "disjoint" in leaf.attrs.flags:
                result = plus(self.of(leaf.operands[0]), self.of(leaf.operands[1]))
            case "mul":
                result = times(self.of(leaf.operands[0]), self.of(leaf.operands[1]))
            case "shl" if (by := int_value(leaf.operands[1])) is not None and 0 <= by < 31:
                result = times(self.of(leaf.operands[0]), constant(1 << by))
            case _:
                return atom
        return result if len(result.terms) <= _MOST_TERMS else atom

    def address(self, pointer: Operand) -> Address:
        leaf = self._leaves.get(pointer.name) if isinstance(pointer, Value) else None
        if leaf is None or leaf.opcode != "getelementptr" or leaf.attrs.source_type is None:
            return Address(pointer, ())
        inner = self.address(leaf.operands[0])
        indices = dict(inner.indices)
        type_: Type = leaf.attrs.source_type
        flat = inner.flat or (bool(inner.indices) and int_value(leaf.operands[1]) != 0)
        for position, operand in enumerate(leaf.operands[1:]):
            if position > 0 and isinstance(type_, Array):
                type_ = type_.element
            elif position > 0 and isinstance(type_, Struct) and (field := int_value(operand)) is not None:
                indices[1] = plus(indices.get(1, constant(0)), constant(struct_layout(type_)[0][field]))
                type_ = type_.fields[field]
                continue
            elif position > 0:
                return Address(pointer, ())
            stride = size_bytes(type_)
            indices[stride] = plus(indices.get(stride, constant(0)), self.of(operand))
        return Address(inner.base, tuple(sorted(indices.items(), reverse=True)), flat)
