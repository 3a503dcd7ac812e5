"""Text of the wgmma wrappers a kernel uses (PTX ISA, wgmma.mma_async): one function per shape and operand form.

They are written on demand because one instruction names up to 128 registers one by one.
"""

from __future__ import annotations

from dataclasses import dataclass

# operand dtype -> (PTX type, elements along K of one instruction)
OPERANDS: dict[str, tuple[str, int]] = {
    "f16": ("f16", 16),
    "bf16": ("bf16", 16),
    "tf32": ("tf32", 8),
    "f8e4m3": ("e4m3", 32),
    "f8e5m2": ("e5m2", 32),
    "i8": ("s8", 32),
    "u8": ("u8", 32),
}


@dataclass(frozen=True, slots=True)
class Instruction:
    """wgmma m64nNkK: `a`, `b` operand dtypes by our names; `a_in_registers`; major-ness of 16-bit shared operands."""

    n: int
    a: str
    b: str
    a_in_registers: bool
    a_mn_major: bool = False
    b_mn_major: bool = False

    @property
    def k(self) -> int:
        return OPERANDS[self.a][1]

    @property
    def integer(self) -> bool:
        return self.a in ("i8", "u8")

    @property
    def name(self) -> str:
        form = "registers" if self.a_in_registers else ("mn" if self.a_mn_major else "k")
        types = OPERANDS[self.a][0] if self.a == self.b else f"{OPERANDS[self.a][0]}_{OPERANDS[self.b][0]}"
        return f"mma_m64n{self.n}k{self.k}_{types}_{form}_{'mn' if self.b_mn_major else 'k'}"


def wrapper(i: Instruction) -> str:
    """C++ of one wrapper: `d` accumulates (or is overwritten where `accumulate` is 0) a * b."""
    count, element, constraint = i.n // 2, ("i32" if i.integer else "float"), ("+r" if i.integer else "+f")
    d = ", ".join(f"%{k}" for k in range(count))
    outputs = ", ".join(f'"{constraint}"(d[{k}])' for k in range(count))
    if i.a_in_registers:
        a_parameter, a_text = "const u32* a", "{" + ", ".join(f"%{count + k}" for k in range(4)) + "}"
        inputs, used = ", ".join(f'"r"(a[{k}])' for k in range(4)), 4
    else:
        a_parameter, a_text, inputs, used = "u64 a", f"%{count}", '"l"(a)', 1
    b_at = count + used
    tail = "" if i.integer else ", 1, 1"
    if i.a in ("f16", "bf16"):
        tail += "" if i.a_in_registers else f", {int(i.a_mn_major)}"
        tail += f", {int(i.b_mn_major)}"
    result = "s32" if i.integer else "f32"
    types = f"m64n{i.n}k{i.k}.{result}.{OPERANDS[i.a][0]}.{OPERANDS[i.b][0]}"
    return (
        f"LOOM_DEVICE void {i.name}({element}* d, {a_parameter}, u64 b, i32 accumulate) {{\n"
        f'  asm volatile("{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{b_at + 1}, 0;\\n"\n'
        f'    "wgmma.mma_async.sync.aligned.{types} {{{d}}}, {a_text}, %{b_at}, p{tail};\\n}}"\n'
        f'    : {outputs}\n    : {inputs}, "l"(b), "r"(accumulate));\n'
        "}\n"
    )
