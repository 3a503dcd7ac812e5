"""What the device does differently from LLVM and from this CPU, restored on clang's raw device IR.

| operation                  | device                 | LLVM / x86           | here                                 |
|----------------------------|------------------------|----------------------|--------------------------------------|
| shift by the width or more | 0, or the sign (ashr)  | poison / modulo      | compare and select, variable shifts  |
| integer division by zero   | all ones, no trap      | trap                 | another divisor, then select         |
| INT_MIN / -1               | INT_MIN                | trap                 | as above                             |
| float to integer, too big  | saturates, NaN gives 0 | poison               | -fno-strict-float-cast-overflow      |
| ... to 8 or 16 bits        | of 32, lowest bits     | as above, to 8 or 16 | to 32 bits, then truncation          |
| a * b + c                  | one rounding           | as the flags say     | -ffp-contract=fast-honor-pragmas     |
| memcpy, memmove, memset    | an instruction         | a library's function | LLVM's intrinsics                    |
| what printf returns        | how many arguments     | how many characters  | a constant, -1 where it fails        |

Must run before any LLVM pass: the first constant folding already exploits poison. Works on text, line by line, because
clang's raw output has one fixed spelling and llvmlite has no builder for parsed modules. The rows with a flag of
clang's are in front.py.
"""

from __future__ import annotations

import re

_NAME = r'%(?:[-\w$.]+|"[^"]*")'
_SHIFT = re.compile(
    rf"^  (?P<name>{_NAME}) = (?P<op>shl|lshr|ashr)(?: nuw| nsw| exact)* i(?P<bits>8|16|32|64) "
    rf"(?P<value>[^ ,]+), (?P<amount>{_NAME})(?P<rest>.*)$",
    re.MULTILINE,
)
_DIVIDE = re.compile(
    rf"^  (?P<name>{_NAME}) = (?P<op>sdiv|udiv|srem|urem)(?: exact)? i(?P<bits>8|16|32|64) "
    rf"(?P<value>[^ ,]+), (?P<divisor>{_NAME}|0|-1)(?P<rest>.*)$",
    re.MULTILINE,
)
_NARROW = re.compile(
    rf"^  (?P<name>{_NAME}) = (?:tail )?call i(?P<bits>8|16) @llvm\.fpto(?P<sign>[su])i\.sat\.i(?:8|16)\."
    r"(?P<float>f\d+)\((?P<operand>[^)]*)\)(?P<attributes> #\d+)?(?P<rest>.*)$",
    re.MULTILINE,
)
_PLACE = rf"(?:{_NAME}|@[-\w$.]+)"
_COPY = re.compile(
    rf"^  (?P<name>{_NAME}) = (?:tail )?call ptr @(?P<op>memcpy|memmove|memset)\(ptr (?:noundef )?(?P<to>{_PLACE}), "
    rf"(?P<kind>ptr|i32) (?:noundef )?(?P<what>{_PLACE}|-?\d+), i64 (?:noundef )?(?P<bytes>{_NAME}|\d+)\)(?: #\d+)?"
    r"(?P<rest>.*)$",
    re.MULTILINE,
)
_PRINT = re.compile(
    rf"^  (?P<name>{_NAME}) = (?P<call>(?:tail )?call i32 \(ptr, \.\.\.\) @printf\()(?P<given>.*)$", re.MULTILINE
)
_TYPES = {"f16": "half", "f32": "float", "f64": "double"}


def restore(device_ir: str) -> str:
    """`device_ir` with the device's meaning of shifts, division, narrow conversions and copies made explicit."""
    device_ir = _PRINT.sub(_print, device_ir)
    return _copies(_narrow_conversions(_DIVIDE.sub(_division, _SHIFT.sub(_shift, device_ir))))


def _print(match: re.Match[str]) -> str:
    name, given = match["name"], match["given"]
    printed, failed = _part(name, "printed"), _part(name, "failed")
    depth = count = 0
    for letter in given.partition(", !dbg")[0]:
        depth += (letter == "(") - (letter == ")")
        count += letter == "," and depth == 0
    rest = "".join(given.partition(", !dbg")[1:])
    lines = [f"{printed} = {match['call']}{given}", f"{failed} = icmp slt i32 {printed}, 0{rest}",
             f"{name} = select i1 {failed}, i32 -1, i32 {count}{rest}"]  # fmt: skip
    return "\n".join("  " + line for line in lines)


def _copies(device_ir: str) -> str:
    """Calls of the library's functions, which passes and `loom check` would know nothing of, as intrinsics."""
    declared = set(re.findall(r"^declare [^\n]*@(memcpy|memmove|memset)\(", device_ir, re.MULTILINE))
    used = {match["op"] for match in _COPY.finditer(device_ir)} & declared
    if not used:
        return device_ir
    changed = _COPY.sub(lambda match: _copy(match) if match["op"] in used else match[0], device_ir)
    for op in sorted(used):
        source = "i8" if op == "memset" else "ptr"
        declaration = f"declare void @{_intrinsic(op)}(ptr, {source}, i64, i1)"
        if f"@{_intrinsic(op)}(" not in device_ir:
            changed += f"\n{declaration}\n"
    return changed


