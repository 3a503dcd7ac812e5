"""Host IR and raised device code -> one LLVM module.

    before:  host IR with launch stubs and shadow variables; LLVM text of the lowered kernels
    after:   one module: shadow variables *are* the device variables, and a constructor registers the kernels

No __cudaRegister*: cudaMemcpyToSymbol is a copy to the variable's address, and a launch finds its kernel by the stub's.
Names of device functions are internal to the module, so a `__host__ __device__` function exists once per side.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from threadloom.cuda.host_stubs import Stub
from threadloom.cuda.launch_effects import PointerEffect
from threadloom.par.ops import Global
from threadloom.par.printing import quoted, type_text
from threadloom.par.result_types import size_bytes

REGISTER = "__loom_register"
STATIC_PREFIX = "loom.static."  # + kernel: an i32 with the bytes of its static shared memory
CONSTRUCTOR_PRIORITY = 101  # the first that a program may use: before every constructor of the user's that launches


@dataclass(frozen=True, slots=True)
class KernelRecord:
    """What the runtime is told about one kernel (struct Kernel in runtime/runtime.h)."""

    stub: Stub
    entry: str  # empty: not compiled yet (first_launch.py)
    effects: tuple[PointerEffect, ...] | None = None  # None: its launches never wait in a batch


def share_variables(host_ir: str, variables: tuple[Global, ...]) -> str:
    """Turn host shadows of device variables into declarations of the device module's."""
    for variable in variables:
        name = re.escape(quoted("@", variable.name))
        definition = rf"^{name} = (?!external)[^\n]*$"
        declared = f"{quoted('@', variable.name)} = external global {type_text(variable.type)}"
        host_ir = re.sub(definition, lambda _, text=declared: text, host_ir, flags=re.MULTILINE)
    return host_ir


def device_variables(host_ir: str, variables: tuple[Global, ...]) -> tuple[Global, ...]:
    """Those globals of the device module that have a shadow on the host."""
    names = shadow_names(host_ir)
    return tuple(v for v in variables if v.name in names)


def shadow_names(host_ir: str) -> frozenset[str]:
    """The device variables of the host's side, which clang leaves undefined (`undef`)."""
    shadow = r'^@("[^"]*"|[-\w$.]+) = (?!external)[^\n]* undef(?:,|$)'
    return frozenset(name.strip('"') for name in re.findall(shadow, host_ir, re.MULTILINE))


def host_variables(host_ir: str, variables: tuple[Global, ...]) -> tuple[Global, ...]:
    """Texture and surface references: objects of the host, with a constructor there, that kernels read."""
    known = {v.name for v in device_variables(host_ir, variables)}
    defined = set(re.findall(r'^@("[^"]*"|[-\w$.]+) = (?!external)', host_ir, re.MULTILINE))
    return tuple(v for v in variables if v.init == "undef" and v.name not in known and quoted("", v.name) in defined)


def export_variables(host_ir: str, variables: tuple[Global, ...]) -> str:
    """Make the host's definitions of `variables` visible to the device module."""
    for variable in variables:
        name = quoted("@", variable.name)
        host_ir = re.sub(rf"^{re.escape(name)} = internal ", f"{name} = ".replace("\\", r"\\"), host_ir, flags=re.M)
    return host_ir


def internal_variables(host_ir: str, variables: tuple[Global, ...]) -> frozenset[str]:
    """Device variables that are `static`: after linking their linkage must be internal again."""
    return frozenset(
        v.name for v in variables
        if re.search(rf"^{re.escape(quoted('@', v.name))} = internal ", host_ir, re.MULTILINE)
    )  # fmt: skip


def declared_sizes(kernels: tuple[KernelRecord, ...]) -> str:
    names = ((quoted("@", STATIC_PREFIX + kernel.stub.kernel), kernel.entry) for kernel in kernels)
    return "".join(f"{name} = {'external global i32' if entry else 'internal global i32 0'}\n" for name, entry in names)


def registration_ir(kernels: tuple[KernelRecord, ...], variables: tuple[Global, ...], arch: int) -> str:
    """LLVM text, to stand behind the host's, of the tables and of the constructor that hands them to the runtime."""
    lines = [f"declare void @{REGISTER}(ptr, i32, ptr, i32, i32)"]
    records = [_kernel_record(index, kernel, lines) for index, kernel in enumerate(kernels)]
    slots = [_variable_record(index, variable, lines) for index, variable in enumerate(variables)]
    lines += [
        _table("loom.kernels", "{ ptr, ptr, ptr, ptr, ptr, i32, i32, ptr, i32 }", records),
        _table("loom.variables", "{ ptr, ptr, i64 }", slots),
        "define internal void @loom.register() {",
        f"  call void @{REGISTER}(ptr @loom.kernels, i32 {len(records)}, ptr @loom.variables, i32 {len(slots)}, "
        f"i32 {arch})",
        "  ret void\n}",
    ]
    return "\n".join(lines) + "\n"


