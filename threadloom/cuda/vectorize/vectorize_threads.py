"""W neighbouring threads of a barrier-free loop over threads become the lanes of explicit vectors.

    parallel threads (%y, %x) = (0, 0) to (%ny, %nx) { body }
 -> %full = (%nx) / 16
    parallel threads (%y, %chunk) = (0, 0) to (%ny, %full) { %x0 = %chunk * 16; body over <16 x T> }
    if (%full * 16 < %nx) { the same for one more vector, under the mask %x0 + lane < %nx }

Where the loop reads nothing that it writes, the last vector ends with the row instead, and some threads run twice.

LLVM's loop vectoriser takes innermost loops only and runs all paths of a branch; CUDA kernels have loops inside the
loop over threads, and branches that few threads take. Here inner loops stay loops over vectors, branches that no lane
takes are skipped, addresses that step with the thread become contiguous accesses (shapes.py), and values that all lanes
share stay scalar. Declines where LLVM does well alone (straight-line bodies), and for values that are no scalars,
private memory of mixed types and synchronising operations. Source: whole-function vectorisation (Karrenberg and Hack);
not in the paper.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from threadloom.cuda.kernel import GENERAL
from threadloom.cuda.lower.editor import Editor
from threadloom.cuda.lower.effects import Kind, Memory, is_pure, may_alias
from threadloom.cuda.lower.traverse import expand, walk
from threadloom.cuda.lower.waits import waits
from threadloom.cuda.vectorize.cost import estimate
from threadloom.cuda.vectorize.emit import RegionVectorizer, has_loops_or_branches
from threadloom.cuda.vectorize.lanes import Steps
from threadloom.cuda.vectorize.leaves import goes_one_by_one
from threadloom.cuda.vectorize.shapes import Shapes, scalar_element
from threadloom.par.canonicalize import without_unused
from threadloom.par.constants import const, int_value
from threadloom.par.ops import (
    F32,
    PTR,
    Alloca,
    Block,
    Float,
    For,
    Function,
    Int,
    Leaf,
    Level,
    Module,
    Op,
    Operand,
    Parallel,
    Ptr,
    Return,
    Struct,
    Type,
    Value,
    While,
)
from threadloom.par.passes import decline
from threadloom.par.result_types import size_bytes
from threadloom.par.reuse_values import reuse_values
from threadloom.par.walk import arguments, regions, results


@dataclass(frozen=True, slots=True)
class VectorizeThreads:
    width: int = 0  # lanes; 0: as many floats as this machine's registers hold
    most_ops: int = 2500  # of one loop over threads
    most_ops_of_function: int = 4000  # all its vectorised loops together; LLVM's time grows with them
    most_ops_of_module: int = 6000  # of all functions; kernels' versions for odd launches come last
    most_ops_for_odd_launches: int = 1500  # of those, versions for launches that are seldom made
    two_versions_ops: int = 300  # a larger body has only a masked version
    worth_it: float = 0.6  # the vector code must be estimated at less than this part of the scalar code
    name: str = "vectorize-threads"

    def apply(self, module: Module) -> Module:
        left = self.most_ops_of_module
        for function in sorted(module.functions, key=lambda one: GENERAL in one.name):
            if function.body is not None:
                if GENERAL in function.name:
                    left = min(left, self.most_ops_for_odd_launches)
                module, spent = self._function(function, module, min(left, self.most_ops_of_function))
                left -= spent
        return module

    def _function(self, function: Function, module: Module, most_ops: int) -> tuple[Module, int]:
        """The module with the loops of `function` vectorised, and how many operations these had."""
        editor, memory = Editor(function, module), Memory(function, module)
        params = frozenset(param.value.name for param in function.params)
        spent = 0

        def change(op: Op) -> list[Op] | None:
            nonlocal spent
            if not isinstance(op, Parallel) or op.level not in (Level.THREADS, Level.LANES):
                return None
            shapes, size = Shapes(op, memory), sum(1 for _ in walk(op.body.ops))
            reason = self._why_not(op, shapes, memory, params)
            if reason is None and spent + size > most_ops:
                reason = "the kernel, or all of the file together, is too large"
            if reason is not None:
                decline("loop over threads not vectorised here", reason, op.loc)
                return None
            spent += size
            whole = size > self.two_versions_ops
            return _vectorized(op, shapes, memory, editor, self.width or _best_width(op, shapes), whole)

        body = expand(function.body, change)
        if body is function.body:
            return module, spent
        # A value's lanes are built wherever they are used, and some forms of it for nothing.
        return editor.finish(replace(function, body=without_unused(reuse_values(body)))), spent

    def _width(self) -> int:
        return self.width or default_width()

    def _why_not(self, op: Parallel, shapes: Shapes, memory: Memory, params: frozenset[str]) -> str | None:
        inside = list(walk(op.body.ops))
        known = int_value(op.uppers[-1])
        if known is not None and known < self._width():
            return "fewer threads than lanes"
        if not has_loops_or_branches(op.body.ops):
            if not _is_narrowed(op, params):
                return "straight-line code: left to LLVM"
            if _is_scattered(inside, shapes):
                return "straight-line code with strided accesses: left to LLVM"
        if len(inside) > self.most_ops:
            return "too large"
        for inner in inside:
            if isinstance(inner, Parallel | Return):
                return "a parallel region inside"
            if isinstance(inner, Alloca) and int_value(inner.count) is None:
                return "private memory of variable size"
            if isinstance(inner, For | While) and shapes.is_masked(inner) and _spins(inner):
                return "atomics in a loop that lanes leave one by one"
            if isinstance(inner, Leaf) and (reason := _leaf_reason(inner, shapes)) is not None:
                return reason
            for value in (*results(inner), *arguments(inner)):
                if shapes.stride(value) is None and not _fits_lane(value.type) and not _by_field(inner):
                    return f"values of type {value.type!r}"
        if waits(op.body.ops, memory):
            return "a loop that may wait for another thread"
        if (reason := _private_reason(inside, shapes)) is not None:
            return reason
        cost = estimate(op.body.ops, shapes, self._width(), lambda leaf: goes_one_by_one(leaf, shapes, memory))
        if cost.vector > self.worth_it * cost.scalar:
            return f"would not pay: about {cost.vector:.0f} against {cost.scalar:.0f} instructions"
        return None


def _is_scattered(inside: list[Op], shapes: Shapes) -> bool:
    """Half of the accesses or more reach the lanes one by one."""
    kinds = []
    for op in inside:
        if isinstance(op, Leaf) and op.opcode in ("load", "store"):
            pointer, value = (op.operands[0], op.result) if op.result else (op.operands[1], op.operands[0])
            kinds.append(shapes.likely(pointer) in (0, size_bytes(value.type)))
    return 2 * kinds.count(False) >= len(kinds) > 0


def _is_narrowed(op: Parallel, params: frozenset[str]) -> bool:
    """Its fastest dimension has computed ends (narrow_threads.py): often few threads, and LLVM runs those that fill no
    vector one by one."""
    ends = (op.lowers[-1], op.uppers[-1])
    return any(isinstance(end, Value) and end.name not in params for end in ends)


def _best_width(op: Parallel, shapes: Shapes) -> int:
    width = default_width()
    if _adds_up_rows(op, shapes):
        return 4 * width
    if _has_few_sums(op):
        return 2 * width
    return width // 2 if _is_mostly_double(op) else width


def _adds_up_rows(op: Parallel, shapes: Shapes) -> bool:
    """A loop inside does nothing but add up an element of each row of an array: whole cache lines of a row at a time
    reach memory in fewer places, and as many sums do not wait for one another."""
    loops = [inner for inner in walk(op.body.ops) if isinstance(inner, For | While)]
    known = int_value(op.uppers[-1])
    if len(loops) != 1 or shapes.is_masked(loops[0]) or (known is not None and known < 4 * default_width()):
        return False
    sums = [arg for arg in loops[0].args if shapes.stride(arg) is None]
    inside = [inner for region in regions(loops[0]) for inner in region.ops[:-1]]
    if len(sums) != 1 or sums[0].type != F32 or not all(isinstance(inner, Leaf) for inner in inside):
        return False
    touched = [inner for inner in inside if not is_pure(inner)]
    if any(inner.opcode != "load" for inner in touched):
        return False
    strides = [shapes.stride(inner.operands[0]) for inner in touched if shapes.stride(inner.operands[0]) != 0]
    return 1 <= len(strides) <= 2 and set(strides) == {4}


def _has_few_sums(op: Parallel) -> bool:
    """A loop inside adds up so few values, and nothing else, that registers hold twice as many lanes of each: what all
    lanes share, such as one element of a matrix's column, is then loaded half as often (after lower/jam_rows.py)."""
    loops = [inner for inner in walk(op.body.ops) if isinstance(inner, For | While)]
    known = int_value(op.uppers[-1])
    if len(loops) != 1 or not isinstance(loops[0], For) or (known is not None and known < 2 * default_width()):
        return False
    sums = loops[0].args
    leaves = [one for one in walk(loops[0].body.ops) if isinstance(one, Leaf) and is_pure(one)]
    arithmetic = [one for one in leaves if one.result and isinstance(one.result.type, Float)]
    few = _FEWEST_SUMS <= len(sums) <= _MOST_SUMS and all(isinstance(one.type, Float) for one in sums)
    return few and len(arithmetic) <= 2 * len(sums)  # a product and a sum each


