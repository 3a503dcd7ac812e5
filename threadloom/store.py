"""The store of tuning results: one SQLite file, shared by processes, never in the way of a kernel.

Three tables, all keyed by device and:
  task_times   expression, tile sizes, unit: one sTask alone (the profiler)
  plan_times   kernel (a digest of its text), shape, dtypes, plan: its time, or that it failed or timed out; a
               search resumes from it
  plans        kernel, shape, dtypes: the plan chosen

Write-ahead log, so several processes may read and write; every record is its own transaction, so a killed search loses
nothing measured. A file that is no database is set aside with one message; a full disk is a clear error. The folder has
mode 0700. A time is only ever returned for the shape it was measured on; plans may be borrowed (sched/reuse.py).
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from threadloom.errors import CompileError, slug

STORE_FULL = slug("store-full", "the disk or quota is full and a tuning result cannot be stored")
STORE_UNUSABLE = slug("store-unusable", "the store of tuning results cannot be opened or made")

FILE = "store.sqlite"
VERSION = 1
BUSY_S = 10.0  # how long a process waits for another one's transaction

_SCHEMA = """
CREATE TABLE IF NOT EXISTS task_times (
  device TEXT, expression TEXT, sizes TEXT, unit TEXT, ns REAL, at REAL,
  PRIMARY KEY (device, expression, sizes, unit));
CREATE TABLE IF NOT EXISTS plan_times (
  device TEXT, kernel TEXT, shape TEXT, dtypes TEXT, plan TEXT, state TEXT, ns REAL, message TEXT, at REAL,
  PRIMARY KEY (device, kernel, shape, dtypes, plan));
CREATE TABLE IF NOT EXISTS plans (
  device TEXT, kernel TEXT, shape TEXT, dtypes TEXT, plan TEXT, ns REAL, predicted_ns REAL, at REAL,
  PRIMARY KEY (device, kernel, shape, dtypes));
