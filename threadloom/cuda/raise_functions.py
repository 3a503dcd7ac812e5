"""Device functions that stay functions: recursive ones, and those whose address is taken (pointers, virtual).

    before:  define i32 @f(i32 %n) { ... call i32 @loom.threadIdx.x() ... call i32 %table.entry(i32 %n) ... }
    after:   define i32 @f(ptr %loom.context, i32 %n) { ... load i32, field 0 ... call i32 %p(ptr %loom.context, ...) }

Each takes the calling thread's CONTEXT first (kernel.py), because it may read indices or pass them on; indirect calls
pass it too, so every function whose address is taken must have it. A kernel that calls one fills a private record at
its start.

Not handled, with a located error: barriers and warp operations inside (nothing could meet at them once the loop over
threads is split), static __shared__ variables, variadic functions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from threadloom.cuda.cfg.ops import BasicBlock, Function, Module
from threadloom.cuda.cfg.parsing import parse_type
from threadloom.cuda.kernel import (
    BLOCK,
    BLOCK_INDEX,
    COLLECTIVES,
    CONTEXT,
    CONTEXT_BYTES_FIELD,
    CONTEXT_DYNAMIC_FIELD,
    CONTEXT_TYPE,
    GRID,
    SHARED_BYTES,
    SHARED_DYNAMIC,
    THREAD_INDEX,
)
from threadloom.cuda.rebuild_ssa import SsaRebuilder
from threadloom.cuda.shared_memory import SharedVariables, expand_constants, names_in
from threadloom.cuda.structure import RESULT, structure, taken_names
from threadloom.errors import CompileError, slug
from threadloom.par import ops as par
from threadloom.par.ops import (
    I32,
    I64,
    PTR,
    VOID,
    Alloca,
    Attrs,
    Block,
    Const,
    Leaf,
    Op,
    Operand,
    Return,
    Type,
    Value,
)
from threadloom.par.result_types import size_bytes

MEETING = slug("cuda-meeting-in-function", "a barrier or warp operation is in a function that cannot be inlined")
STATIC_SHARED = slug(
    "cuda-shared-in-function", "a static __shared__ variable is used in a function that is not inlined"
)
VARIADIC = slug("cuda-variadic-function", "a variadic device function cannot be inlined")

# Field of the context record that holds each value that calls like @loom.threadIdx.x() give.
FIELD_OF = {value.name: index for index, value in enumerate((*THREAD_INDEX, *BLOCK_INDEX, *BLOCK, *GRID))} | {
    SHARED_BYTES.name: CONTEXT_BYTES_FIELD,
    SHARED_DYNAMIC: CONTEXT_DYNAMIC_FIELD,
}
SYNCTHREADS = "loom.syncthreads"
_WHERE = "in a function that is called through a pointer, virtually or recursively"


def functions_used(module: Module, kernels: tuple[str, ...], keep: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """Defined functions other than `kernels` that these can reach, by call or by address, through globals too; the
    host can read a function's address from a variable in `keep` and pass it to a kernel."""
    functions = {function.name: function for function in module.functions if function.blocks}
    variables = {variable.name: variable for variable in module.globals}
    found: dict[str, None] = {}
    work = [*kernels, *sorted(keep)]
    seen = set(work)
    while work:
        name = work.pop()
        if name in functions and name not in kernels:
            found[name] = None
        init = variables[name].init if name in variables else None
        used = names_in(init) if init else set(_names_used(functions[name])) if name in functions else set()
        work += [n for n in sorted(used) if n not in seen]
        seen |= used
    return tuple(found)


def _names_used(function: Function) -> Iterator[str]:
    for block in function.blocks:
        for operand in block_operands(block):
            if isinstance(operand, Const) and "@" in operand.text:
                yield from names_in(operand.text)
        yield from (op.attrs.callee for op in block.body if isinstance(op, Leaf) and op.attrs.callee)


