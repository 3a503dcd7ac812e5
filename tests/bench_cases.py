"""Cases whose peers do not return, for tests of limits: they are made in another process, so in a module of its own."""

from __future__ import annotations

import os
import time

from threadloom.bench.operators import Case


def stuck() -> Case:
    return Case("stuck", lambda: None, {"quick": lambda: None, "stuck": lambda: time.sleep(60)}, 1.0)


def alone() -> Case:
    return Case("alone", lambda: time.sleep(0.01), {"stuck": lambda: time.sleep(60)}, 1.0)


def dead() -> Case:
    return Case("dead", lambda: None, {"dead": lambda: os._exit(3)}, 1.0)


def never() -> Case:
    time.sleep(60)
    raise AssertionError