_CONSTRUCTORS = re.compile(r"^@llvm\.global_ctors = .*$", re.MULTILINE)
_CONSTRUCTOR = re.compile(r'\{ i32 (\d+), ptr (@(?:"[^"]*"|[-\w$.]+)), ptr [^}]*\}')
_USED = re.compile(r"^@llvm\.used = .*$", re.MULTILINE)
_LAST_PRIORITY = 65535


def explicit_constructors(host_ir: str) -> str:
    """`llvm.global_ctors` and ours as pointers in .init_array: llvmlite's code generator knows only .ctors."""
    found = _CONSTRUCTORS.search(host_ir)
    entries = [(int(priority), function) for priority, function in _CONSTRUCTOR.findall(found[0] if found else "")]
    entries.append((CONSTRUCTOR_PRIORITY, "@loom.register"))
    used = _USED.search(host_ir)
    already = re.findall(r'ptr (@(?:"[^"]*"|[-\w$.]+))', used[0]) if used else []
    slots = _constructor_slots("host.constructor", entries, already)
    return _USED.sub("", _CONSTRUCTORS.sub("", host_ir)) + "\n".join(slots) + "\n"


def _constructor_slots(name: str, entries: list[tuple[int, str]], already_used: list[str] | None = None) -> list[str]:
    lines, used = [], list(already_used or ())
    for index, (priority, function) in enumerate(entries):
        section = ".init_array" if priority == _LAST_PRIORITY else f".init_array.{priority:05}"
        lines.append(f'@{name}.{index} = internal constant ptr {function}, section "{section}", align 8')
        used.append(f"@{name}.{index}")
    listed = ", ".join(f"ptr {slot}" for slot in used)
    return [*lines, f'@llvm.used = appending global [{len(used)} x ptr] [{listed}], section "llvm.metadata"']


def _kernel_record(index: int, kernel: KernelRecord, lines: list[str]) -> str:
    sizes = kernel.stub.argument_bytes
    listed = ", ".join(f"i32 {size}" for size in sizes)
    lines += [
        _string(f"loom.kernel.name.{index}", kernel.stub.kernel),
        f"@loom.kernel.bytes.{index} = internal constant [{len(sizes)} x i32] [{listed}]",
    ]
    entry = "null"
    if kernel.entry:
        entry = quoted("@", kernel.entry)
        lines.append(f"declare void {entry}(ptr, ptr)")
    return (
        f"{{ ptr {quoted('@', kernel.stub.name)}, ptr {entry}, ptr @loom.kernel.name.{index}, "
        f"ptr @loom.kernel.bytes.{index}, ptr {quoted('@', STATIC_PREFIX + kernel.stub.kernel)}, i32 {len(sizes)}, "
        f"i32 {kernel.stub.most_threads}, {_effects(index, kernel, lines)} }}"
    )


def _effects(index: int, kernel: KernelRecord, lines: list[str]) -> str:
    """The last two fields: the table of effects and its length, -1 where they are not known."""
    if not kernel.effects:
        return f"ptr null, i32 {-1 if kernel.effects is None else 0}"
    numbers = [
        number
        for one in kernel.effects
        for number in (one.argument, one.offset_bytes, one.reads, one.writes, one.own.bytes, one.own.block)
    ]
    listed = ", ".join(f"i32 {int(number)}" for number in numbers)
    lines.append(f"@loom.kernel.effects.{index} = internal constant [{len(numbers)} x i32] [{listed}]")
    return f"ptr @loom.kernel.effects.{index}, i32 {len(kernel.effects)}"


def _variable_record(index: int, variable: Global, lines: list[str]) -> str:
    address = quoted("@", variable.name)
    lines.append(_string(f"loom.variable.name.{index}", unmangled(variable.name)))
    return f"{{ ptr @loom.variable.name.{index}, ptr {address}, i64 {size_bytes(variable.type)} }}"


def unmangled(name: str) -> str:
    """`_ZL5table` -> `table`; string symbols are only used with variables at file scope."""
    match = re.fullmatch(r"_ZL?(\d+)(\w+)", name)
    return match[2][: int(match[1])] if match else name


def _string(name: str, text: str) -> str:
    data = text.encode()
    return f'@{name} = internal constant [{len(data) + 1} x i8] c"{text}\\00"'


def _table(name: str, record: str, records: list[str]) -> str:
    listed = ", ".join(f"{record} {text}" for text in records)
    return f"@{name} = internal global [{len(records)} x {record}] [{listed}]"  # entries may come later
