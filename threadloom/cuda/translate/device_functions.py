"""Device functions that stay functions (recursive, virtual, called through a pointer), as functions of C++.

    define i32 @_Z3fibi(ptr %context, i32 %n)  ->  int fib_on_cpu(int n) { char *context = loom::context; ... }

The calling thread's record, which level par passes as the first argument (raise_functions.py), goes by the variable
`loom::context` instead: then a pointer to such a function has the type that it has in the user's source. Where the
host's text declares the function, the symbol is the user's own, so `__device__ op table[] = {add, mul}` points here.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence

from threadloom.cuda.arguments import demangle
from threadloom.cuda.kernel import CONTEXT
from threadloom.cuda.translate.cxx_values import PRIMARY, UNARY, Expr, type_text
from threadloom.cuda.translate.kernel_text import KernelText
from threadloom.cuda.translate.names import Names
from threadloom.par.interp_constants import evaluate
from threadloom.par.ops import I8, PTR, VOID, Array, Const, Function, Global, Param, Ptr, Struct, Type
from threadloom.par.walk import operands, walk
from threadloom.writer import Writer

# To g++ a static function that it does not see defined has the name of one that is not static.
_STATIC = re.compile(r"^_Z(N(?:\d+\w+?)*)?L(?=\d)")


def _external(match: re.Match[str]) -> str:
    return "_Z" + (match[1] or "")


class DeviceFunctions:
    """Those of one file. `declared`: plain names of the device functions that the host's text declares."""

    def __init__(self, functions: Iterable[Function], declared: Collection[str]):
        self.functions = {function.name: function for function in functions}
        self.declared = declared
        self.names: dict[str, str] = {}
        for symbol in self.functions:
            wanted = re.sub(r"\W+", "_", _path(symbol).replace("~", "destroy_")).strip("_") + "_on_cpu"
            count = sum(re.fullmatch(rf"{wanted}\d*", name) is not None for name in self.names.values())
            self.names[symbol] = f"{wanted}{count + 1}" if count else wanted

    def expressions(self) -> dict[str, Expr]:
        """How C++ calls them, and how it says their addresses."""
        calls = {symbol: Expr(name, PRIMARY, PTR) for symbol, name in self.names.items()}
        addresses = {}
        for symbol, name in self.names.items():
            for spelling in (f"@{symbol}", f'@"{symbol}"'):
                addresses[spelling] = Expr(f"(char *)&{name}", UNARY, PTR, pointee=I8)
        return calls | addresses

    def declare(self, writer: Writer) -> None:
        for symbol, function in self.functions.items():
            is_users = _path(symbol).split("::")[-1] in self.declared
            label = f' asm("{_STATIC.sub(_external, symbol)}")' if is_users else ""
            writer.line(f"{'' if label else 'static '}{self._head(function, _parameters(function))}{label};")

    def define(self, constants: dict[str, Expr], known: dict[str, dict[str, str]], taken: Sequence[str],
               writer: Writer) -> None:  # fmt: skip
        for symbol, function in self.functions.items():
            assert function.body is not None
            names = Names(known.get(symbol, {}), (*taken, "context"))
            values = {CONTEXT.name: Expr("context", PRIMARY, PTR, pointee=I8)}
            given = []
            for param in _parameters(function):
                name = names.take(param.value.name)
                pointee = I8 if isinstance(param.value.type, Ptr) else None
                values[param.value.name] = Expr(name, PRIMARY, param.value.type, pointee=pointee)
                given.append(name)
            writer.line()
            with writer.block(self._head(function, _parameters(function), given)):
                if any(CONTEXT in operands(op) for op in walk(function.body)):
                    writer.line("char *const context = loom::context;")
                KernelText(function.body, values, constants, names, writer, self.functions).write()

    def _head(self, function: Function, params: Sequence[Param], names: Sequence[str] = ()) -> str:
        types = [type_text(param.value.type) for param in params]
        spaced = [type_ if type_.endswith("*") or not names else f"{type_} " for type_ in types]
        listed = ", ".join(f"{t}{n}" for t, n in zip(spaced, names or [""] * len(types), strict=True))
        result = "void" if function.result == VOID else type_text(function.result)
        return f"{result} {self.names[function.name]}({listed})"


def _parameters(function: Function) -> tuple[Param, ...]:
    return tuple(param for param in function.params if param.value != CONTEXT)


def _path(symbol: str) -> str:
    """`_ZN2ns3addEii` -> `ns::add`"""
    return re.sub(r"<.*>", "", demangle(symbol).replace("(anonymous namespace)::", "")).split("(")[0].split(" ")[-1]


def table_text(variable: Global, name: str, functions: dict[str, str]) -> str | None:
    """A table of pointers to functions, such as a class has for its virtual ones; None where it holds anything else."""
    if variable.init is None or not _only_pointers(variable.type):
        return None
    numbers: dict[str, int] = {}
    value = evaluate(Const(variable.type, variable.init), lambda symbol: numbers.setdefault(symbol, len(numbers) + 1))
    symbols = {number: symbol for symbol, number in numbers.items()}
    entries = []
    for number in _flat(value):
        symbol = symbols.get(number, "")  # type information has no use in device code
        entries.append(f"(char *)&{functions[symbol]}" if symbol in functions else "nullptr")
    return f"static char *const {name}[] = {{{', '.join(entries)}}};"


def _only_pointers(type_: Type) -> bool:
    match type_:
        case Struct(fields):
            return all(_only_pointers(field) for field in fields)
        case Array(_, element):
            return _only_pointers(element)
    return isinstance(type_, Ptr)


def _flat(value: object) -> list[int]:
    if isinstance(value, tuple):
        return [number for part in value for number in _flat(part)]
    return [value] if isinstance(value, int) else [0]
