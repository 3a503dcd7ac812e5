"""Memory of the interpreter: named allocations, and what goes wrong with them.

An address is `allocation number << 32 | ORIGIN + offset`, so any address that leaves its allocation is noticed. Every
access made inside a parallel region is remembered with its work-item and the barriers passed: two accesses to a
byte, one of them a write, at least one of them not atomic, by work-items of one region between the same barriers, are
a race, unless fences and atomics order them (interp_order.py). Of a work-item that has plainly written a byte, later
reads at the same position add nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from threadloom.errors import InternalError
from threadloom.par.interp_order import Order, Position, unordered
from threadloom.par.ops import Leaf, Space
from threadloom.par.text import print_op
from threadloom.source import Loc

OFFSET_BITS = 32
ORIGIN = 1 << 30  # offset 0; smaller ones lie before the allocation
WORD_BYTES = 4
UNINITIALISED = 0xCB  # what uninitialised memory reads as
MOST_FINDINGS = 200


@dataclass(frozen=True, slots=True)
class Finding:
    """Something the program must not do. kind: race, divergent-barrier, out-of-bounds, uninitialised, undefined."""

    kind: str
    message: str
    locs: tuple[Loc, ...] = ()

    def __str__(self) -> str:
        where = ", ".join(str(loc) for loc in self.locs)
        return f"{self.kind}: {self.message}" + (f" ({where})" if where else "")


@dataclass(slots=True)
class _Access:
    position: Position
    leaf: Leaf
    atomic: bool
    time: int


@dataclass(slots=True)
class _Shadow:
    """Who touched one word last, or one byte of a word that is accessed in parts."""

    write: _Access | None = None
    reads: dict[Position, _Access] = field(default_factory=dict)

    def copy(self) -> _Shadow:
        return _Shadow(self.write, dict(self.reads))


@dataclass(slots=True)
class Allocation:
    name: str
    content: memoryview
    initialised: bytearray
    space: Space | None  # None: given by the caller, a global, or from malloc
    writable: bool = True
    alive: bool = True
    shadow: dict[int, _Shadow | list[_Shadow]] = field(default_factory=dict)  # by word; a list: one per byte

    def touched(self, offset: int, bytes_: int) -> Iterator[tuple[int, _Shadow]]:
        """The shadows of the bytes [offset, offset + bytes_), whole words as one, each with its first byte."""
        for word in range(offset // WORD_BYTES, (offset + bytes_ - 1) // WORD_BYTES + 1):
            first, found = word * WORD_BYTES, self.shadow.get(word)
            if found is None:
                found = self.shadow[word] = _Shadow()
            whole = offset <= first and first + WORD_BYTES <= offset + bytes_
            if whole and isinstance(found, _Shadow):
                yield first, found
                continue
            if isinstance(found, _Shadow):
                found = self.shadow[word] = [found.copy() for _ in range(WORD_BYTES)]
            for byte in range(max(first, offset), min(first + WORD_BYTES, offset + bytes_)):
                yield byte, found[byte - first]


class Memory:
    def __init__(self) -> None:
        self.allocations: list[Allocation | None] = [None]  # number 0 is null
        self.findings: list[Finding] = []
        self.order = Order()
        self._told: set[tuple[object, ...]] = set()

    def allocate(self, name: str, bytes_: int, space: Space | None = None, initial: bytes | None = None) -> int:
        content = memoryview(bytearray(initial if initial is not None else bytes([UNINITIALISED]) * bytes_))
        return self.adopt(Allocation(name, content, bytearray([initial is not None]) * bytes_, space))

    def adopt(self, allocation: Allocation) -> int:
        if len(allocation.content) > ORIGIN:
            raise InternalError(f"{allocation.name} is too large for the interpreter")
        self.allocations.append(allocation)
        return ((len(self.allocations) - 1) << OFFSET_BITS) + ORIGIN

    def free(self, address: int) -> None:
        if (found := self._allocation(address)) is not None:
            found.alive = False

    def protect(self, address: int) -> None:
        """Make an allocation read-only."""
        if (found := self._allocation(address)) is not None:
            found.writable = False

    def _allocation(self, address: int) -> Allocation | None:
        number = address >> OFFSET_BITS
        return self.allocations[number] if 0 < number < len(self.allocations) else None

    def report(self, kind: str, message: str, *leaves: Leaf, key: object = None) -> None:
        """Record a finding, once per kind and place."""
        told = (kind, key, *(id(leaf) for leaf in leaves))
        if told in self._told or len(self.findings) >= MOST_FINDINGS:
            return
        self._told.add(told)
        self.findings.append(Finding(kind, message, tuple(leaf.loc for leaf in leaves if leaf.loc is not None)))

    # ------------------------------------------------------------ accesses

    def read(self, address: int, bytes_: int, position: Position, leaf: Leaf, atomic: bool = False) -> bytes:
        found, offset = self._checked(address, bytes_, leaf, "read")
        if found is None:
            return bytes(bytes_)
        if 0 in found.initialised[offset : offset + bytes_]:
            kind = str(found.space) if found.space else "allocated"
            self.report("uninitialised", f"read of uninitialised {kind} memory %{found.name}+{offset}", leaf)
        if position and found.space is not Space.PRIVATE:
            access = _Access(position, leaf, atomic, self.order.tick())
            for byte, shadow in found.touched(offset, bytes_):
                self._note_read(found, byte, shadow, access)
            if atomic:
                self.order.acquire(address, position)
        return bytes(found.content[offset : offset + bytes_])

    def write(self, address: int, image: bytes, position: Position, leaf: Leaf, atomic: bool = False) -> None:
        found, offset = self._checked(address, len(image), leaf, "write")
        if found is None:
            return
        if not found.writable:
            self.report("out-of-bounds", f"write to read-only memory {found.name}", leaf)
            return
        found.content[offset : offset + len(image)] = image
        found.initialised[offset : offset + len(image)] = b"\1" * len(image)
        if position and found.space is not Space.PRIVATE:
            access = _Access(position, leaf, atomic, self.order.tick())
            for byte, shadow in found.touched(offset, len(image)):
                self._note_write(found, byte, shadow, access)
            if atomic:
                self.order.release(address, position)

    def _checked(self, address: int, bytes_: int, leaf: Leaf, what: str) -> tuple[Allocation | None, int]:
        found, offset = self._allocation(address), (address & ((1 << OFFSET_BITS) - 1)) - ORIGIN
        if found is None:
            self.report("out-of-bounds", f"{what} of {bytes_} bytes at {_describe(address)}", leaf)
            return None, 0
        if offset < 0 or offset + bytes_ > len(found.content) or not found.alive:
            ended = "" if found.alive else ", which is freed"
            size = f"{len(found.content)} bytes"
            message = f"{what} of {bytes_} bytes at offset {offset} of {found.name} ({size}){ended}"
            self.report("out-of-bounds", message, leaf)
            return None, 0
        return found, offset

    def _note_read(self, found: Allocation, byte: int, shadow: _Shadow, access: _Access) -> None:
        written = shadow.write
        if written is not None and written.position is not access.position:
            self._compare(found, byte, written, access)
        elif written is not None and not written.atomic and not self.order.fenced_since(access.position, written.time):
            return
        shadow.reads.setdefault(access.position, access)

    def _note_write(self, found: Allocation, byte: int, shadow: _Shadow, access: _Access) -> None:
        for earlier in self._earlier(shadow):
            if earlier.position is not access.position:
                self._compare(found, byte, earlier, access)
        shadow.write, shadow.reads = access, {}

    @staticmethod
    def _earlier(shadow: _Shadow) -> Iterator[_Access]:
        if shadow.write is not None:
            yield shadow.write
        yield from shadow.reads.values()

    def _compare(self, found: Allocation, byte: int, one: _Access, other: _Access) -> None:
        if (one.atomic and other.atomic) or not unordered(one.position, other.position):
            return
        if self.order.happens_before(one.position, one.time, other.position):
            return
        items = " and ".join("/".join(str(step.item) for step in access.position) for access in (one, other))
        texts = "` and `".join(print_op(access.leaf) for access in (one, other))
        self.report("race", f"work-items {items} on {found.name}+{byte}: `{texts}`", one.leaf, other.leaf)


def _describe(address: int) -> str:
    return "null" if address == 0 else f"address {address:#x}, which belongs to nothing"
