"""A second version of a kernel for what nearly every launch has in common, chosen at launch.

    define @k(ptr %x, ptr %y, ..., i32 %block.z, ...) { B }
 -> define @k(...) {
      %flat = icmp eq i32 %block.z, 1                          # threadIdx.z is never read
      %few = fcmp olt double %threads, 2^28                    # sums of indices cannot wrap
      %apart = call i32 @__loom_distinct(ptr {%y, %x}, 1, 2)   # %y is written; both lie in different allocations
      if (%flat & %few & %apart) { call @k.apart(...) } else { call @k.general(...) }
    }
    define internal @k.apart(ptr noalias %x, ptr noalias %y, ...) { B with %block.z = 1, nsw and nuw }
    define internal @k.general(...) { B }

The facts are what barrier elimination, hoisting and LLVM's alias analysis want: a written pointer shares no memory with
another parameter, a dimension of the block that the kernel ignores has one thread, and guards such as `i < n` can be
seen through (global_index.py). `__loom_distinct` asks the runtime's table of allocations and answers 0 for pointers it
does not know. Only kernels that can profit (barriers, loops, guards) get a second version.
Source: DESIGN.md, "CUDA on the CPU", 3 (launch-time checks); not in the paper.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from threadloom.cuda.kernel import APART, BLOCK, GENERAL, GRID, LAUNCHED, THREAD_INDEX, is_kernel
from threadloom.cuda.lower.editor import Editor
from threadloom.cuda.lower.effects import Memory, RootKind
from threadloom.cuda.lower.separators import weight
from threadloom.cuda.lower.traverse import free_values, rename_block, walk
from threadloom.cuda.optimize.global_index import MOST_THREADS, unwrapped, without_wrap
from threadloom.par.constants import const
from threadloom.par.ops import (
    F64,
    I1,
    I32,
    PTR,
    Barrier,
    Block,
    Const,
    For,
    Function,
    If,
    Level,
    Module,
    Operand,
    Parallel,
    Param,
    Return,
    Value,
    While,
)
from threadloom.par.passes import decline

DISTINCT = "__loom_distinct"


@dataclass(frozen=True, slots=True)
class Facts:
    """What the second version assumes."""

    unused: tuple[Value, ...]  # block extents that are 1
    written: tuple[Value, ...]  # pointer parameters that are written
    read: tuple[Value, ...]  # pointer parameters that are only read
    unwrapped: frozenset[str] = frozenset()  # sums of indices that do not wrap where few threads run

    def __bool__(self) -> bool:
        return bool(self.unused or self.written or self.unwrapped)


@dataclass(frozen=True, slots=True)
class Specialize:
    name: str = "specialize"
    most_ops: int = 1500  # a larger kernel would pay too much compile time for its second version

    most_ops_of_module: int = 12000  # of the kernels that get one, by weight: instances of templates may be hundreds

    def apply(self, module: Module) -> Module:
        spent = 0
        for function in module.functions:
            if function.body is not None and is_kernel(function) and not function.name.endswith(GENERAL):
                facts = plan_specialization(function, module)
                size = sum(1 for _ in walk(function.body.ops)) if facts else 0
                if size > self.most_ops:
                    decline("kernel too large for a second version", function.name, function.loc)
                elif facts and spent + weight(function) > self.most_ops_of_module:
                    decline("the file has second versions of many kernels already", function.name, function.loc)
                elif facts:
                    spent += weight(function)
                    module = _specialize(function, facts, module)
        return module


def plan_specialization(kernel: Function, module: Module) -> Facts:
    ops = kernel.body.ops if kernel.body else ()
    barriers = any(isinstance(op, Barrier) for op in walk(ops))
    loops = any(isinstance(op, For | While) for op in walk(ops))
    sums = unwrapped(kernel) if any(isinstance(op, If | For | While) for op in walk(ops)) else frozenset()
    if not barriers and not loops and not sums:
        return Facts((), (), ())
    threads = next((op for op in walk(ops) if isinstance(op, Parallel) and op.level is Level.THREADS), None)
    used = free_values(threads.body.ops) if threads else {}
    open_ = free_values(ops)  # extents that are numbers already say all there is
    pairs = zip(THREAD_INDEX, BLOCK, strict=True)
    unused = tuple(extent for index, extent in pairs if index.name not in used and extent.name in open_)
    written, read = _pointers(kernel, module)
    if len(written) + len(read) < 2:
        written = ()
    return Facts(unused if barriers else (), written, read, sums)


def _pointers(kernel: Function, module: Module) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
    """Pointer parameters that the kernel writes through, and those that it only reads through."""
    memory = Memory(kernel, module)
    touched: dict[str, bool] = {}
    for access in memory.accesses(kernel.body.ops if kernel.body else ()):
        for root in access.roots:
            if root.kind is RootKind.PARAM:
                touched[root.name] = touched.get(root.name, False) or access.writes
    known = [param.value for param in kernel.params if param.value.type == PTR and param.value.name in touched]
    return tuple(v for v in known if touched[v.name]), tuple(v for v in known if not touched[v.name])


def _specialize(kernel: Function, facts: Facts, module: Module) -> Module:
    """The version for known launches falls back to the general one that is there already."""
    launched = kernel.name.endswith(LAUNCHED)
    apart = _apart(kernel, facts)
    general = replace(kernel, name=kernel.name.removesuffix(LAUNCHED) + GENERAL, exported=False)
    chooser = Editor(replace(kernel, body=Block(())), module)
    chooser.defined_elsewhere |= {apart.name, general.name}
    with chooser.collect() as ops:
        _choose(chooser, kernel, facts, general.name)
        ops.append(Return())
    module = chooser.finish(replace(kernel, body=Block(tuple(ops))))
    return replace(module, functions=(*module.functions, apart, *(() if launched else (general,))))


def _apart(kernel: Function, facts: Facts) -> Function:
    pointers = {*facts.written, *(facts.read if facts.written else ())}
    params = tuple(_noalias(param) if param.value in pointers else param for param in kernel.params)
    ones = {extent.name: Const(I32, "1") for extent in facts.unused}
    kernel = without_wrap(kernel, facts.unwrapped)
    body = rename_block(kernel.body, ones) if kernel.body else None
    return replace(kernel, name=kernel.name + APART, params=params, body=body, exported=False)


def _noalias(param: Param) -> Param:
    return param if "noalias" in param.attrs else replace(param, attrs=("noalias", *param.attrs))


def _choose(editor: Editor, kernel: Function, facts: Facts, general: str) -> None:
    holds: Operand = Const(I1, "true")
    for extent in facts.unused:
        holds = editor.and_(holds, editor.icmp("eq", extent, 1, "flat"))
    if facts.unwrapped:
        holds = editor.and_(holds, _few(editor))
    if facts.written:
        holds = editor.and_(holds, _distinct(editor, facts), "fits")
    arguments = [param.value for param in kernel.params]
    with editor.if_(holds) as branch:
        editor.call(kernel.name + APART, arguments, kernel.result)
        branch.otherwise()
        editor.call(general, arguments, kernel.result)


def _few(editor: Editor) -> Operand:
    """Counted in f64, which 2^96 threads do not overflow."""
    threads: Operand = const(F64, 1.0)
    for extent in (*GRID, *BLOCK):
        threads = editor.fmul(threads, editor.cast("uitofp", extent, F64), name="threads")
    return editor.fcmp("olt", threads, const(F64, MOST_THREADS), name="few")


def _distinct(editor: Editor, facts: Facts) -> Operand:
    pointers = (*facts.written, *facts.read)
    table = editor.alloca(PTR, len(pointers), name="pointers")
    for index, pointer in enumerate(pointers):
        editor.store(pointer, editor.gep(PTR, table, index))
    counts = [Const(I32, str(len(facts.written))), Const(I32, str(len(pointers)))]
    return editor.icmp("ne", editor.call(DISTINCT, [table, *counts], I32, name="distinct"), 0, "apart")
