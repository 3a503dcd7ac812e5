"""Which values share memory: a loop's accumulator is updated in place where nothing reads the old value later.

Every read and write of a value has a position: the index of its step in each enclosing body, then its path in the
loop nest. A new value may take the place of an old one if no read of the old one comes after the write of the new
one; at the same position a read is of the same element, before the write.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from threadloom.targets.cpu.layout import Layout
from threadloom.targets.cpu.plan import Home
from threadloom.tile.ops import Value

Position = tuple[int, ...]
AT_END = 1 << 30  # the index of a body's yields


@dataclass(slots=True)
class Places:
    """Layouts of the values that need memory, and which of them share it."""

    layouts: dict[str, Layout] = field(default_factory=dict)
    reads: dict[str, list[Position]] = field(default_factory=dict)
    writes: dict[str, Position] = field(default_factory=dict)
    _parent: dict[str, str] = field(default_factory=dict)

    def read(self, name: str, position: Position) -> None:
        self.reads.setdefault(name, []).append(position)

    def buffer(self, name: str) -> str:
        while (parent := self._parent.get(name, name)) != name:
            name = parent
        return name

    def home(self, name: str) -> Home:
        return Home(self.buffer(name), self.layouts[name])

    def shared(self, left: Value, right: Value) -> bool:
        return self.buffer(left.name) == self.buffer(right.name)

    def share(self, left: str, right: str) -> None:
        self._parent[self.buffer(right)] = self.buffer(left)

    def try_share(self, old: Value, new: Value) -> bool:
        """Let `new` (and what shares its memory) overwrite `old` if nothing reads `old` after the first write."""
        if old.name not in self.layouts or self.layouts[old.name] != self.layouts.get(new.name):
            return False
        if self.shared(old, new):
            return True
        place = self.buffer(new.name)
        written = min((at for name, at in self.writes.items() if self.buffer(name) == place), default=())
        if not written or any(position > written for position in self.reads.get(old.name, ())):
            return False
        self.share(old.name, new.name)
        return True
