"""Run other people's programs: bounded in time and memory, and nothing left behind."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import select
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

OUTPUT_LIMIT_BYTES = 4 << 20
_PR_SET_PDEATHSIG = 1
# Looking costs milliseconds of a core that the program may be timed on: its end is waited for, not looked for.
_LOOK_EVERY_S = 0.25
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, slots=True)
class Limits:
    """CPU seconds and resident bytes of all processes together.

    A loaded machine makes nothing fail: the clock's limit is ten times that of CPU time, and ten minutes at least.
    Processes that for `idle_s` want no CPU time at all wait for what will not come.
    """

    cpu_s: float
    memory_bytes: int = 6 << 30
    idle_s: float = 60

    @property
    def wall_s(self) -> float:
        return max(600.0, 10 * self.cpu_s)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command did. `status` is negative for a signal; `stopped` says which limit ended it: "CPU time", "clock",
    "idle", "memory", "output", or "" if none did."""

    status: int
    seconds: float
    cpu_s: float
    output: str
    stopped: str = ""

    @property
    def good(self) -> bool:
        return self.status == 0 and not self.stopped


def run(command: list[str], cwd: Path, limits: Limits, environment: dict[str, str] | None = None) -> Outcome:
    """Run `command` in a session of its own; on a limit, or when we end, the whole session is killed."""
    log = cwd / ".output"
    with open(log, "wb") as sink:
        start = time.perf_counter()
        child = subprocess.Popen(
            command,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
            start_new_session=True,
            preexec_fn=lambda: _bound(limits),
        )
        cpu_s, busy_at, stopped, ended = 0.0, start, "", False
        handle = os.pidfd_open(child.pid)
        try:
            while not stopped:
                ended = bool(select.select([handle], [], [], _LOOK_EVERY_S)[0])
                now = time.perf_counter()  # one that has ended still tells what it took, until it is waited for
                cpu_now, resident, runs = _usage(child.pid)
                if cpu_now > cpu_s or runs:
                    busy_at = now
                cpu_s = max(cpu_s, cpu_now)
                if ended:
                    break
                if cpu_s > limits.cpu_s:
                    stopped = "CPU time"
                elif now - start > limits.wall_s:
                    stopped = "clock"
                elif now - busy_at > limits.idle_s:
                    stopped = "idle"
                elif resident > limits.memory_bytes:
                    stopped = "memory"
                elif log.stat().st_size > 64 * OUTPUT_LIMIT_BYTES:
                    stopped = "output"
            seconds = now - start
        finally:
            os.close(handle)
            _kill_session(child.pid)
            child.wait()
    return Outcome(child.returncode, seconds, cpu_s, _tail(log), stopped)


def die_with_parent() -> None:
    """In a child: be killed when the thread that started it ends, however that comes about."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _bound(limits: Limits) -> None:
    """In the child: die with our parent, no core files, and a last bound on CPU time should the parent be killed."""
    die_with_parent()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    bound = int(limits.cpu_s) + 5
    resource.setrlimit(resource.RLIMIT_CPU, (bound, bound))


def _session(leader: int) -> list[tuple[int, list[str]]]:
    """Processes of the session that `leader` leads: id, and the fields of /proc/ID/stat from the state on."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            text = Path("/proc", entry, "stat").read_text(errors="replace")
        except OSError:
            continue
        fields = text[text.rindex(")") + 2 :].split()
        if int(fields[3]) == leader:
            found.append((int(entry), fields))
    return found


def _usage(leader: int) -> tuple[float, int, bool]:
    """CPU seconds (finished children included) and resident bytes of a session, and whether one of its processes
    could run now (or waits for a disk)."""
    fields = [fields for _, fields in _session(leader)]
    ticks = sum(int(value) for one in fields for value in one[11:15])
    runs = any(one[0] in "RD" for one in fields)
    return ticks / _TICKS, sum(int(one[21]) for one in fields) * _PAGE_BYTES, runs


def _kill_session(leader: int) -> None:
    for _ in range(20):
        alive = [(pid, fields) for pid, fields in _session(leader) if fields[0] != "Z"]
        if not alive:
            return
        for pid, _fields in alive:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.02)


def _tail(log: Path) -> str:
    """The output, or its first and last halves where it is long."""
    data = log.read_bytes()
    log.unlink()
    if len(data) > OUTPUT_LIMIT_BYTES:
        half = OUTPUT_LIMIT_BYTES // 2
        data = data[:half] + b"\n...\n" + data[-half:]
    return data.decode(errors="replace")