"""


@dataclass(frozen=True, slots=True)
class Key:
    """What results are stored under. `shape` and `dtypes` are canonical texts: "K=1024,M=64"."""

    device: str
    kernel: str
    shape: str
    dtypes: str


@dataclass(frozen=True, slots=True)
class PlanTime:
    """`state`: ok, failed (with `message`), or timeout; `ns` is 0 unless ok."""

    plan: str
    state: str
    ns: float
    message: str = ""


@dataclass(frozen=True, slots=True)
class StoredPlan:
    shape: str
    plan: str
    ns: float
    predicted_ns: float


def shape_text(dims: dict[str, int]) -> str:
    return ",".join(f"{name}={extent}" for name, extent in sorted(dims.items()))


def parse_shape(text: str) -> dict[str, int]:
    return {name: int(extent) for name, _, extent in (part.partition("=") for part in text.split(",") if part)}


class Store:
    """An open store. Each call is one transaction."""

    def __init__(self, folder: Path):
        self.path = folder / FILE
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if folder.stat().st_uid == os.getuid():
                folder.chmod(0o700)
        except OSError as error:
            raise _unusable(folder, error) from error
        self._connection = self._open_or_set_aside()

    def close(self) -> None:
        self._connection.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------ times of sTasks

    def task_time(self, device: str, expression: str, sizes: str, unit: str) -> float | None:
        row = self._one(
            "SELECT ns FROM task_times WHERE device=? AND expression=? AND sizes=? AND unit=?",
            (device, expression, sizes, unit),
        )
        return None if row is None else row[0]

    def add_task_time(self, device: str, expression: str, sizes: str, unit: str, ns: float) -> None:
        self._write(
            "INSERT OR REPLACE INTO task_times VALUES (?,?,?,?,?,?)", (device, expression, sizes, unit, ns, time.time())
        )

    # ------------------------------------------------ times of plans

    def plan_times(self, key: Key) -> dict[str, PlanTime]:
        """Everything measured for exactly this key, by plan."""
        rows = self._all(
            "SELECT plan, state, ns, message FROM plan_times WHERE device=? AND kernel=? AND shape=? AND dtypes=?",
            (key.device, key.kernel, key.shape, key.dtypes),
        )
        return {row[0]: PlanTime(*row) for row in rows}

    def add_plan_time(self, key: Key, found: PlanTime) -> None:
        values = (key.device, key.kernel, key.shape, key.dtypes, found.plan, found.state, found.ns, found.message)
        self._write("INSERT OR REPLACE INTO plan_times VALUES (?,?,?,?,?,?,?,?,?)", (*values, time.time()))

    # ------------------------------------------------ chosen plans

    def plan(self, key: Key) -> StoredPlan | None:
        row = self._one(
            "SELECT shape, plan, ns, predicted_ns FROM plans WHERE device=? AND kernel=? AND shape=? AND dtypes=?",
            (key.device, key.kernel, key.shape, key.dtypes),
        )
        return None if row is None else StoredPlan(*row)

    def plans_of_other_shapes(self, key: Key) -> list[StoredPlan]:
        """Plans of the same kernel on the same device for other shapes; their times do not hold for this one."""
        rows = self._all(
            "SELECT shape, plan, ns, predicted_ns FROM plans WHERE device=? AND kernel=? AND dtypes=? AND shape<>?",
            (key.device, key.kernel, key.dtypes, key.shape),
        )
        return [StoredPlan(*row) for row in rows]

    def set_plan(self, key: Key, plan: str, ns: float, predicted_ns: float) -> None:
        values = (key.device, key.kernel, key.shape, key.dtypes, plan, ns, predicted_ns, time.time())
        self._write("INSERT OR REPLACE INTO plans VALUES (?,?,?,?,?,?,?,?)", values)

    # ------------------------------------------------ internals

    def _open_or_set_aside(self) -> sqlite3.Connection:
        try:
            return self._open()
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError) and not _is_corrupt(error):
                raise _unusable(self.path, error) from error
            self._set_aside(error)
            try:
                return self._open()
            except sqlite3.DatabaseError as again:
                raise _unusable(self.path, again) from again

    def _open(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=BUSY_S, isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=NORMAL")
            found = connection.execute("PRAGMA user_version").fetchone()[0]
            if found not in (0, VERSION):
                raise sqlite3.DatabaseError(f"made by another version ({found}, not {VERSION})")
            if connection.execute("PRAGMA quick_check(1)").fetchone()[0] != "ok":
                raise sqlite3.DatabaseError("its pages are damaged")
            connection.executescript(_SCHEMA)
            connection.execute(f"PRAGMA user_version={VERSION}")
        except sqlite3.DatabaseError:
            connection.close()
            raise
        return connection

    def _set_aside(self, error: sqlite3.DatabaseError) -> None:
        """Keep the bad file under another name (the user may want it) and say so, once."""
        kept = self.path.with_name(f"{FILE}.bad-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}")
        with contextlib.suppress(FileNotFoundError):
            self.path.rename(kept)
        for suffix in ("-wal", "-shm"):
            self.path.with_name(FILE + suffix).unlink(missing_ok=True)
        print(f"threadloom: {self.path} is no usable store ({error}); kept as {kept.name}", file=sys.stderr)

    @contextlib.contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            if "full" in str(error):
                raise CompileError(
                    STORE_FULL,
                    f"{self.path} cannot grow: {error}",
                    why="what was measured before is stored",
                    try_="free some space, or set LOOM_CACHE to another folder",
                ) from error
            raise _unusable(self.path, error) from error
        except sqlite3.DatabaseError as error:
            raise _unusable(self.path, error) from error

    def _one(self, sql: str, values: tuple) -> tuple | None:
        with self._translated():
            return self._connection.execute(sql, values).fetchone()

    def _all(self, sql: str, values: tuple) -> list[tuple]:
        with self._translated():
            return self._connection.execute(sql, values).fetchall()

    def _write(self, sql: str, values: tuple) -> None:
        with self._translated():
            self._connection.execute(sql, values)


def _is_corrupt(error: sqlite3.OperationalError) -> bool:
    return "malformed" in str(error) or "not a database" in str(error)


def _unusable(path: Path, error: Exception) -> CompileError:
    return CompileError(
        STORE_UNUSABLE, f"{path} cannot be used: {error}", try_="LOOM_CACHE names another folder; `off` keeps nothing"
    )


def open_store() -> Store | None:
    """The store that LOOM_CACHE names; None where nothing is to be kept."""
    from threadloom import env

    folder = env.cache_folder()
    return None if folder is None else Store(folder)


def dumps(record: dict) -> str:
    """Canonical JSON: equal records have equal texts."""
    return json.dumps(record, sort_keys=True, separators=(",", ":"))