def _intrinsic(op: str) -> str:
    return f"llvm.{op}.p0.i64" if op == "memset" else f"llvm.{op}.p0.p0.i64"


def _copy(match: re.Match[str]) -> str:
    name, op, to, what, rest = match["name"], match["op"], match["to"], match["what"], match["rest"]
    lines = [f"{name} = getelementptr i8, ptr {to}, i64 0{rest}"]
    source = f"ptr {what}"
    if op == "memset":
        lines.append(f"{_part(name, 'byte')} = trunc i32 {what} to i8{rest}")
        source = f"i8 {_part(name, 'byte')}"
    lines.append(f"call void @{_intrinsic(op)}(ptr {to}, {source}, i64 {match['bytes']}, i1 false){rest}")
    return "\n".join("  " + line for line in lines)


def _narrow_conversions(device_ir: str) -> str:
    """To 8 and 16 bits by way of 32, as nvcc compiles it: 260.0f is 4 as an unsigned char, not 255."""
    used = {(match["sign"], match["float"]) for match in _NARROW.finditer(device_ir)}
    changed = _NARROW.sub(_conversion, device_ir)
    for sign, float_ in sorted(used):
        declaration = f"declare i32 @llvm.fpto{sign}i.sat.i32.{float_}({_TYPES[float_]})"
        if declaration not in changed:
            changed += f"\n{declaration}\n"
    return changed


def _conversion(match: re.Match[str]) -> str:
    name, rest, word = match["name"], match["rest"], _part(match["name"], "word")
    whole = f"@llvm.fpto{match['sign']}i.sat.i32.{match['float']}({match['operand']})"
    return f"  {word} = call i32 {whole}{rest}\n  {name} = trunc i32 {word} to i{match['bits']}{rest}"


def _part(name: str, what: str) -> str:
    """A new name made from an instruction's: `%x` -> `%x.what`, `%"a b"` -> `%"a b.what"`."""
    if name.endswith('"'):
        return f'{name[:-1]}.{what}"'
    return f"%v{name[1:]}.{what}" if name[1:].isdigit() else f"{name}.{what}"


def _shift(match: re.Match[str]) -> str:
    name, op, bits, value, amount = match["name"], match["op"], match["bits"], match["value"], match["amount"]
    rest, small = match["rest"], _part(name, "small")
    lines = [f"{small} = icmp ult i{bits} {amount}, {bits}{rest}"]
    safe = _part(name, "amount")
    if op == "ashr":
        lines.append(f"{safe} = select i1 {small}, i{bits} {amount}, i{bits} {int(bits) - 1}{rest}")
        lines.append(f"{name} = ashr i{bits} {value}, {safe}{rest}")
    else:
        shifted = _part(name, "shifted")
        lines.append(f"{safe} = select i1 {small}, i{bits} {amount}, i{bits} 0{rest}")
        lines.append(f"{shifted} = {op} i{bits} {value}, {safe}{rest}")
        lines.append(f"{name} = select i1 {small}, i{bits} {shifted}, i{bits} 0{rest}")
    return "\n".join("  " + line for line in lines)


def _division(match: re.Match[str]) -> str:
    name, op, bits, value, divisor = match["name"], match["op"], match["bits"], match["value"], match["divisor"]
    rest = match["rest"]
    zero, safe, raw = _part(name, "zero"), _part(name, "divisor"), _part(name, "quotient")
    lines = [f"{zero} = icmp eq i{bits} {divisor}, 0{rest}"]
    unsafe = zero
    if op.startswith("s"):
        minus, least, overflow, unsafe = (_part(name, part) for part in ("minus", "least", "overflow", "unsafe"))
        lines += [
            f"{minus} = icmp eq i{bits} {divisor}, -1{rest}",
            f"{least} = icmp eq i{bits} {value}, {-(1 << (int(bits) - 1))}{rest}",
            f"{overflow} = and i1 {minus}, {least}{rest}",
            f"{unsafe} = or i1 {zero}, {overflow}{rest}",
        ]
    # Dividing by 1 instead gives INT_MIN / -1 = INT_MIN and a remainder of 0, as on the device.
    lines.append(f"{safe} = select i1 {unsafe}, i{bits} 1, i{bits} {divisor}{rest}")
    lines.append(f"{raw} = {op} i{bits} {value}, {safe}{rest}")
    by_zero = "-1" if op.endswith("div") else value
    lines.append(f"{name} = select i1 {zero}, i{bits} {by_zero}, i{bits} {raw}{rest}")
    return "\n".join("  " + line for line in lines)
