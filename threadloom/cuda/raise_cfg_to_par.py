"""cfg -> par: each kernel becomes a structured function in the shape that kernel.py describes.

    before:  define void @k(ptr %x) { entry: %t = call i32 @loom.threadIdx.x() ... br ... }
    after:   define void @k(ptr %x, i32 %grid.x, ...) { parallel blocks (...) { parallel threads (...) {...} } return }

Needs: reducible control flow, everything inlined that can be (inline.py). Keeps: every leaf with its place; no code
is duplicated. Steps: shared variables become values (shared_memory.py), control flow becomes a tree (structure.py),
the tree becomes par in SSA form (rebuild_ssa.py). Loops stay `while`.

Functions that stay functions are raised by raise_functions.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from threadloom.cuda.cfg.ops import BasicBlock, Function, Module
from threadloom.cuda.debug_records import DebugRecords
from threadloom.cuda.kernel import (
    BLOCK,
    BLOCK_INDEX,
    CONTEXT,
    GEOMETRY,
    GRID,
    SHARED_BYTES,
    SHARED_DYNAMIC,
    THREAD_INDEX,
)
from threadloom.cuda.raise_functions import (
    SYNCTHREADS,
    block_operands,
    calls_functions,
    fill_context,
    functions_used,
    own_copies,
    pass_context,
    raise_function,
)
from threadloom.cuda.rebuild_ssa import Env, SsaRebuilder
from threadloom.cuda.shared_memory import SharedVariables, expand_constants, find_shared, names_in
from threadloom.cuda.structure import Choose, Move, Repeat, Statement, structure, taken_names
from threadloom.errors import CompileError, slug
from threadloom.par import ops as par
from threadloom.par.ops import I32, I64, VOID, Alloca, Barrier, Block, Const, Leaf, Level, Op, Parallel, Return, Value
from threadloom.par.walk import walk

_BUILTINS: dict[str, Value] = {
    f"loom.{word}.{axis}": value[index]
    for word, value in (
        ("threadIdx", THREAD_INDEX), ("blockIdx", BLOCK_INDEX), ("blockDim", BLOCK), ("gridDim", GRID),
    )
    for index, axis in enumerate("xyz")
} | {"loom.shared.bytes": SHARED_BYTES}  # fmt: skip
_KEPT_ATTRS = ("noalias", "readonly")
_LIBRARY = ("_ZSt", "_ZNSt", "_ZNKSt", "_ZN9__gnu_cxx", "_ZN10__cxxabiv1", "_ZdlPv", "_ZdaPv", "_Znwm", "_Znam")

UNDEFINED = slug("cuda-undefined-device-function", "device code calls a function that is defined nowhere")


@dataclass(frozen=True, slots=True)
class Raised:
    """A device module at level par; `kernels` are the names of those functions that can be launched. `debug`: where the
    user's variables are kept for a debugger (debug_frame.py)."""

    module: par.Module
    kernels: tuple[str, ...]
    debug: DebugRecords | None = None


def raise_module(module: Module, kernels: tuple[str, ...], keep: frozenset[str] = frozenset()) -> Raised:
    """Raise the kernels named, with the functions, globals and declarations that they use, and the variables `keep`."""
    shared = find_shared(module)
    by_name = {function.name: function for function in module.functions}
    functions = functions_used(module, kernels, keep)
    raised = [raise_kernel(by_name[name], shared, functions) for name in kernels]
    raised += [raise_function(own_copies(by_name[name]), functions, shared, _BUILTINS) for name in functions]
    _check_defined(raised, by_name)
    used = _referenced(raised, module, keep)
    declared = [_declaration(f) for f in module.functions if f.name in used and not f.blocks and _is_external(f.name)]
    declared += [_from_ptx(name) for name in sorted(_OF_PTX.keys() & used - by_name.keys())]
    variables = tuple(v for v in module.globals if v.name in used and v.name not in shared)
    return Raised(par.Module((*raised, *declared), variables), kernels)


def raise_kernel(function: Function, shared: SharedVariables, functions: tuple[str, ...] = ()) -> par.Function:
    """One kernel in the shape of kernel.py; `functions` are those device functions that stay functions."""
    function = own_copies(expand_constants(function, shared))
    needs_context = calls_functions(function, functions)
    blocks = (_as_statements(block) for block in function.blocks)
    function = replace(function, blocks=tuple(pass_context(block, functions) for block in blocks))
    statements = _with_builtins(structure(function))
    values = (*(param.value for param in function.params), *GEOMETRY, *BLOCK_INDEX, *THREAD_INDEX, CONTEXT)
    env: Env = {value.name: value for value in values}
    allocas = _shared_allocas(function, shared, needs_context)
    env |= {alloca.result.name: alloca.result for alloca in allocas}
    rebuilder = SsaRebuilder(env, taken_names(statements) | env.keys())
    body, _ = rebuilder.body(statements)
    if needs_context:
        body = (*fill_context(any(a.result.name == SHARED_DYNAMIC for a in allocas)), *body)
    return _kernel(function, function.params, allocas, body)


