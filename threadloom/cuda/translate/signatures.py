"""How a kernel is declared in C++: from the user's own parameter list, or for templates from its demangled name."""

from __future__ import annotations

import re
from dataclasses import dataclass

from threadloom.cuda.arguments import demangle, parameter_texts
from threadloom.cuda.host_stubs import Stub
from threadloom.cuda.translate.cxx_values import unsupported
from threadloom.cuda.translate.host_source import KernelText
from threadloom.par.ops import F32, F64, I1, I8, I16, I32, I64, Type
from threadloom.source import Loc

_ANONYMOUS = "(anonymous namespace)::"


@dataclass(frozen=True, slots=True)
class CxxSignature:
    """`name` is how C++ calls the kernel; `types` are its parameters'. An instance of a template is a function
    `run_on_cpu` that its tag selects, in the template's namespace (host_source.py)."""

    name: str
    types: tuple[str, ...]
    parameters: tuple[str, ...]
    names: tuple[str, ...]
    is_template: bool
    anonymous: bool
    dynamic_shared: str = ""
    lambdas: tuple[int, ...] = ()  # their types are parameters Lambda0 ... of the instance

    @property
    def namespace(self) -> str:
        """That encloses the definition: "" is the global one."""
        return "::".join(_parts(self.name)[:-1]) if self.is_template else ""

    @property
    def _tag(self) -> str:
        plain = _parts(self.name)[-1]
        place = plain.index("<")
        return f"{plain[:place]}_kernel{plain[place:]}"

    def head(self) -> str:
        if not self.is_template:
            return f"void {self.name}({', '.join(self.parameters)})"
        types = ", ".join(f"class Lambda{number}" for number in self.lambdas)
        given = f"template <{types}> " if types else ""
        return f"{given}void run_on_cpu({', '.join((self._tag, *self.parameters))})"

    def captures(self) -> str:
        """Of the function that launches the kernel again: what is passed by reference is not copied."""
        references = (f", &{name}" for name, type_ in zip(self.names, self.types, strict=True) if type_.endswith("&"))
        return "=" + "".join(references)

    def call(self) -> str:
        """How the kernel calls itself again."""
        if not self.is_template:
            return f"{self.name}({', '.join(self.names)})"
        return f"run_on_cpu({', '.join((f'{self._tag}()', *self.names))})"


def _parts(name: str) -> list[str]:
    """`a::b<c::d>` -> a, b<c::d>"""
    parts, depth = [""], 0
    for char in name.replace("::", "\0"):
        depth += (char == "<") - (char == ">")
        if char == "\0" and depth == 0:
            parts.append("")
        else:
            parts[-1] += char
    return [part.replace("\0", "::") for part in parts]


def cxx_signature(stub: Stub, texts: list[KernelText], names: tuple[str, ...], loc: Loc | None = None) -> CxxSignature:
    """`names`: the kernel's parameters at level par, where the source does not tell; `loc`: the kernel's."""
    full = demangle(stub.kernel)
    full, lambdas = _without_lambdas(full)
    if "{lambda" in full or "'lambda" in full or "$_" in full:
        raise unsupported(f"the kernel {full}, which takes a lambda,", loc)
    anonymous = _ANONYMOUS in full
    full = full.replace(_ANONYMOUS, "")
    types, name = tuple(parameter_texts(full)), _name(full)
    plain = re.sub(r"<.*", "", name).split("::")[-1]
    fitting = [text for text in texts if text.name == plain and len(text.parameters) == len(stub.argument_bytes)]
    is_template = name.endswith(">")
    dynamic = fitting[0].dynamic_shared if fitting else ""
    own = fitting[0].names if fitting and all(fitting[0].names) else names
    if len(types) != len(stub.argument_bytes) and fitting:  # extern "C": the name does not tell
        types = tuple(_without_name(text, one) for text, one in zip(fitting[0].parameters, own, strict=True))
    if len(fitting) == 1 and not is_template and "::" not in name:
        return CxxSignature(name, types, fitting[0].parameters, own, False, anonymous, dynamic)
    if any(mark in one for one in types for mark in ("(*", "(&", "[")):
        raise unsupported(f"the parameters of {full}", loc)
    parameters = tuple(f"{type_} {one}" for type_, one in zip(types, own, strict=True))
    return CxxSignature(name, types, parameters, own, is_template, anonymous, dynamic, lambdas)


_NUMBERED = re.compile(r"loom::Device<(\d+), ")


def _without_lambdas(full: str) -> tuple[str, tuple[int, ...]]:
    """`k<loom::Device<0, loom::Of<int>, main::$_0>>` -> `k<loom::Device<0, loom::Of<int>, Lambda0>>`, and the numbers
    of the types that stand for lambdas."""
    known: dict[tuple[str, str], int] = {}
    start = 0
    while found := _NUMBERED.search(full, start):
        comma = _item_end(full, found.end())
        end = _item_end(full, comma + 2)
        name = f"Lambda{known.setdefault((found[1], full[found.end() : comma]), len(known))}"
        full = full[: comma + 2] + name + full[end:]
        start = comma + 2 + len(name)
    return full, tuple(known.values())


def _item_end(full: str, start: int) -> int:
    """Where the template argument that begins at `start` ends: at a comma or the closing bracket."""
    depth = 0
    for at in range(start, len(full)):
        if depth == 0 and full[at] in ",>":
            return at
        depth += (full[at] in "<({") - (full[at] in ">)}")
    return len(full)


def _without_name(parameter: str, name: str) -> str:
    return re.sub(rf"\b{re.escape(name)}\b(?!.*\b{re.escape(name)}\b)", "", parameter).strip()


def _name(full: str) -> str:
    """`void ns::k<float>(int)` -> `ns::k<float>`"""
    depth, end = 0, len(full)
    for index, char in enumerate(full):
        depth += (char in "<") - (char in ">")
        if char == "(" and depth == 0 and index:
            end = index
            break
    return full[:end].removeprefix("void ")


_NUMBERS: dict[str, tuple[Type, bool]] = {
    "float": (F32, True), "double": (F64, True), "int": (I32, True), "unsigned int": (I32, False),
    "unsigned": (I32, False), "char": (I8, True), "signed char": (I8, True), "unsigned char": (I8, False),
    "short": (I16, True), "unsigned short": (I16, False), "long": (I64, True), "unsigned long": (I64, False),
    "long long": (I64, True), "unsigned long long": (I64, False), "bool": (I1, True),
}  # fmt: skip


def number_type(type_: str) -> tuple[Type, bool] | None:
    """The type at level par of a C++ number, and whether it is signed."""
    return _NUMBERS.get(" ".join(re.sub(r"\b(const|volatile)\b", "", type_).split()))


def pointee_type(type_: str) -> tuple[Type, bool] | None:
    """What a C++ pointer points to, where that is a number."""
    stripped = re.sub(r"\b(const|volatile|__restrict__|__restrict|restrict)\b", "", type_).strip()
    return number_type(stripped[:-1]) if stripped.endswith(("*", "&")) else None
