"""Whether two accesses by *different* threads of a block can touch the same bytes, one of them writing.

    before: store %v, tile[ty][tx]     after: load tile[ty][tx]          no: only the own thread's (the hole)
    before: store %v, tile[ty][tx]     after: load tile[ty + p][tx]      yes
    before: store %v, s[2 * tx]        after: load s[2 * tx + 1]         no: even and odd never meet

The set {(t, t') : t != t', address_before(t) = address_after(t'), conditions on t and t'} is given to isl; the accesses
conflict unless it is empty. Indices whose uniform parts do not cancel, or that depend on values unknown per thread, say
nothing; without any statement the accesses conflict. Source: PPoPP'23, section 3.1 (R^-1 o R minus the identity).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from threadloom.cuda.kernel import MOST_BLOCK_THREADS
from threadloom.cuda.lower.effects import Access, conflict
from threadloom.cuda.optimize.affine import Address, Polynomial, constant, plus, renamed, times
from threadloom.cuda.optimize.conditions import Condition
from threadloom.par.constants import int_value
from threadloom.par.ops import Operand, Parallel, Value
from threadloom.par.result_types import size_bytes

_RELATIONS = {"eq": "=", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


@dataclass(frozen=True, slots=True)
class Place:
    """An access with its address and what is known of the thread where it happens."""

    access: Access
    address: Address
    conditions: tuple[Condition, ...] = ()


class Threads:
    """The thread indices of one Parallel: names, extents where known, and which atoms are uniform."""

    def __init__(self, parallel: Parallel, varying: frozenset[str]):
        self.ivs = [iv.name for iv in parallel.ivs]
        self.uppers: list[Operand] = list(parallel.uppers)
        self._unknown = varying - set(self.ivs)

    def extent(self, dimension: int) -> int:
        known = int_value(self.uppers[dimension])
        return MOST_BLOCK_THREADS if known is None else known

    def is_affine(self, polynomial: Polynomial) -> bool:
        """Thread indices times constants, plus uniform symbols."""
        return all(
            not (set(monomial) & self._unknown) and (len(monomial) == 1 or not set(monomial) & set(self.ivs))
            for monomial, _ in polynomial.terms
        )


def threads_conflict(one: Place, other: Place, threads: Threads, changed: frozenset[str] = frozenset()) -> bool:
    """`changed`: atoms of `other` that no longer have the value they had at `one`."""
    if not conflict(one.access, other.access):
        return False
    constraints = _equal_addresses(one, other, threads, changed)
    if constraints is None:
        return True
    return not _empty(one, other, threads, constraints)


def _equal_addresses(one: Place, other: Place, threads: Threads,
                     changed: frozenset[str]) -> list[tuple[Polynomial, Polynomial]] | None:  # fmt: skip
    """Pairs of thread-only polynomials that are equal where the addresses are; None: nothing can be said."""
    if len(one.access.roots | other.access.roots) != 1 or one.address.base != other.address.base:
        return None
    if one.access.type is None or other.access.type is None:
        return None
    sizes = {size_bytes(one.access.type), size_bytes(other.access.type)}
    here, there = one.address, other.address
    if here.flat or there.flat:
        here, there = here.flattened(), there.flattened()
    strides = here.strides() | there.strides()
    if len(sizes) > 1 or (strides - {1} and min(strides - {1}) < max(sizes)):
        return None
    pairs = []
    for stride in strides:
        mine, yours = _factored(here.index(stride), threads), _factored(there.index(stride), threads)
        yours = renamed(yours, {atom: f"{atom}'" for atom in yours.atoms() & changed})
        if not threads.is_affine(mine) or not threads.is_affine(yours):
            continue
        split_mine, split_yours = _split(mine, threads), _split(yours, threads)
        if plus(split_mine[1], split_yours[1], -1).terms:
            continue  # uniform parts that may differ
        pairs.append((split_mine[0], split_yours[0]))
    return pairs or None


def _split(polynomial: Polynomial, threads: Threads) -> tuple[Polynomial, Polynomial]:
    """(thread indices and the constant, the uniform rest)."""
    own = [(m, c) for m, c in polynomial.terms if m == () or set(m) & {*threads.ivs, _LINEAR}]
    rest = [(m, c) for m, c in polynomial.terms if not (m == () or set(m) & {*threads.ivs, _LINEAR})]
    return Polynomial(tuple(own)), Polynomial(tuple(rest))


_LINEAR = "linear thread number"


def _factored(index: Polynomial, threads: Threads) -> Polynomial:
    """c * ((z * by + y) * bx + x) + rest  ->  c * linear + rest, where bx and by are the block's own extents."""
    factor = index.coefficient(threads.ivs[-1])
    linear, stride = constant(0), constant(factor)
    for iv, upper in zip(reversed(threads.ivs), reversed(threads.uppers), strict=True):
        if int_value(upper) != 1:
            linear = plus(linear, times(Polynomial((((iv,), 1),)), stride))
        known = int_value(upper)
        stride = times(stride, Polynomial((((upper.name,), 1),)) if isinstance(upper, Value) else constant(known or 0))
    single = {iv for iv, upper in zip(threads.ivs, threads.uppers, strict=True) if int_value(upper) == 1}
    own = tuple((m, c) for m, c in index.terms if set(m) & set(threads.ivs) and not set(m) & single)
    if not factor or len(own) < 2 or Polynomial(own) != linear:
        return index
    rest = Polynomial(tuple((m, c) for m, c in index.terms if not set(m) & set(threads.ivs)))
    return plus(rest, Polynomial((((_LINEAR,), factor),)))


# ---------------------------------------------------------------- isl


def _empty(one: Place, other: Place, threads: Threads, equal: Sequence[tuple[Polynomial, Polynomial]]) -> bool:
    """Whether no two different threads satisfy all of `equal` and the conditions."""
    count = len(threads.ivs)
    mine = {iv: f"a{index}" for index, iv in enumerate(threads.ivs)} | {_LINEAR: "a"}
    yours = {iv: f"b{index}" for index, iv in enumerate(threads.ivs)} | {_LINEAR: "b"}
    parts = [f"0 <= {side}{index} < {threads.extent(index)}" for index in range(count) for side in "ab"]
    parts += [f"0 <= {side} < {MOST_BLOCK_THREADS}" for side in "ab"]
    parts.append("a != b")  # the numbers of different threads differ
    for left, right in equal:
        parts.append(f"{_text(left, mine)} = {_text(right, yours)}")
    for place, names in ((one, mine), (other, yours)):
        parts += [text for condition in place.conditions if (text := _condition(condition, names)) is not None]
    different = " or ".join(f"a{index} != b{index}" for index in range(count))
    variables = ", ".join(["a", "b", *(f"{side}{index}" for side in "ab" for index in range(count))])
    return _isl_empty(f"{{ [{variables}] : {' and '.join(parts)} and ({different}) }}")


def _text(polynomial: Polynomial, names: Mapping[str, str]) -> str:
    parts = [str(c) if m == () else f"{c}*{names[m[0]]}" for m, c in polynomial.terms]
    return " + ".join(parts) or "0"


def _condition(condition: Condition, names: Mapping[str, str]) -> str | None:
    """Only conditions on thread indices alone."""
    if any(m != () and (len(m) > 1 or m[0] not in names) for m, _ in condition.difference.terms):
        return None
    return f"{_text(condition.difference, names)} {_RELATIONS[condition.relation]} 0"


_answers: dict[str, bool] = {}


def _isl_empty(text: str) -> bool:
    if text not in _answers:
        import islpy

        _answers[text] = bool(islpy.Set(text).is_empty())
    return _answers[text]
