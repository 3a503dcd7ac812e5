"""Plans that came with the package: what was measured on a device for common shapes, so that they need no tuning.

One file for each device under `threadloom/plans`, written by `write` from a store of tuning results. A file of another
form (another version wrote it) counts as empty, and so does a plan in it that can no longer be made: whoever asks gets
the model's plan. What is in the user's own store comes first.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from pathlib import Path

from threadloom.store import Key, StoredPlan, dumps

SCHEMA = "threadloom.plans/1"
FORM = 1  # of the recipes' text; raised when a recipe comes to mean another plan


@dataclass(frozen=True, slots=True)
class Shipped:
    """Plans by (kernel, dtypes), then by shape."""

    plans: dict[tuple[str, str], dict[str, StoredPlan]] = field(default_factory=dict)

    def plan(self, key: Key) -> StoredPlan | None:
        return self.plans.get((key.kernel, key.dtypes), {}).get(key.shape)

    def plans_of_other_shapes(self, key: Key) -> list[StoredPlan]:
        found = self.plans.get((key.kernel, key.dtypes), {})
        return [plan for shape, plan in found.items() if shape != key.shape]


def read(text: str) -> Shipped:
    """The plans in a file's text; none where it has another form."""
    try:
        record = json.loads(text)
        if record["schema"] != SCHEMA or record["form"] != FORM:
            return Shipped()
        made = Shipped()
        for row in record["plans"]:
            plan = StoredPlan(row["shape"], dumps(row["plan"]), float(row["ns"]), float(row["predicted_ns"]))
            made.plans.setdefault((row["kernel"], row["dtypes"]), {})[row["shape"]] = plan
        return made
    except (ValueError, KeyError, TypeError):
        return Shipped()


@lru_cache(maxsize=16)
def shipped(device: str) -> Shipped:
    """The plans for `device`."""
    if not all(ch.isalnum() or ch in "-_" for ch in device):
        return Shipped()
    file = resources.files("threadloom").joinpath("plans", f"{device}.json")
    try:
        return read(file.read_text(encoding="utf-8"))
    except OSError:
        return Shipped()


def write(path: Path, device: str, rows: list[tuple[Key, StoredPlan]], measured: dict[str, str]) -> None:
    """Write the plans of `rows` to `path`; `measured`: where and when (text)."""
    plans = [
        {"kernel": key.kernel, "shape": key.shape, "dtypes": key.dtypes, "plan": json.loads(plan.plan),
         "ns": round(plan.ns), "predicted_ns": round(plan.predicted_ns)}
        for key, plan in sorted(rows, key=lambda row: (row[0].kernel, row[0].dtypes, row[0].shape))
    ]  # fmt: skip
    head = {"schema": SCHEMA, "form": FORM, "device": device, "measured": measured}
    lines = ",\n  ".join(dumps(plan) for plan in plans)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f'{dumps(head)[:-1]},"plans":[\n  {lines}\n]}}\n', encoding="utf-8")