def block_operands(block: BasicBlock) -> list[Operand]:
    found = [value for phi in block.phis for _, value in phi.incoming]
    for op in block.body:
        if isinstance(op, Leaf):
            found += op.operands
    return found


def calls_functions(function: Function, functions: tuple[str, ...]) -> bool:
    """Whether `function` calls one of `functions`, or through a pointer."""
    calls = [op for block in function.blocks for op in block.body if isinstance(op, Leaf) and op.opcode == "call"]
    return any(not call.attrs.callee or call.attrs.callee in functions for call in calls)


def pass_context(block: BasicBlock, functions: tuple[str, ...]) -> BasicBlock:
    """`block` with the context added to calls of `functions` and to indirect calls."""
    body = tuple(_with_context(op, functions) if isinstance(op, Leaf) else op for op in block.body)
    return replace(block, body=body)


def _with_context(op: Leaf, functions: tuple[str, ...]) -> Leaf:
    if op.opcode != "call":
        return op
    attrs = replace(op.attrs, arg_attrs=())
    if not op.attrs.callee:
        return replace(op, operands=(op.operands[0], CONTEXT, *op.operands[1:]), attrs=attrs)
    if op.attrs.callee in functions:
        return replace(op, operands=(CONTEXT, *op.operands), attrs=attrs)
    return op


def raise_function(
    function: Function, functions: tuple[str, ...], shared: SharedVariables, builtins: dict[str, Value]
) -> par.Function:
    if function.variadic:
        raise CompileError(
            VARIADIC,
            f"device function {function.name} is variadic",
            why="it cannot be inlined, and device functions have no variadic calls",
            try_="use a variadic template",
            loc=function.loc,
        )
    function = expand_constants(function, shared)
    _check(function, shared)
    function = replace(function, blocks=tuple(pass_context(b, functions) for b in function.blocks))
    function = replace(function, blocks=tuple(_reading_context(b, builtins) for b in function.blocks))
    entry, *others = function.blocks
    function = replace(function, blocks=(replace(entry, body=(*_dynamic_base(function), *entry.body)), *others))
    statements = structure(function)
    params = tuple(par.Param(param.value) for param in function.params)
    env = {value.name: value for value in (CONTEXT, *(param.value for param in params))}
    wanted = () if function.result == VOID else (RESULT,)
    body, after = SsaRebuilder(env, taken_names(statements) | env.keys()).body(statements, wanted)
    result = Return(after.get(RESULT, Const(function.result, "poison")) if wanted else None)
    return par.Function(
        function.name,
        (par.Param(CONTEXT), *params),
        function.result,
        Block((*body, result)),
        attrs=("nounwind",),
        loc=function.loc,
    )


def _check(function: Function, shared: SharedVariables) -> None:
    static = {shared.value(name).name for name in shared.variables if not shared.is_dynamic(name)}
    for block in function.blocks:
        for op in block.body:
            if not isinstance(op, Leaf):
                continue
            if op.attrs.callee in COLLECTIVES or op.attrs.callee == SYNCTHREADS:
                raise CompileError(
                    MEETING,
                    f"{_spelling(op.attrs.callee)} {_WHERE}",
                    why="such a function cannot be inlined, so its threads cannot be kept in step",
                    try_="move it to the caller, or call the function directly",
                    loc=op.loc or function.loc,
                )
            if any(isinstance(operand, Value) and operand.name in static for operand in op.operands):
                raise CompileError(
                    STATIC_SHARED,
                    f"a static __shared__ variable {_WHERE}",
                    try_="pass a pointer to it, or use `extern __shared__` memory",
                    loc=op.loc or function.loc,
                )


def _spelling(callee: str) -> str:
    return "__" + callee.removeprefix("loom.").replace("vote.sync.", "").replace(".sync", "_sync").split(".")[0]


def _reading_context(block: BasicBlock, builtins: dict[str, Value]) -> BasicBlock:
    """Calls like @loom.threadIdx.x() become loads from the context."""
    body: list[Leaf | Alloca] = []
    for op in block.body:
        if isinstance(op, Leaf) and op.attrs.callee in builtins and op.result is not None:
            body += load_field(FIELD_OF[builtins[op.attrs.callee].name], op.result)
        else:
            body.append(op)
    return replace(block, body=tuple(body))


