"""The function through which a kernel is launched: `(ptr args, ptr geometry)` for every kernel.

define exported void @loom.entry.k(ptr %args, ptr %geometry) {
  %a.at = load ptr, ptr %args          ; args[i] is the address of C++ argument i, as for cudaLaunchKernel
  %a = load float, ptr %a.at
  ... grid.x = load i32, geometry + 0 ...
  call void @k(float %a, ..., i32 %grid.x, ...)
  return
}
"""

from __future__ import annotations

from threadloom.cuda.host_stubs import ParamSource, Stub
from threadloom.cuda.kernel import GEOMETRY
from threadloom.par.ops import (
    I8,
    I32,
    I64,
    PTR,
    VOID,
    Attrs,
    Block,
    Const,
    Function,
    Leaf,
    Operand,
    Param,
    Return,
    Type,
    Value,
)

ENTRY_PREFIX = "loom.entry."
ARGS, LAUNCH = Value("args", PTR), Value("geometry", PTR)


def entry(kernel: Function, stub: Stub) -> Function:
    """The entry of the raised `kernel`, whose own parameters come as `stub` says."""
    ops: list[Leaf] = []
    own = kernel.params[: len(kernel.params) - len(GEOMETRY)]
    values = [_argument(ops, param.value, source) for param, source in zip(own, stub.params, strict=True)]
    values += [
        _load(ops, I32, _address(ops, LAUNCH, 4 * i, value.name), value.name) for i, value in enumerate(GEOMETRY)
    ]
    ops.append(Leaf("call", tuple(values), None, Attrs(callee=kernel.name)))
    params = Param(ARGS), Param(LAUNCH)
    body = Block((*ops, Return()))
    return Function(ENTRY_PREFIX + kernel.name, params, VOID, body, exported=True, attrs=("nounwind",), loc=kernel.loc)


def _argument(ops: list[Leaf], param: Value, source: ParamSource) -> Operand:
    slot = _address(ops, ARGS, 8 * source.argument, f"{param.name}.slot")
    place = _load(ops, PTR, slot, f"{param.name}.at")
    if source.by_pointer:
        return place
    at = _address(ops, place, source.offset_bytes, f"{param.name}.part")
    loaded = _load(ops, source.stored, at, f"{param.name}.loaded", align_bytes=1)
    if source.stored == param.type:
        return loaded
    result = Value(f"{param.name}.value", param.type)  # a bool is stored as a byte
    ops.append(Leaf("trunc", (loaded,), result))
    return result


def _address(ops: list[Leaf], base: Value, offset_bytes: int, name: str) -> Value:
    if offset_bytes == 0:
        return base
    result = Value(f"{name}.address", PTR)
    ops.append(
        Leaf("getelementptr", (base, Const(I64, str(offset_bytes))), result, Attrs(("inbounds",), source_type=I8))
    )
    return result


def _load(ops: list[Leaf], type_: Type, at: Operand, name: str, align_bytes: int = 0) -> Value:
    result = Value(name, type_)
    ops.append(Leaf("load", (at,), result, Attrs(align_bytes=align_bytes)))
    return result
