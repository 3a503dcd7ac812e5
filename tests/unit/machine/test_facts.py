"""Facts of machine models are found by name: a misspelt one would be a default, silently."""

from __future__ import annotations

import re
from pathlib import Path

import threadloom
from threadloom.machine.devices import NAMES, device
from threadloom.machine.shares import shares, spilled

PACKAGE = Path(threadloom.__file__).parent
MODELS = {PACKAGE / "machine" / f"{name}.py" for name in NAMES}
DEVICES = [*(shared for name in NAMES for shared in shares(device(name), False, False)), spilled(device("h200"), 2)]
GIVEN = {fact for made in DEVICES for fact, _ in made.facts}


def sources() -> list[str]:
    return [path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py") if path not in MODELS]


def test_every_fact_that_is_asked_for_is_one_of_a_model():
    asked = {name for text in sources() for name in re.findall(r'\.fact\(\s*f?"(\w+)', text)}
    assert len(asked) > 30
    known = GIVEN | {re.sub(r"_\d$", "_", fact) for fact in GIVEN}  # worker_regs_2: of that many workers
    assert asked - known == set()


def test_every_fact_of_a_model_is_asked_for():
    whole = "\n".join(sources())
    numbered = {fact: re.sub(r"_\d$", "_", fact) for fact in GIVEN}
    assert [f for f, many in numbered.items() if f'("{f}"' not in whole and f'"{many}{{' not in whole] == []
