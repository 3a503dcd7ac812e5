"""What the host IR says about kernels: their names, and how C++ arguments map to LLVM parameters.

clang makes a stub per kernel with the kernel's own LLVM signature. Its body stores each parameter into the memory of
its C++ argument and collects the addresses of those in an array for cudaLaunchKernel. Read backwards this tells how to
get the LLVM parameters out of cudaLaunchKernel's `void** args`, whatever the ABI did to structs:

    store <2 x float> %p.coerce0, ptr %1   ; %1 = %coerce + 0, copied to %p, which is args[1]
        -> parameter 1 is a <2 x float> at byte 0 of argument 1
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from threadloom.cuda.cfg.debug_info import DebugInfo
from threadloom.cuda.cfg.ops import Function
from threadloom.cuda.cfg.parsing import named_types, parse_function, parse_type
from threadloom.cuda.kernel import MOST_BLOCK_THREADS
from threadloom.cuda.raise_functions import by_value_type
from threadloom.errors import InternalError
from threadloom.par.ops import PTR, Alloca, Array, Const, Leaf, Operand, Struct, Type, Value, Vector
from threadloom.par.result_types import size_bytes, struct_layout

STUB_MARK = "__device_stub__"
_ARRAY = "kernel_args"  # clang's name of the array for cudaLaunchKernel
_STUB = re.compile(rf'^define [^\n]*@("?[-\w$.]*{STUB_MARK}[-\w$.]*"?)\(', re.MULTILINE)
_LENGTH = re.compile(r"L?(\d+)")  # of a part of a mangled name; L: `static`
_NOTE = re.compile(r'ptr @("[^"]*"|[-\w$.]+), ptr @([-\w$.]+), ptr @[-\w$.]+, i32 \d+, ptr @([-\w$.]+)')


@dataclass(frozen=True, slots=True)
class ParamSource:
    """Where an LLVM parameter of a kernel comes from; `by_pointer`: it is the argument's address itself."""

    argument: int
    offset_bytes: int
    stored: Type  # how it lies in memory (an i1 is stored as i8)
    by_pointer: bool = False


@dataclass(frozen=True, slots=True)
class Stub:
    """The host side of one kernel: the stub's address is the kernel's identity on the host."""

    name: str
    kernel: str
    params: tuple[ParamSource, ...]
    argument_bytes: tuple[int, ...]
    most_threads: int = MOST_BLOCK_THREADS  # of a block, by __launch_bounds__


def kernel_name(stub: str) -> str:
    """`_Z16__device_stub__kPf` -> `_Z1kPf`. Namespaces are stepped over: the name of one may end with a digit."""
    place = 3 if stub.startswith("_ZN") else 2
    while length := _LENGTH.match(stub, place):
        if stub.startswith(STUB_MARK, length.end()):
            own = int(length[1]) - len(STUB_MARK)
            return f"{stub[: length.start(1)]}{own}{stub[length.end() + len(STUB_MARK) :]}"
        place = length.end() + int(length[1])
    return stub.replace(STUB_MARK, "", 1)


def find_stubs(host_ir: str) -> tuple[Stub, ...]:
    types = named_types(host_ir)
    stubs = (_read(host_ir, match, types) for match in _STUB.finditer(host_ir))
    bounds = _launch_bounds(host_ir)
    return tuple(replace(stub, most_threads=bounds[stub.name]) if stub.name in bounds else stub for stub in stubs)


def _launch_bounds(host_ir: str) -> dict[str, int]:
    """Stub -> what its __launch_bounds__ says first, from the annotation that the macro is (headers/loom)."""
    texts = set(re.findall(r'^@([-\w$.]+) = [^\n]* c"loom\.launch_bounds\\00"', host_ir, re.MULTILINE))
    if not texts:
        return {}
    firsts = dict(re.findall(r"^@([-\w$.]+) = [^\n]* constant \{ i\d+[^{}]* \} \{ i\d+ (\d+)", host_ir, re.MULTILINE))
    line = re.search(r"^@llvm\.global\.annotations = .*$", host_ir, re.MULTILINE)
    notes = _NOTE.findall(line[0]) if line else []
    found = {stub.strip('"'): int(firsts[of]) for stub, text, of in notes if text in texts and of in firsts}
    return {stub: min(most, MOST_BLOCK_THREADS) for stub, most in found.items() if most > 0}


def _read(host_ir: str, match: re.Match[str], types: dict[str, Type]) -> Stub:
    source = host_ir[match.start() : host_ir.index("\n}", match.start()) + 2]
    function = parse_function(source, "<host>", types, DebugInfo(""), {})
    reader = _StubReader(function)
    reader.read()
    name = match[1].strip('"')
    for index, param in enumerate(function.params):
        if param.value.name in reader.indirect:
            reader.objects[param.value.name] = _passed_bytes(host_ir, match[1], index, types)
    return Stub(name, kernel_name(name), reader.params(), reader.argument_bytes())


