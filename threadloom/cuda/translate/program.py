"""A CUDA file as one C++ file: the host's text, then the kernels, then what the runtime must know of them.

The kernels take the same way as in `loom cc` (raised, optimised, barriers lowered), less what only LLVM profits from.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from threadloom.cuda import compile_unit, front, link_host
from threadloom.cuda.arguments import demangle
from threadloom.cuda.front import FrontIr, SourceOptions
from threadloom.cuda.host_stubs import ParamSource, Stub
from threadloom.cuda.kernel import GEOMETRY, MOST_BLOCK_THREADS, SHARED_DYNAMIC, THREAD_LOCAL_CALLS
from threadloom.cuda.lower import pipeline as lower
from threadloom.cuda.optimize import pipeline as optimize
from threadloom.cuda.translate.cxx_values import POSTFIX, PRIMARY, UNARY, Expr, type_text, unsupported
from threadloom.cuda.translate.device_functions import DeviceFunctions, table_text
from threadloom.cuda.translate.host_source import HostSource, host_source, numbered_lambdas
from threadloom.cuda.translate.kernel_text import KernelText
from threadloom.cuda.translate.names import Names, debug_names
from threadloom.cuda.translate.prepare import DropUnused, FoldGuards
from threadloom.cuda.translate.signatures import CxxSignature, cxx_signature, number_type, pointee_type
from threadloom.cuda.translate.widen_integers import WidenIntegers, odd_bits
from threadloom.par.interp_constants import evaluate
from threadloom.par.interp_values import to_bytes
from threadloom.par.ops import I1, I8, PTR, Array, Const, Float, Function, Global, Int, Module, Type
from threadloom.par.passes import run_passes
from threadloom.par.walk import operands, walk
from threadloom.writer import Writer

_NOT_FOR_PEOPLE = ("specialize-launch", "specialize", "align-shares", "collapse", "outline-loops",
                   "peel-rows", "vectorize-threads", "fuse-products", "watch-waits", "hide-masks")  # fmt: skip
_GLOBAL = re.compile(r'@("[^"]+"|[-\w$.]+)')


def link_flags() -> list[str]:
    """What g++ needs beside -fopenmp to build a translated program."""
    from threadloom.cuda import runtime_library

    return ["-std=c++17", "-fno-strict-aliasing", "-fwrapv", "-fsigned-char", "-isystem", str(front.HEADERS),
            str(runtime_library.static_object()), "-lpthread", "-ldl", "-lm"]  # fmt: skip


def translate(path: str, options: SourceOptions) -> str:
    """The C++ text of the CUDA file `path`."""
    ir = _front(Path(path), replace(options, debug=True))
    stages: dict[str, str] = {}
    raised, stubs = compile_unit.raise_unit(ir, stages.__setitem__)
    module = _lowered(raised.module)
    host = host_source(Path(path), options.includes)
    names = debug_names(stages["inlined.ll"])
    writer = Writer()
    file = Path(path).name
    writer.note(f"Made from {file} by `loom translate`. Build it with")
    writer.note(f"  g++ -O3 -march=native -fopenmp {Path(path).stem}.cpp $(loom translate --link-flags)")
    writer.line("#include <loom/translated.h>")
    writer.line()
    writer.line(host.text.rstrip("\n"))
    shared = {f.name: compile_unit.static_shared_bytes(f) for f in raised.module.functions if f.name in raised.kernels}
    _Kernels(module, stubs, host, ir, names, shared, writer).write(file)
    return writer.text()


def _front(path: Path, options: SourceOptions) -> FrontIr:
    """clang's output, with device lambdas numbered as in the host's text."""
    text = path.read_text(errors="replace") if path.is_file() else ""
    numbered = numbered_lambdas(text)
    if numbered == text:
        return front.compile_source(str(path), options)
    with tempfile.TemporaryDirectory(prefix="loom-") as folder:
        copy = Path(folder) / path.name
        copy.write_text(f'#include <loom/device_lambda.h>\n#line 1 "{path}"\n{numbered}')
        beside = ("-iquote", str(path.parent))
        return front.compile_source(str(copy), replace(options, extra=(*options.extra, *beside)))


def _lowered(module: Module) -> Module:
    passes = [one for one in (*optimize.passes(), *lower.PASSES) if one.name not in _NOT_FOR_PEOPLE]
    return DropUnused().apply(WidenIntegers().apply(FoldGuards().apply(run_passes(module, passes).module)))


class _Kernels:
    def __init__(self, module: Module, stubs: tuple[Stub, ...], host: HostSource, ir: FrontIr,
                 names: dict[str, dict[str, str]], shared_bytes: dict[str, int], writer: Writer):  # fmt: skip
        self.shared_bytes = shared_bytes
        self.module, self.stubs, self.host, self.names, self.writer = module, stubs, host, names, writer
        self.functions = {function.name: function for function in module.functions}
        users = link_host.device_variables(ir.host, module.globals) + link_host.host_variables(ir.host, module.globals)
        self.users = {variable.name for variable in users}
        kernels = {stub.kernel for stub in stubs}
        staying = [f for f in module.functions if f.body is not None and f.name not in kernels]
        self.device = DeviceFunctions(staying, host.declared)
        self.macros = re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", host.text, re.M)

    def write(self, file: str) -> None:
        if not self.stubs:
            return
        self.writer.line()
        self.writer.note(f"---- the kernels of {file}")
        self.device.declare(self.writer)
        constants = self._constants()
        self.device.define(constants, self.names, self.macros, self.writer)
        signatures = []
        for stub in self.stubs:
            function = self.functions[stub.kernel]
            signature = cxx_signature(stub, self.host.kernels, _names_of(function, stub), function.loc)
            if signature.lambdas and any(signature.head() == one.head() for one, *_ in signatures):
                raise unsupported("a device lambda with several types that nothing tells apart", function.loc)
            signatures.append((signature, self.shared_bytes[stub.kernel], stub))
            self._kernel(function, stub, signature, constants)
        self._registration(signatures)
        self._variables()

    # ------------------------------------------------------------ one kernel

    def _kernel(self, function: Function, stub: Stub, signature: CxxSignature, constants: dict[str, Expr]) -> None:
        assert function.body is not None
        known = self.names.get(function.name, {})
        if signature.dynamic_shared:
            known = {**known, SHARED_DYNAMIC: signature.dynamic_shared}
        names = Names(known, (*self.macros, *signature.names))
        own = function.params[: len(function.params) - len(GEOMETRY)]
        values = {param.value.name: _argument(param.value.type, source, signature)
                  for param, source in zip(own, stub.params, strict=True)}  # fmt: skip
        self.writer.line()
        enclosed = signature.anonymous or signature.namespace != ""
        if enclosed:
            self.writer.line(f"namespace {signature.namespace + ' ' if signature.namespace else ''}{{")
        with self.writer.block(signature.head()):
            self.writer.line("const loom::Launch launch = loom::launched();")
            again = f"[{signature.captures()}](auto &now) {{ loom::launch(now), {signature.call()}; }}"
            bound = f", {stub.most_threads}" if stub.most_threads != MOST_BLOCK_THREADS else ""
            self.writer.line(f"if (!launch.begins({again}{bound})) return;")
            self.writer.line("const dim3 gridDim = launch.grid, blockDim = launch.block;")
            for type_, size in zip(signature.types, stub.argument_bytes, strict=True):
                if signature.lambdas and "loom::Device<" in type_:
                    self.writer.line(f'static_assert(sizeof({type_}) == {size}, "captured as clang does");')
            KernelText(function.body, values, constants, names, self.writer, self.device.functions).write()
        if enclosed:
            self.writer.line("}")

    def _registration(self, signatures: list[tuple[CxxSignature, int, Stub]]) -> None:
        signatures = [one for one in signatures if not one[0].lambdas]  # whose types have no name here
        if not signatures:
            return
        self.writer.line()
        self.writer.note("for cudaLaunchKernel, occupancy and attributes")
        with self.writer.block("static const loom::KernelRecord loom_kernels[] =", "};"):
            for signature, shared_bytes, stub in signatures:
                types = ", ".join(_decayed(one) for one in signature.types)
                numbers = f"{shared_bytes}, {stub.most_threads}"
                self.writer.line(f'loom::Kernel<{types}>::record<{signature.name}>("{stub.kernel}", {numbers}),')
        self.writer.line("static const loom::Registration loom_registration(loom_kernels);")

    def _variables(self) -> None:
        """Sizes, for copies by symbol; of variables at file scope, whose names mean the same here."""
        names = [demangle(symbol) for symbol in sorted(self.users)]
        names = [name for name in names if re.fullmatch(r"[A-Za-z_]\w*", name)]
        if not names:
            return
        self.writer.line()
        with self.writer.block("static const loom::VariableRecord loom_variables[] =", "};"):
            for name in names:
                self.writer.line(f'{{"{name}", &{name}, sizeof {name}}},')
        self.writer.line("static const loom::Registration loom_registration_of_variables(loom_variables);")

    # ------------------------------------------------------------ variables and functions

    def _constants(self) -> dict[str, Expr]:
        """How C++ calls what the kernels refer to by name."""
        known = self.device.expressions()
        for function in self.module.functions:
            if function.body is None:
                name = THREAD_LOCAL_CALLS.get(function.name, function.name)
                known[function.name] = Expr(name, PRIMARY, PTR)
        kernels = [self.functions[stub.kernel] for stub in self.stubs] + [*self.device.functions.values()]
        variables = {variable.name: variable for variable in self.module.globals}
        for const in _named_constants(kernels):
            if const.text in known:
                continue
            found = {one.strip('"') for one in _GLOBAL.findall(const.text)}
            if len(found) != 1 or (variable := variables.get(next(iter(found)))) is None:
                continue  # an error where it is used
            base = self._variable(variable, known)
            known[const.text] = base if const.text.startswith("@") else _offset(base, const)
        return known

    def _variable(self, variable: Global, known: dict[str, Expr]) -> Expr:
        plain = "@" + variable.name
        if plain in known:
            return known[plain]
        if variable.name in self.users:
            name = demangle(variable.name).replace("(anonymous namespace)::", "")
            known[plain] = _users(name, variable.type)
        else:
            known[plain] = self._own(variable)
        return known[plain]

    def _own(self, variable: Global) -> Expr:
        """A literal or table of the compiler's."""
        name = "loom_" + re.sub(r"\W", "_", variable.name)
        if table := table_text(variable, name, self.device.names):
            self.writer.line(table)
            return Expr(f"(char *){name}", UNARY, PTR, pointee=I8)
        if variable.init is None or "@" in variable.init:
            raise unsupported(f"the variable {demangle(variable.name)}")
        value = evaluate(Const(variable.type, variable.init), lambda _: 0)
        element, dimensions = variable.type, []
        while isinstance(element, Array):
            dimensions.append(element.length)
            element = element.element
        if not isinstance(element, Int | Float):  # a structure's initial value, copied as bytes
            listed = ", ".join(map(str, to_bytes(variable.type, value)))
            kind = "const unsigned char" if variable.constant else "unsigned char"
            self.writer.line(f"alignas(16) static {kind} {name}[] = {{{listed}}};")
            return Expr(f"(char *){name}", UNARY, PTR, pointee=I8)
        head = f"{type_text(element)} {name}{''.join(f'[{n}]' for n in dimensions)}"
        self.writer.line(f"static {'const ' if variable.constant else ''}{head} = {_listed(value, element)};")
        text = f"({type_text(element)} *){name}"
        if variable.constant:
            return Expr(text, UNARY, PTR, pointee=element)
        return Expr(name, PRIMARY, PTR, place=name, pointee=variable.type) if dimensions else _users(name, element)


