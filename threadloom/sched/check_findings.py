"""What the checker says about an sProgram."""

from __future__ import annotations

from dataclasses import dataclass, replace

from threadloom.sched.ops import Reason


@dataclass(frozen=True, slots=True)
class Finding:
    """One reason why a program is refused: `slug` the rule, `edge` (src -> dst) and `buffer` it breaks, the running
    `instance` of the first offender, the trip counts that show it."""

    slug: str
    message: str
    src: str = ""
    dst: str = ""
    buffer: str = ""
    role: str = ""
    instance: int = 0
    trips: str = ""

    @property
    def site(self) -> tuple[str, str, str, str, str]:
        """Findings of one site differ only in instance and trip counts; one of them is reported."""
        return (self.slug, self.src, self.dst, self.buffer, self.role)

    def __str__(self) -> str:
        over = f" over {self.buffer}" if self.buffer else ""
        edge = f" [{self.src} -> {self.dst}{over}]" if self.src and self.dst else ""
        where = f" (instance {self.instance}; {self.trips})" if self.trips else ""
        return f"{self.slug}: {self.message}{edge}{where}"


def along(reason: Reason, slug: str, message: str, role: str = "", instance: int = 0) -> Finding:
    """A finding on the edge that `reason` names."""
    return Finding(slug, message, reason.src, reason.dst, reason.buffer, role, instance)


class Findings:
    """Collects findings, the first of each site only."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, str, str, str], Finding] = {}

    def add(self, finding: Finding, trips: str = "") -> None:
        self._found.setdefault(finding.site, replace(finding, trips=trips) if trips else finding)

    def __bool__(self) -> bool:
        return bool(self._found)

    def list(self) -> list[Finding]:
        return list(self._found.values())
