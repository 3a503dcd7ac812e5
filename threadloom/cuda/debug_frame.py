"""The user's variables in one record per thread, where a debugger finds them (`-g` without optimisation).

    %i = alloca i32                                  %debug.frame = alloca [56 x i8]        # threadIdx, ... first
    call @loom.debug.declare(ptr %i, 45, 80)    ->   store threadIdx, blockIdx, blockDim, gridDim into it
    A                                                %i = getelementptr i8, ptr %debug.frame, i64 48
    barrier threads                                  call @loom.debug.frame(ptr %debug.frame, 48, 45, 80)
    B                                                A; barrier threads
                                                     call @loom.debug.frame(ptr %debug.frame, 48, 45, 80); B

The call tells where the running thread's record is: at the start of its code and behind everything at which threads
meet, for each of these becomes the start of a loop over threads. Its arguments are, for each variable, offset in the
record, node of the variable and node of its place (debug_records.py). Shared variables get a call of their own,
`loom.debug.shared(ptr, node)`. targets/cpu/debug_variables.py makes them known.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from threadloom.cuda.debug_records import DECLARE, DebugRecords
from threadloom.cuda.kernel import BLOCK, BLOCK_INDEX, CONTEXT, DEBUG_FRAME, DEBUG_SHARED, GRID, THREAD_INDEX
from threadloom.cuda.lower.separators import collective_scope
from threadloom.cuda.lower.traverse import expand, walk
from threadloom.cuda.raise_cfg_to_par import Raised
from threadloom.cuda.shared_memory import SharedVariables
from threadloom.par.constants import int_value
from threadloom.par.ops import (
    I1,
    I8,
    I32,
    I64,
    PTR,
    VOID,
    Alloca,
    Array,
    Attrs,
    Barrier,
    Block,
    Const,
    Function,
    Leaf,
    Op,
    Parallel,
    Param,
    Space,
    Value,
)
from threadloom.par.result_types import align_bytes, size_bytes
from threadloom.par.walk import regions, with_regions

_INDICES = (*THREAD_INDEX, *BLOCK_INDEX, *BLOCK, *GRID)
_INDEX_BYTES = 4 * len(_INDICES)
_ALIGN_BYTES = 16
_RECORD = Value("debug.frame", PTR)


@dataclass(frozen=True, slots=True)
class _Variable:
    offset_bytes: int
    node: int
    place: int


def with_frames(raised: Raised, records: DebugRecords, shared: SharedVariables) -> Raised:
    """`raised` with a record for each thread, and `records` kept for emission."""
    of_value = {shared.value(name).name: records.of_global.get(name, "") for name in shared.variables}
    functions = tuple(_with_frame(one, of_value) for one in raised.module.functions if one.name != DECLARE)
    known = {function.name for function in functions}
    for name, types in ((DEBUG_FRAME, (PTR,)), (DEBUG_SHARED, (PTR, I32))):
        if name not in known:
            params = tuple(Param(Value(f"p{number}", type_)) for number, type_ in enumerate(types))
            functions += (Function(name, params, VOID, None, variadic=name == DEBUG_FRAME),)
    return replace(raised, module=replace(raised.module, functions=functions), debug=records)


def _with_frame(function: Function, of_shared: dict[str, str]) -> Function:
    if function.body is None:
        return function
    blocks = next((op for op in function.body.ops if isinstance(op, Parallel)), None)
    if blocks is None:
        return replace(function, body=_framed(function.body, _copied_indices()))
    *outer, threads = blocks.body.ops
    told = [_told(op, of_shared[op.result.name]) for op in outer
            if isinstance(op, Alloca) and of_shared.get(op.result.name)]  # fmt: skip
    threads = replace(threads, body=_framed(threads.body, [*_stored_indices(), *told]))
    inside = replace(blocks, body=Block((*outer, threads)))
    return replace(function, body=Block(tuple(inside if op is blocks else op for op in function.body.ops)))


def _told(alloca: Alloca, node: str) -> Leaf:
    return Leaf("call", (alloca.result, Const(I32, node[1:])), None, Attrs(callee=DEBUG_SHARED))


def _framed(body: Block, start: list[Op]) -> Block:
    """The code of one thread with its record; `start` comes first in it."""
    declared = {op.operands[0]: op for op in walk(body.ops) if _is_declaration(op)}
    places: dict[str, int] = {}
    variables, end = [], _INDEX_BYTES
    for op in body.ops:
        if not isinstance(op, Alloca) or op.space is not Space.PRIVATE or op.result not in declared:
            continue
        if (count := int_value(op.count)) is None:
            continue
        align = op.align_bytes or align_bytes(op.element)
        offset = -(-end // align) * align
        end = offset + count * size_bytes(op.element)
        _, node, place = declared[op.result].operands
        variables.append(_Variable(offset, int_value(node) or 0, int_value(place) or 0))
        places[op.result.name] = offset
    record = Alloca(_RECORD, Array(-(-end // _ALIGN_BYTES) * _ALIGN_BYTES, I8), Const(I64, "1"),
                    align_bytes=_ALIGN_BYTES)  # fmt: skip

    def change(op: Op) -> list[Op] | None:
        if isinstance(op, Alloca) and op.result.name in places:
            return [_address(op.result, places[op.result.name])]
        return [] if _is_declaration(op) else None

    known = _known_again(expand(body, change), _frame_call(variables))
    return Block((record, *start, *known.ops))


def _is_declaration(op: Op) -> bool:
    return isinstance(op, Leaf) and op.attrs.callee == DECLARE


def _address(result: Value, offset: int) -> Leaf:
    indices = (_RECORD, Const(I64, str(offset)))
    return Leaf("getelementptr", indices, result, Attrs(("inbounds",), source_type=I8))


def _frame_call(variables: list[_Variable]) -> Leaf:
    numbers = [number for one in variables for number in (one.offset_bytes, one.node, one.place)]
    return Leaf("call", (_RECORD, *(Const(I32, str(number)) for number in numbers)), None, Attrs(callee=DEBUG_FRAME))


def _known_again(block: Block, call: Leaf) -> Block:
    """`call` at the start of `block` and behind everything in it at which threads meet."""
    ops: list[Op] = [call]
    for op in block.ops:
        if not _meets(op):
            ops.append(op)
            continue
        inner = op if isinstance(op, Leaf | Barrier) else with_regions(op, lambda region: _known_again(region, call))
        ops += [inner, call]
    return Block(tuple(ops))


def _meets(op: Op) -> bool:
    if isinstance(op, Leaf | Barrier):
        return isinstance(op, Barrier) or bool(collective_scope(op))
    return any(_meets(inner) for region in regions(op) for inner in walk(region.ops))


def _stored_indices() -> list[Op]:
    ops: list[Op] = []
    for number, value in enumerate(_INDICES):
        place = Value(f"debug.{value.name}", PTR)
        ops += [_address(place, 4 * number), Leaf("store", (value, place))]
    return ops


def _copied_indices() -> list[Op]:
    """In a function that is called, from the context of the thread that calls it, which begins with them."""
    operands = (_RECORD, CONTEXT, Const(I64, str(_INDEX_BYTES)), Const(I1, "false"))
    return [Leaf("call", operands, None, Attrs(callee="llvm.memcpy.p0.p0.i64"))]