def _passed_bytes(host_ir: str, stub: str, index: int, types: dict[str, Type]) -> int:
    """Size of the temporary whose address callers pass as parameter `index`: a class that C++ copies by constructor.

    0 if no caller is in sight (the stub's address is taken, and whoever launches it cannot copy the argument either).
    """
    for call in re.finditer(rf"(?:call|invoke) void @{re.escape(stub)}\(([^\n]*)\)", host_ir):
        passed = [word.split()[-1] for word in top_level_parts(call[1])]
        function = host_ir.rfind("\ndefine ", 0, call.start())
        place = re.compile(rf"^  {re.escape(passed[index])} = alloca ([^\n]*?), align", re.MULTILINE)
        if found := place.search(host_ir, function, call.start()):
            return size_bytes(parse_type(found[1], types))
    return 0


def top_level_parts(text: str) -> list[str]:
    """`text` split at the commas that stand in no bracket."""
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "(<{[") - (letter in ")>}]")
        if letter == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]]


class _StubReader:
    """A tiny abstract interpreter of the stub's straight line: what lies where."""

    def __init__(self, function: Function):
        self.function = function
        self.objects: dict[str, int] = {}  # alloca -> bytes
        self.places: dict[str, tuple[str, int]] = {}  # pointer value -> object, offset
        self.origin: dict[str, str] = {}  # value -> the parameter it is (through zext of bool)
        self.stored: dict[str, tuple[str, int, Type]] = {}  # parameter -> object, offset, type in memory
        self.copied: dict[str, str] = {}  # object -> the object it is copied to
        self.arguments: dict[int, str] = {}  # position -> object
        self.indirect: set[str] = set()  # parameters that are the address of a class with a copy constructor

    def read(self) -> None:
        for param in self.function.params:
            self.origin[param.value.name] = param.value.name
            if (type_ := by_value_type(param)) is not None:
                self.objects[param.value.name] = size_bytes(type_)
                self.places[param.value.name] = (param.value.name, 0)
        for op in self.function.blocks[0].body:
            if isinstance(op, Leaf) and op.attrs.callee == "__cudaPopCallConfiguration":
                return
            self._step(op)

    def _step(self, op: Leaf | Alloca) -> None:
        match op:
            case Alloca(result, element, count):
                length = int(count.text) if isinstance(count, Const) else 1
                self.objects[result.name] = size_bytes(element) * length
                self.places[result.name] = (result.name, 0)
            case Leaf(opcode="getelementptr", operands=(Value(base), *indices), result=Value(name)):
                if base in self.places:
                    owner, offset = self.places[base]
                    self.places[name] = (owner, offset + _gep_offset(op.attrs.source_type, indices))
            case Leaf(opcode="store", operands=(Value(value), Value(pointer))):
                self._store(value, op.operands[0].type, pointer)
            case Leaf(opcode="zext", operands=(Value(value),), result=Value(name)) if value in self.origin:
                self.origin[name] = self.origin[value]
            case Leaf(opcode="call", operands=(Value(to), Value(source), *_)) if op.attrs.callee.startswith(
                "llvm.memcpy"
            ):
                self.copied[self.places[source][0]] = self.places[to][0]

    def _store(self, value: str, type_: Type, pointer: str) -> None:
        owner, offset = self.places[pointer]
        if value in self.origin and value not in self.objects:
            if owner == _ARRAY:
                self.arguments[offset // 8] = value
                self.indirect.add(value)
                return
            self.stored[self.origin[value]] = (owner, offset, type_)
        elif value in self.places:
            self.arguments[offset // 8] = self.places[value][0]

    def params(self) -> tuple[ParamSource, ...]:
        return tuple(self._param(param.value) for param in self.function.params)

    def _param(self, value: Value) -> ParamSource:
        positions = {owner: index for index, owner in self.arguments.items()}
        if value.name in positions:
            return ParamSource(positions[value.name], 0, PTR, by_pointer=True)
        if value.name not in self.stored:
            raise InternalError(f"parameter {value.name} of {self.function.name} is not found in its stub")
        owner, offset, type_ = self.stored[value.name]
        owner = self.copied.get(owner, owner)
        return ParamSource(positions[owner], offset, type_)

    def argument_bytes(self) -> tuple[int, ...]:
        return tuple(self.objects[self.arguments[index]] for index in range(len(self.arguments)))


def _gep_offset(source: Type | None, indices: list[Operand]) -> int:
    numbers = [int(index.text) for index in indices if isinstance(index, Const)]
    if source is None or len(numbers) != len(indices):
        raise InternalError("a launch stub computes an address")
    offset, type_ = numbers[0] * size_bytes(source), source
    for number in numbers[1:]:
        match type_:
            case Struct():
                offset += struct_layout(type_)[0][number]
                type_ = type_.fields[number]
            case Array(_, element) | Vector(_, element):
                offset, type_ = offset + number * size_bytes(element), element
    return offset