def _dynamic_base(function: Function) -> list[Leaf]:
    used = any(o == Value(SHARED_DYNAMIC, PTR) for block in function.blocks for o in block_operands(block))
    return load_field(CONTEXT_DYNAMIC_FIELD, Value(SHARED_DYNAMIC, PTR)) if used else []


def load_field(field: int, result: Value) -> list[Leaf]:
    place, address = _field_address(field, f"{result.name}.field")
    return [address, Leaf("load", (place,), result)]


def _field_address(field: int, name: str) -> tuple[Value, Leaf]:
    place = Value(name, PTR)
    indices = (CONTEXT, Const(I32, "0"), Const(I32, str(field)))
    return place, Leaf("getelementptr", indices, place, Attrs(("inbounds",), source_type=CONTEXT_TYPE))


def fill_context(has_dynamic: bool) -> list[Op]:
    """The record of one thread, at the start of a kernel's thread body."""
    ops: list[Op] = [Alloca(CONTEXT, CONTEXT_TYPE, Const(I64, "1"), align_bytes=8)]
    values: list[Operand] = [*THREAD_INDEX, *BLOCK_INDEX, *BLOCK, *GRID]
    values += [Value(SHARED_DYNAMIC, PTR) if has_dynamic else Const(PTR, "null"), SHARED_BYTES]
    for field, value in enumerate(values):
        place, address = _field_address(field, f"context.field.{field}")
        ops += [address, Leaf("store", (value, place))]
    return ops


# ---------------------------------------------------------------- structs passed by value


def own_copies(function: Function) -> Function:
    """Parameters passed `byval` become plain pointers; one that the function may write gets a private copy first."""
    copies: list[Leaf | Alloca] = []
    params = []
    for param in function.params:
        type_ = by_value_type(param)
        if type_ is None:
            params.append(param)
            continue
        if _only_read(function, param.value.name):
            params.append(par.Param(param.value, ("noalias", "readonly")))
            continue
        given = Value(f"{param.value.name}.given", PTR)
        params.append(par.Param(given, ("noalias", "readonly")))
        size = Const(I64, str(size_bytes(type_)))
        copies.append(Alloca(param.value, type_, Const(I64, "1"), align_bytes=16))
        operands = (param.value, given, size, Const(par.I1, "false"))
        copies.append(Leaf("call", operands, None, Attrs(callee="llvm.memcpy.p0.p0.i64")))
    entry, *others = function.blocks
    return replace(function, params=tuple(params), blocks=(replace(entry, body=(*copies, *entry.body)), *others))


def by_value_type(param: par.Param) -> Type | None:
    text = next((attr for attr in param.attrs if attr.startswith("byval(")), None)
    if text is None:
        return None
    return parse_type(text[6:-1], {})


def _only_read(function: Function, name: str) -> bool:
    """Whether memory at pointer `name` is only loaded from, directly or through address arithmetic."""
    work, seen = [name], {name}
    while work:
        pointer = work.pop()
        for block in function.blocks:
            if any(isinstance(v, Value) and v.name == pointer for phi in block.phis for _, v in phi.incoming):
                return False
            for op in block.body:
                if not isinstance(op, Leaf) or not any(isinstance(o, Value) and o.name == pointer for o in op.operands):
                    continue
                if op.opcode == "getelementptr":
                    if op.result.name not in seen:
                        seen.add(op.result.name)
                        work.append(op.result.name)
                elif not (op.opcode == "load" or _copies_from(op, pointer)):
                    return False
    return True


def _copies_from(op: Leaf, pointer: str) -> bool:
    is_copy = op.attrs.callee.startswith(("llvm.memcpy", "llvm.memmove"))
    return is_copy and not (isinstance(op.operands[0], Value) and op.operands[0].name == pointer)