def _names_of(function: Function, stub: Stub) -> tuple[str, ...]:
    """The arguments' names as level par has them."""
    found = {source.argument: re.sub(r"\W.*|\.coerce\d*$", "", param.value.name)
             for param, source in zip(function.params, stub.params, strict=False)}  # fmt: skip
    return tuple(found.get(index) or f"argument{index}" for index in range(len(stub.argument_bytes)))


def _argument(type_: Type, source: ParamSource, signature: CxxSignature) -> Expr:
    """What a parameter of level par is in C++."""
    name, cxx = signature.names[source.argument], signature.types[source.argument]
    if source.by_pointer:
        return Expr(f"&{name}", UNARY, PTR)
    if cxx.endswith("&"):
        return Expr(f"(char *)&{name}", UNARY, PTR, pointee=I8)
    number = number_type(cxx)
    if number is not None and source.offset_bytes == 0 and number[0] == type_:
        return Expr(name, PRIMARY, type_, number[1])
    if type_ == PTR and cxx.rstrip().removesuffix("__restrict__").rstrip().endswith("*"):
        pointee = pointee_type(cxx)
        if pointee is None:
            return Expr(name, PRIMARY, PTR)
        return Expr(name, PRIMARY, PTR, pointee=pointee[0], of_unsigned=not pointee[1])
    place = f"(char *)&{name}" + (f" + {source.offset_bytes}" if source.offset_bytes else "")
    if bits := odd_bits(source.stored):
        return Expr(f"loom::load_part<{type_text(type_)}, {bits // 8}>({place})", POSTFIX, type_)
    stored = I8 if type_ == I1 else type_
    loaded = Expr(f"loom::load<{type_text(stored)}>({place})", POSTFIX, stored, pointee=I8 if type_ == PTR else None)
    return replace(loaded, text=f"{loaded.text} != 0", precedence=UNARY - 5, type=I1) if type_ == I1 else loaded