def _kernel(
    function: Function, params: tuple[par.Param, ...], allocas: list[Alloca], body: tuple[Op, ...]
) -> par.Function:
    zero = (Const(I32, "0"),) * 3
    threads = Parallel(Level.THREADS, THREAD_INDEX[::-1], zero, BLOCK[::-1], Block(body), loc=function.loc)
    blocks = Parallel(Level.BLOCKS, BLOCK_INDEX[::-1], zero, GRID[::-1], Block((*allocas, threads)), loc=function.loc)
    params = tuple(par.Param(p.value, tuple(a for a in p.attrs if a in _KEPT_ATTRS)) for p in params)
    geometry = tuple(par.Param(value) for value in GEOMETRY)
    return par.Function(
        function.name, params + geometry, VOID, Block((blocks, Return())), attrs=("nounwind",), loc=function.loc
    )


def _as_statements(block: BasicBlock) -> BasicBlock:
    """`__syncthreads()` becomes a Barrier."""
    is_barrier = [isinstance(op, Leaf) and op.attrs.callee == SYNCTHREADS for op in block.body]
    body = (Barrier(Level.THREADS, op.loc) if b else op for op, b in zip(block.body, is_barrier, strict=True))
    return replace(block, body=tuple(body)) if any(is_barrier) else block


def _with_builtins(statements: tuple[Statement, ...]) -> tuple[Statement, ...]:
    """Calls that read threadIdx and the like become plain uses of the induction variables and parameters."""
    result: list[Statement] = []
    for statement in statements:
        match statement:
            case Leaf(opcode="call", result=Value() as value) if statement.attrs.callee in _BUILTINS:
                result.append(Move((value,), (_BUILTINS[statement.attrs.callee],)))
            case Choose(then=then, otherwise=otherwise):
                result.append(replace(statement, then=_with_builtins(then), otherwise=_with_builtins(otherwise)))
            case Repeat(before=before, after=after):
                result.append(replace(statement, before=_with_builtins(before), after=_with_builtins(after)))
            case _:
                result.append(statement)
    return tuple(result)


def _shared_allocas(function: Function, shared: SharedVariables, all_dynamic: bool) -> list[Alloca]:
    """The allocations of the shared variables that `function` uses, in the module's order, dynamic memory once."""
    used = {o.name for block in function.blocks for o in block_operands(block) if isinstance(o, Value)}
    if all_dynamic:  # a function that is called may use it
        used.add(SHARED_DYNAMIC)
    allocas = {shared.value(name): shared.alloca(name) for name in shared.variables}
    return [alloca for value, alloca in allocas.items() if value.name in used]


# ---------------------------------------------------------------- what raised code refers to


def _check_defined(functions: list[par.Function], known: dict[str, Function]) -> None:
    """C++ functions must be here; names without mangling may be the C library's."""
    for function in functions:
        for leaf in _leaves(function.body):
            callee = leaf.attrs.callee
            found = known.get(callee)
            if found is None or found.blocks or not callee.startswith("_Z") or callee.startswith(_LIBRARY):
                continue
            raise CompileError(
                UNDEFINED,
                f"device function {_readable(callee)} has no definition",
                why="it is only declared here; code of another file is seen where both are compiled with -rdc=true",
                try_="link the file that defines it, both compiled with -rdc=true, or define the function in a header",
                loc=leaf.loc,
            )


def _leaves(block: Block) -> Iterator[Leaf]:
    return (op for op in walk(block) if isinstance(op, Leaf))


def _readable(symbol: str) -> str:
    from threadloom.cuda.arguments import demangle

    return demangle(symbol)


def _is_external(name: str) -> bool:
    return not name.startswith("llvm.")


def _declaration(function: Function) -> par.Function:
    return par.Function(
        function.name, function.params, function.result, None, attrs=("nounwind",), variadic=function.variadic
    )


# What inline PTX calls though the source names none of it (ptx_statement.py): name -> result, parameters.
_OF_PTX = {"loom.syncwarp": (VOID, (I32,)), "loom.trap": (VOID, ()), "loom.clock": (I64, ())}


def _from_ptx(name: str) -> par.Function:
    result, types = _OF_PTX[name]
    params = tuple(par.Param(Value(f"p{i}", type_)) for i, type_ in enumerate(types))
    return par.Function(name, params, result, None, attrs=("nounwind",))


def _referenced(functions: list[par.Function], module: Module, keep: frozenset[str]) -> set[str]:
    """Names of the globals and functions that `functions` use, and the variables `keep`, through initialisers too."""
    found = set(keep)
    for function in functions:
        for leaf in _leaves(function.body):
            if leaf.attrs.callee:
                found.add(leaf.attrs.callee)
            for operand in leaf.operands:
                if isinstance(operand, Const) and "@" in operand.text:
                    found |= names_in(operand.text)
    variables = {variable.name: variable for variable in module.globals}
    work = list(found)
    while work:
        variable = variables.get(work.pop())
        more = names_in(variable.init) - found if variable and variable.init else set()
        found |= more
        work += more
    return found
