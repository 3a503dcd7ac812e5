"""The oracle: executes a par function and says what it did wrong.

    outcome = interpret(module, "scale", [array, 10])      # array changes in place
    outcome.findings                                       # races, divergent barriers, out-of-bounds ...

Work-items run one at a time between barriers, in order, so the run is deterministic. Arrays are the caller's memory;
anything else that the program touches is checked against the allocation it belongs to. One semantics, two engines:
compiled code must give the same results (tests/property), and the compiled checker the same findings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from threadloom.errors import InternalError
from threadloom.par import interp_calls, interp_parallel
from threadloom.par.interp_code import Code, Returned, RunPausing
from threadloom.par.interp_constants import evaluate
from threadloom.par.interp_leaf_code import Env, Run
from threadloom.par.interp_memory import Allocation, Finding, Memory
from threadloom.par.interp_parallel import Item, Rendezvous
from threadloom.par.interp_values import POISON, InterpValue, round_float, to_bytes
from threadloom.par.leaf_parsing import LeafParser
from threadloom.par.lexing import Cursor
from threadloom.par.ops import Const, Float, Function, Int, Leaf, Module, Parallel, Ptr, Type, Vector
from threadloom.par.result_types import size_bytes

Argument = int | float | bool | None | tuple | np.ndarray
External = Callable[..., InterpValue]
MOST_STEPS = 50_000_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """value: what the function returned (integers signed); output: what it printed."""

    value: InterpValue
    findings: tuple[Finding, ...]
    output: str

    def kinds(self) -> set[str]:
        return {finding.kind for finding in self.findings}


def interpret(module: Module, function: str, args: Sequence[Argument], *,
              externals: Mapping[str, External] | None = None, rendezvous: Sequence[Rendezvous] = (),
              most_steps: int = MOST_STEPS) -> Outcome:  # fmt: skip
    """Run `function`. NumPy arrays become pointers to their memory (contiguous ones only); None is null.

    externals: Python functions for declared functions, on interpreter values. rendezvous: declared functions that
    several work-items do together (warp collectives).
    """
    interpreter = Interpreter(module, externals or {}, rendezvous, most_steps)
    value = interpreter.run(function, args)
    return Outcome(value, tuple(interpreter.memory.findings), "".join(interpreter.output))


class Interpreter:
    """One run's state: memory, compiled functions, printed text."""

    def __init__(self, module: Module, externals: Mapping[str, External], rendezvous: Sequence[Rendezvous],
                 most_steps: int):  # fmt: skip
        self.module, self.externals, self.memory = module, externals, Memory()
        self.rendezvous = {one.callee: one for one in rendezvous}
        self.functions = {function.name: function for function in module.functions}
        self.named_types = _named_types(module)
        self.output: list[str] = []
        self.code = Code(self)
        self.steps, self._most_steps = 0, most_steps
        self._bodies: dict[str, Run] = {}
        self._addresses: dict[str, int] = {}
        self._name_at: dict[int, str] = {}
        self._locals: list[list[int]] = []
        self._place_globals()

    # ------------------------------------------------------------ globals and arguments

    def _place_globals(self) -> None:
        for variable in self.module.globals:
            self._addresses[variable.name] = self.memory.allocate(variable.name, size_bytes(variable.type))
        for variable in self.module.globals:
            if variable.init in (None, "undef", "poison"):
                continue
            value = evaluate(Const(variable.type, str(variable.init)), self.address_of, self.named_types)
            image = to_bytes(variable.type, value)
            address = self._addresses[variable.name]
            self.memory.write(address, image, (), Leaf("store", ()))
            if variable.constant:
                self.memory.protect(address)

    def address_of(self, name: str) -> int:
        if name not in self._addresses:
            if name not in self.functions:
                raise InternalError(f"@{name} is neither a global nor a function")
            self._addresses[name] = address = self.memory.allocate(name, 0)
            self._name_at[address] = name
        return self._addresses[name]

    def function_at(self, address: InterpValue) -> str:
        return self._name_at.get(address, "") if isinstance(address, int) else ""

    def argument(self, value: Argument, type_: Type) -> InterpValue:
        match type_, value:
            case Ptr(), np.ndarray():
                return self._adopt(value)
            case Ptr(), None:
                return 0
            case (Ptr(), int()):
                return value
            case Int(bits), int() | np.integer():
                return int(value) % (1 << bits)
            case Float(kind), int() | float() | np.floating():
                return round_float(float(value), kind)
            case Vector(lanes, element), tuple() if len(value) == lanes:
                return tuple(self.argument(lane, element) for lane in value)
        raise InternalError(f"{value!r} is no argument of type {type_!r}")

    def _adopt(self, array: np.ndarray) -> int:
        if not array.flags.c_contiguous:
            raise InternalError("the interpreter takes contiguous arrays")
        content = memoryview(array.view(np.uint8).reshape(-1)) if array.size else memoryview(bytearray())
        content = content.cast("B")
        return self.memory.adopt(
            Allocation("argument", content, bytearray(b"\1") * len(content), None, array.flags.writeable)
        )

    # ------------------------------------------------------------ running

    def run(self, name: str, args: Sequence[Argument]) -> InterpValue:
        function = self.functions.get(name)
        if function is None or function.body is None:
            raise InternalError(f"@{name} is not defined")
        if len(args) != len(function.params):
            raise InternalError(f"@{name} takes {len(function.params)} arguments, got {len(args)}")
        values = [self.argument(arg, param.value.type) for arg, param in zip(args, function.params, strict=True)]
        result = self.invoke(name, values, Item())
        return _shown(result, function.result)

    def invoke(self, name: str, args: Sequence[InterpValue], item: Item) -> InterpValue:
        """Call a function of the module with interpreter values."""
        function = self.functions[name]
        if function.body is None:
            raise InternalError(f"@{name} has no body and no stand-in")
        if name not in self._bodies:
            self._bodies[name] = self.code.block(function.body)
        env: Env = {param.value.name: arg for param, arg in zip(function.params, args, strict=True)}
        self._locals.append([])
        try:
            self._bodies[name](env, item)
        except Returned as returned:
            return returned.value
        finally:
            for address in self._locals.pop():
                self.memory.free(address)
        raise InternalError(f"@{name} ended without return")

    def lifetime(self, address: int) -> None:
        """An alloca lives until its function returns."""
        self._locals[-1].append(address)

    def tick(self, steps: int) -> None:
        self.steps += steps + 1
        if self.steps > self._most_steps:
            raise InternalError(f"more than {self._most_steps} steps; an endless loop?")

    def parallel(self, op: Parallel) -> Run:
        if self.code.may_wait(op.body):
            return interp_parallel.run_to_end(interp_parallel.compile_pausing(self, op))
        return interp_parallel.compile_plain(self, op)

    def pausing_parallel(self, op: Parallel) -> RunPausing:
        return interp_parallel.compile_pausing(self, op)

    def call(self, leaf: Leaf) -> Run:
        args, name = self.code.gets(leaf.operands), leaf.result.name if leaf.result else ""
        callee = interp_calls.resolve(self, leaf)

        def run(env: Env, item: Item) -> None:
            env[name] = callee(item, *args(env))

        return run

    def definition(self, name: str) -> Callable[..., InterpValue] | None:
        """`name` as a Python function of (item, *args): an external of the caller's, or a function of the module."""
        if name in self.externals:
            external = self.externals[name]
            return lambda item, *args: external(*args)
        function: Function | None = self.functions.get(name)
        if function is None or function.body is None:
            return None
        return partial(_invoke, self, name)


def _invoke(interpreter: Interpreter, name: str, item: Item, *args: InterpValue) -> InterpValue:
    return interpreter.invoke(name, args, item)


def _named_types(module: Module) -> dict[str, Type]:
    known: dict[str, Type] = {}
    for name, body in module.named_types:
        parser = LeafParser(Cursor(body, "<type>"))
        parser.named_types = known
        known[name] = parser.type()
    return known


def _shown(value: InterpValue, type_: Type) -> InterpValue:
    """Integers signed, as Python users expect; i1 as 0 or 1."""
    if isinstance(type_, Int) and isinstance(value, int) and type_.bits > 1:
        return value - (1 << type_.bits) if value >> (type_.bits - 1) else value
    return value


__all__ = ["POISON", "Finding", "Outcome", "Rendezvous", "interpret"]