def _users(name: str, type_: Type) -> Expr:
    """A variable of the user's. The signs of its integers are not known here, so those are reached by a cast."""
    element = type_
    while isinstance(element, Array):
        element = element.element
    if isinstance(element, Float):
        is_array = isinstance(type_, Array)
        return Expr(name if is_array else f"&{name}", PRIMARY if is_array else UNARY, PTR, place=name, pointee=type_)
    if isinstance(element, Int) and element.bits in (8, 16, 32, 64):
        kind = type_text(element)
        return Expr(f"({kind} *)&{name}", UNARY, PTR, pointee=element)
    return Expr(f"(char *)&{name}", UNARY, PTR, pointee=I8)


def _offset(base: Expr, const: Const) -> Expr:
    """A constant expression over one variable: so many bytes behind its start."""
    bytes_ = evaluate(const, lambda _: 0)
    start = base.text if base.text.startswith("(") else f"(char *){base.at(UNARY)}"
    if not start.startswith("(char *)"):
        start = f"(char *)({start})"
    return Expr(f"({start} + {bytes_})", PRIMARY, PTR, pointee=I8)


def _named_constants(kernels: Iterable[Function]) -> list[Const]:
    found: dict[str, Const] = {}
    for kernel in kernels:
        for op in walk(kernel.body) if kernel.body else ():
            for operand in operands(op):
                if isinstance(operand, Const) and "@" in operand.text:
                    found.setdefault(operand.text, operand)
    return list(found.values())


def _listed(value: object, element: Type) -> str:
    if isinstance(value, tuple):
        return "{" + ", ".join(_listed(one, element) for one in value) + "}"
    if isinstance(element, Int):
        assert isinstance(value, int)
        return str(value - (1 << element.bits) if value >> (element.bits - 1) else value)
    return repr(value) + ("f" if element == Float("float") else "")


def _decayed(type_: str) -> str:
    """A parameter's type without what does not belong to the function's type."""
    plain = re.sub(r"\b(__restrict__|__restrict)\b", "", type_).strip()
    return re.sub(r"^const\s+([\w:<>, ]+)$", r"\1", plain) if not plain.endswith(("*", "&")) else plain
