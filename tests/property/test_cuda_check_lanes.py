"""Random warp operations under random conditions: both engines of `loom check` find the same ones to lack lanes."""

from __future__ import annotations

import ctypes
import random

import pytest
from oracle.test_cuda_check_agreement import _compiled_findings, _interpreted_findings, _module
from quick import some

LANES = {65535: "icmp ult i32 LANE, 16", -65536: "icmp uge i32 LANE, 16", 255: "icmp ult i32 LANE, 8"}

TRIPS = ("lshr i32 %t, 5", "lshr i32 %t, 4", "and i32 %t, 3", "and i32 %m, 3")


class _Body:
    def __init__(self, seed: int):
        self.random, self.lines, self.values = random.Random(seed), ["%lane = and i32 %t, 31"], 0
        self.statements(0, self.random.randint(3, 6))
        if self.random.random() < 0.7:  # else some lanes have exited where they stand aside
            self.lines.append("store i32 3, ptr %po")

    def fresh(self) -> str:
        self.values += 1
        return f"%u{self.values}"

    def let(self, operation: str) -> str:
        self.lines.append(f"{self.fresh()} = {operation}")
        return f"%u{self.values}"

    def statements(self, depth: int, count: int) -> None:
        for _ in range(count):
            self.statement(depth)

    def statement(self, depth: int) -> None:
        kind = self.random.choice(["meet", "meet", "store", "if", "if", "loop"] if depth < 3 else ["meet", "store"])
        match kind:
            case "meet":
                self.meet()
            case "store":
                self.lines.append("store i32 1, ptr %s")
            case "if":
                other = self.random.random() < 0.4
                self.branch(self.condition(), lambda: self.statements(depth + 1, self.random.randint(1, 2)),
                            lambda: self.statements(depth + 1, other))  # fmt: skip
            case "loop":
                trips = self.let(self.random.choice(TRIPS))
                self.lines.append(f"for {self.fresh()} = i32 0 to {trips} step 1 {{")
                self.statements(depth + 1, self.random.randint(1, 2))
                self.lines += ["yield", "}"]

    def condition(self) -> str:
        if self.random.random() < 0.3:
            return self.let(f"icmp eq i32 {self.let(f'and i32 %t, {self.random.choice([1, 8, 16])}')}, 0")
        order, bound = self.random.choice(["slt", "sge"]), self.random.choice([1, 8, 16, 31, 32, 40])
        return self.let(f"icmp {order} i32 %t, {bound}")

    def branch(self, condition: str, then, otherwise) -> None:
        self.lines.append(f"if i1 {condition} {{")
        then()
        self.lines += ["yield", "} else {"]
        otherwise()
        self.lines += ["yield", "}"]

    def meet(self) -> None:
        """Of a part of a warp only where its lanes are: others may not name it."""
        mask = self.random.choice([-1, -1, *LANES])
        if mask == -1:
            self.operation(mask)
        else:
            self.branch(self.let(LANES[mask].replace("LANE", "%lane")), lambda: self.operation(mask), lambda: None)

    def operation(self, mask: int) -> None:
        match self.random.choice(["shfl", "syncwarp", "vote"]):
            case "shfl":
                kind, by = self.random.choice(["xor", "down", "up"]), self.random.choice([1, 4, 16])
                self.let(f"call i32 @loom.shfl.sync.{kind}.i32(i32 {mask}, i32 %t, i32 {by}, i32 32)")
            case "syncwarp":
                self.lines.append(f"call void @loom.syncwarp(i32 {mask})")
            case "vote":
                self.let(f"call i32 @loom.vote.sync.any(i32 {mask}, i32 %t)")


@pytest.fixture(scope="module")
def runtime() -> ctypes.CDLL:
    from threadloom.cuda import runtime_library

    return ctypes.CDLL(str(runtime_library.folder() / "libcudart.so"))


@pytest.mark.parametrize("seed", some(range(60), range(3)))
def test_the_engines_name_the_same_operations(seed: int, runtime: ctypes.CDLL) -> None:
    module = _module("\n".join(_Body(seed).lines))
    interpreted, compiled = (
        {lines for kind, lines in found if kind == "absent-lanes"}
        for found in (_interpreted_findings(module), _compiled_findings(module, runtime))
    )
    assert interpreted == compiled, "\n".join(_Body(seed).lines)
