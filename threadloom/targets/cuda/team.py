"""The threads of one worker role, which work on a tile together."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Team:
    """`warps` of one worker; `proxies`: copies and products see shared memory by another path than the threads do, so
    that what threads write there needs a fence."""

    warps: int
    proxies: bool

    @property
    def threads(self) -> int:
        return 32 * self.warps

    @property
    def sync(self) -> str:
        """C statement: wait for all threads of the worker."""
        return f"group_sync(1 + worker, {self.threads});"


WARPGROUP = Team(4, proxies=True)  # Hopper's unit of products
BLOCK = Team(8, proxies=False)  # Ampere: one worker of all warps of the block