def _is_mostly_double(op: Parallel) -> bool:
    """Vectors of as many f64 as of f32 would take twice the registers."""
    floats = [value.type for inner in walk(op.body.ops) for value in results(inner) if isinstance(value.type, Float)]
    kinds = [type_.kind for type_ in floats]
    return default_width() >= 8 and 2 * kinds.count("double") > len(kinds)


_FEWEST_SUMS, _MOST_SUMS = 4, 6  # of 16 vector registers, in pairs, with room for operands


def default_width() -> int:
    from threadloom.targets.cpu.host import target_cpu

    return max(4, target_cpu().vector_bytes // 4)


def _fits_lane(type_: Type) -> bool:
    match type_:
        case Int(bits):
            return bits in (1, 8, 16, 32, 64)
        case Float(kind):
            return kind in ("half", "bfloat", "float", "double")
    return isinstance(type_, Ptr)


def _by_field(op: Op) -> bool:
    """Its struct result is kept field by field."""
    return isinstance(op, Leaf) and op.opcode in ("cmpxchg",)


def _leaf_reason(op: Leaf, shapes: Shapes) -> str | None:
    if op.opcode in ("fence", "unreachable"):
        return op.opcode
    if op.opcode in ("load", "store"):
        type_ = op.result.type if op.result else op.operands[0].type
        pointer = op.operands[0] if op.opcode == "load" else op.operands[1]
        uniform = shapes.uniform(*op.operands) and (op.result is None or shapes.stride(op.result) == 0)
        if not uniform and (not _fits_lane(type_) or type_ == Int(1)):
            return f"accesses of type {type_!r}"
        if op.attrs.volatile and (shapes.uniform(pointer) or not shapes.is_local(pointer)):
            return "volatile access"
    if op.opcode in ("extractvalue", "insertvalue", "insertelement", "extractelement", "shufflevector"):
        varies = any(shapes.stride(operand) is None for operand in op.operands)
        if varies and not (op.opcode == "extractvalue" and _is_pair(op)):
            return f"{op.opcode} on values that vary"
    return None


def _spins(loop: For | While) -> bool:
    """A lane that holds a lock would wait for those that wait for the lock."""
    return any(isinstance(op, Leaf) and op.opcode in ("atomicrmw", "cmpxchg") for op in walk((loop,)))


def _is_pair(op: Leaf) -> bool:
    type_ = op.operands[0].type
    return isinstance(type_, Struct) and len(type_.fields) == 2 and type_.fields[1] == Int(1)


def _private_reason(inside: list[Op], shapes: Shapes) -> str | None:
    """A private array must be used as an array of one scalar type only, so that its lanes can be interleaved."""
    for op in inside:
        if not isinstance(op, Leaf):
            continue
        for position, operand in enumerate(op.operands):
            if operand.type != PTR or not shapes.is_private(operand):
                continue
            alloca = next(a for name, a in shapes.private.items() if name in _roots(operand, shapes))
            element = scalar_element(alloca.element)
            match op.opcode:
                case "load":
                    fits = op.result.type == element
                case "store":
                    fits = position == 1 and op.operands[0].type == element
                case "getelementptr":
                    fits = position == 0 and scalar_element(op.attrs.source_type) == element
                case "select" | "freeze" | "icmp":
                    fits = True
                case "call":
                    fits = op.result is None and op.attrs.callee.startswith("llvm.lifetime")
                case _:
                    fits = False
            if not fits or len(_roots(operand, shapes)) != 1 or isinstance(element, Struct):
                return f"private memory %{alloca.result.name} of mixed types"
    return None


def _roots(operand: Operand, shapes: Shapes) -> set[str]:
    return {root.name for root in shapes.roots(operand)}


def _vectorized(op: Parallel, shapes: Shapes, memory: Memory, editor: Editor, width: int, whole: bool) -> list[Op]:
    """`whole`: one vector loop covers all threads, its lanes masked. Else there are no masks but in a last vector, for
    the threads that fill none; none at all where those may run once more with the threads before them."""
    lower, upper = op.lowers[-1], op.uppers[-1]
    with editor.collect() as front:
        threads = editor.sub(upper, lower)
        full = editor.sdiv(threads, width, "chunks")
        chunks = editor.sdiv(editor.add(threads, width - 1), width, "chunks")

    def loop(begin: Operand, end: Operand, masked: bool, overlapping: bool = False) -> Parallel:
        vectorizer = RegionVectorizer(editor, width, shapes, memory.callee, op.body.ops, never_all=masked and not whole)
        return _lanes(op, vectorizer, begin, end, masked, overlapping)

    zero, known = const(lower.type, 0), int_value(threads)
    if known is not None and known % width == 0:
        return [*front, loop(zero, chunks, False)]
    if whole:
        return [*front, loop(zero, chunks, True)]
    with editor.collect() as ops:
        if _repeatable(op, shapes, memory):
            with editor.if_(editor.icmp("sge", threads, width, "fills.vector")) as branch:
                editor.ops.append(loop(zero, chunks, False, overlapping=True))
                branch.otherwise()
                editor.ops.append(loop(zero, chunks, True))
        else:
            editor.ops.append(loop(zero, full, False))
            with editor.if_(editor.icmp("slt", full, chunks, "some.left")):
                editor.ops.append(loop(full, chunks, True))
    return [*front, *ops]


def _repeatable(op: Parallel, shapes: Shapes, memory: Memory) -> bool:
    """A thread that runs twice does the same twice: nothing that it reads is written in the loop."""
    leaves = [inner for inner in walk(op.body.ops) if isinstance(inner, Leaf)]
    if any(inner.attrs.volatile or inner.opcode == "fence" for inner in leaves):
        return False
    accesses = [one for one in memory.accesses(op.body.ops)
                if not all(root.name in shapes.private for root in one.roots)]  # fmt: skip
    plain = all(one.kind in (Kind.READ, Kind.WRITE) and one.pointer is not None for one in accesses)
    known = all(inner.opcode in ("load", "store") or is_pure(inner, memory.callee(inner)) for inner in leaves)
    writes = [one.roots for one in accesses if one.writes]
    return plain and known and not any(may_alias(a, one.roots) for one in accesses if not one.writes for a in writes)


def _lanes(op: Parallel, vectorizer: RegionVectorizer, begin: Operand, end: Operand, masked: bool, overlapping: bool
           ) -> Parallel:  # fmt: skip
    """The vectors `begin` to `end` of each row; `overlapping`: the last one ends with the row."""
    editor, width = vectorizer.editor, vectorizer.width
    lower, upper, x = op.lowers[-1], op.uppers[-1], op.ivs[-1]
    outer = tuple(editor.again(iv) for iv in op.ivs[:-1])
    for old, new in zip(op.ivs[:-1], outer, strict=True):
        vectorizer.forms[old.name] = vectorizer.form(new)
    chunk = editor.fresh("chunk", x.type)
    with editor.collect() as body:
        body.extend(vectorizer.place_private())
        first = editor.add(lower, editor.mul(chunk, width), name=f"{x.name}.first")
        if overlapping:
            first = editor.min(first, editor.sub(upper, width), name=f"{x.name}.first")
        vectorizer.forms[x.name] = Steps(first, 1)
        mask = None
        if masked:
            mask = editor.icmp("slt", vectorizer.lanes_of(x), vectorizer.splat(upper), "mask")
        vectorizer.block(op.body.ops, mask)
    return Parallel(op.level, (*outer, chunk), (*op.lowers[:-1], begin), (*op.uppers[:-1], end), Block(tuple(body)),
                    op.schedule, op.loc)  # fmt: skip
