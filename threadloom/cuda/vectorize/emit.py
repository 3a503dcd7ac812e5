"""Control flow over lanes.

    if i1 %c (varies) { A } else { B }     ->  if any lane takes A { A under mask & c }; B likewise; blend the results
    while (...) { %c } do { B }            ->  while (%mask = ...) { %on = mask & c; if any %on } do { B under %on }

A side that is cheap and touches memory only lane by lane runs without the branch. Values that a lane has when it
leaves a loop are blended into carried vectors then and there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from threadloom.cuda.lower.editor import Editor
from threadloom.cuda.lower.traverse import last_values, walk
from threadloom.cuda.vectorize.lanes import Form, Lanes, Steps, Uniform
from threadloom.cuda.vectorize.leaves import LeafVectorizer
from threadloom.cuda.vectorize.shapes import Shapes, is_poison
from threadloom.errors import InternalError
from threadloom.par.intrinsics import is_speculatable
from threadloom.par.ops import (
    I1,
    Alloca,
    Block,
    Condition,
    Const,
    For,
    If,
    Leaf,
    Op,
    Operand,
    Value,
    While,
    Yield,
)
from threadloom.par.result_types import align_bytes
from threadloom.par.walk import operands

_CHEAP_OPS = 10  # a side of an if that runs without asking whether any lane takes it


class RegionVectorizer(LeafVectorizer):
    def __init__(self, editor: Editor, width: int, shapes: Shapes, callee: Callable, ops: Sequence[Op],
                 never_all: bool = False):  # fmt: skip
        super().__init__(editor, width, shapes, callee, never_all)
        self.used = {one.name for op in walk(ops) for one in operands(op) if isinstance(one, Value)}

    def block(self, ops: Sequence[Op], mask: Operand | None) -> None:
        """Builds `ops` at the editor's place; closing operations are left to the caller."""
        for op in ops:
            match op:
                case Leaf():
                    self.leaf(op, mask)
                case If():
                    self._if(op, mask)
                case For() if not self.shapes.is_masked(op):
                    self._for(op, mask)
                case For():
                    self._masked_for(op, mask)
                case While() if not self.shapes.is_masked(op):
                    self._while(op, mask)
                case While():
                    self._masked_while(op, mask)
                case Alloca():
                    pass  # placed before the loop over threads
                case Yield() | Condition():
                    pass
                case _:
                    raise InternalError(f"cannot vectorise {op!r}")

    # ------------------------------------------------------------ passing values through regions

    def _raw(self, form: Form, stride: int | None) -> Operand:
        """What a region's yield passes for a value that is to arrive with `stride`."""
        if stride is None:
            return self.vector(form)
        match form:
            case Uniform(value):
                return value
            case Steps(first, _):
                return first
        raise InternalError("a vector where steps were expected")

    def _raws(self, operands: Sequence[Operand], targets: Sequence[Value]) -> tuple[Operand, ...]:
        return tuple(self._raw(self.form(operand), self.shapes.stride(target))
                     for operand, target in zip(operands, targets, strict=True))  # fmt: skip

    def _bind(self, target: Value) -> Value:
        """A fresh value for `target` in the vector code, and its form."""
        stride = self.shapes.stride(target)
        type_ = target.type if stride is not None else self.vector_type(target.type)
        new = self.editor.fresh(target.name, type_)
        self.forms[target.name] = self._form_of(new, stride)
        return new

    def _form_of(self, raw: Operand, stride: int | None) -> Form:
        return Lanes(raw) if stride is None else Steps(raw, stride) if stride else Uniform(raw)

    def _bind_all(self, targets: Sequence[Value]) -> tuple[Value, ...]:
        return tuple(self._bind(target) for target in targets)

    # ------------------------------------------------------------ if

    def _if(self, op: If, mask: Operand | None) -> None:
        if self.shapes.uniform(op.cond):
            self._uniform_if(op, mask)
            return
        cond = self.lanes_of(op.cond)
        on = self.both(mask, cond)
        then = self._side(op, op.then, on)
        otherwise = ()
        if len(op.otherwise.ops) > 1 or op.results:
            otherwise = self._side(op, op.otherwise, self.both(mask, self.inverted(cond)))
        sources = zip(last_values(op.then), last_values(op.otherwise), strict=True)
        for result, yes, no, (a, b) in zip(op.results, then, otherwise, sources, strict=True):
            if a == b:
                self.forms[result.name] = self.form(a)
            elif is_poison(a) or is_poison(b):
                self.forms[result.name] = no if is_poison(a) else yes
            else:
                self.forms[result.name] = self.blend(cond, yes, no)

    def _uniform_if(self, op: If, mask: Operand | None) -> None:
        sides = []
        for side in (op.then, op.otherwise):
            with self.editor.collect() as ops:
                self.block(side.ops, mask)
                ops.append(Yield(self._raws(last_values(side), op.results)))
            sides.append(Block(tuple(ops)))
        cond = self.scalar(op.cond)
        results = self._bind_all(op.results)
        self.editor.ops.append(If(cond, *sides, results, op.loc))

    def _side(self, op: If, side: Block, on: Operand) -> tuple[Form, ...]:
        """One side under its mask; the values it yields."""
        if len(side.ops) <= 1:
            return tuple(self.form(value) for value in last_values(side))
        if self._is_cheap(side):
            self.block(side.ops, on)
            return tuple(self.form(value) for value in last_values(side))
        yielded = last_values(side)
        some = self.any(on)
        with self.editor.collect() as ops:
            self.block(side.ops, on)
            values = self._raws(yielded, op.results)
            ops.append(Yield(values))
        idle = Block((Yield(tuple(self.unknown_like(value) for value in values)),))
        results = tuple(self.editor.fresh("side", value.type) for value in values)
        self.editor.ops.append(If(some, Block(tuple(ops)), idle, results, op.loc))
        strides = [self.shapes.stride(result) for result in op.results]
        return tuple(self._form_of(result, stride) for result, stride in zip(results, strides, strict=True))

    def _is_cheap(self, side: Block) -> bool:
        if len(side.ops) > _CHEAP_OPS:
            return False
        for op in side.ops:
            if isinstance(op, Yield):
                continue
            if not isinstance(op, Leaf):
                return False
            lane_wise = op.opcode in ("load", "store") and not self._is_scalar_access(op)
            if not lane_wise and not is_speculatable(op):
                return False
        return True

    def _is_scalar_access(self, op: Leaf) -> bool:
        """Without a branch it would run even where no lane takes the side."""
        pointer = op.operands[1] if op.opcode == "store" else op.operands[0]
        return self.shapes.uniform(pointer) or bool(op.attrs.ordering)

    # ------------------------------------------------------------ loops that all lanes leave together

    def _for(self, op: For, mask: Operand | None) -> None:
        lower, upper, step = (self.scalar(bound) for bound in (op.lower, op.upper, op.step))
        inits = self._raws(op.inits, op.args)
        iv, args = self._bind(op.iv), self._bind_all(op.args)
        with self.editor.collect() as ops:
            self.block(op.body.ops, mask)
            ops.append(Yield(self._raws(last_values(op.body), op.args)))
        results = self._bind_all(op.results)
        self.editor.ops.append(For(iv, lower, upper, step, inits, args, Block(tuple(ops)), results, op.loc))

    def _while(self, op: While, mask: Operand | None) -> None:
        condition = op.before.ops[-1]
        inits = self._raws(op.inits, op.args)
        args = self._bind_all(op.args)
        with self.editor.collect() as before:
            self.block(op.before.ops, mask)
            before.append(Condition(self.scalar(condition.cond), self._raws(condition.values, op.after_args)))
        after_args = self._bind_all(op.after_args)
        with self.editor.collect() as after:
            self.block(op.after.ops, mask)
            after.append(Yield(self._raws(last_values(op.after), op.args)))
        results = self._bind_all(op.results)
        self.editor.ops.append(
            While(inits, args, Block(tuple(before)), after_args, Block(tuple(after)), results, op.loc)
        )

    # ------------------------------------------------------------ loops that lanes leave one by one

    def _masked_while(self, op: While, mask: Operand | None) -> None:
        condition = op.before.ops[-1]
        inits, args = self._raws(op.inits, op.args), self._bind_all(op.args)
        lanes_in = self.editor.fresh("mask", self.vector_type(I1))
        with self.editor.collect() as before:
            self.block(op.before.ops, lanes_in)
            on = self.both(lanes_in, self.lanes_of(condition.cond))
            kept, left = self._leaving(op.results, [self.form(value) for value in condition.values], lanes_in, on)
            passed = self._raws(condition.values, op.after_args)
            before.append(Condition(self.any(on), (on, *passed, *left)))
        on_in = self.editor.fresh("mask", self.vector_type(I1))
        after_args = self._bind_all(op.after_args)
        left_in = tuple(self.editor.fresh(value.name, value.type) for value in kept)
        with self.editor.collect() as after:
            self.block(op.after.ops, on_in)
            after.append(Yield((on_in, *self._raws(last_values(op.after), op.args), *left_in)))
        starts = (self._mask(mask), *inits, *(self.unknown_like(value) for value in kept))
        self._append_while(op, starts, (lanes_in, *args, *kept), before, (on_in, *after_args, *left_in), after, kept)

    def _append_while(self, op: While | For, starts: Sequence[Operand], args: Sequence[Value], before: Sequence[Op],
                      after_args: Sequence[Value], after: Sequence[Op], kept: Sequence[Value]) -> None:  # fmt: skip
        """The masked loop; the last of its results are those of `op`."""
        others = tuple(self.editor.again(value) for value in after_args[: len(after_args) - len(kept)])
        asked = [result for result in op.results if result.name in self.used]
        outs = tuple(self.editor.fresh(result.name, value.type) for result, value in zip(asked, kept, strict=True))
        for result, out in zip(asked, outs, strict=True):
            self.forms[result.name] = Lanes(out)
        blocks = Block(tuple(before)), Block(tuple(after))
        self.editor.ops.append(
            While(tuple(starts), tuple(args), blocks[0], tuple(after_args), blocks[1], (*others, *outs), op.loc)
        )

    def _leaving(self, results: Sequence[Value], forms: Sequence[Form], lanes_in: Operand, on: Operand
                 ) -> tuple[tuple[Value, ...], tuple[Operand, ...]]:  # fmt: skip
        """Carried vectors for the results that are used, and what they become when some lanes leave: those take their
        value now."""
        asked = [(one, form) for one, form in zip(results, forms, strict=True) if one.name in self.used]
        kept = tuple(self.editor.fresh(f"{one.name}.left", self.vector_type(one.type)) for one, _ in asked)
        if not kept:
            return (), ()
        forms = [form for _, form in asked]
        leaves = self.both(lanes_in, self.inverted(on))

        def blended() -> tuple[Operand, ...]:
            return tuple(self.vector(self.blend(leaves, form, Lanes(old)))
                         for form, old in zip(forms, kept, strict=True))  # fmt: skip

        if all(isinstance(form, Lanes) for form in forms):
            return kept, blended()
        # Vectors are made only when some lane takes them: in a search, most iterations end for none.
        with self.editor.if_(self.any(leaves)) as branch:
            branch.yield_(*blended())
            branch.otherwise()
            branch.yield_(*kept)
        return kept, branch.results

    def unknown_like(self, value: Operand) -> Const:
        return Const(value.type, "poison")

    def _masked_for(self, op: For, mask: Operand | None) -> None:
        """As a while over (mask, iv, carried values)."""
        upper, step_stride = self.form(op.upper), self.shapes.stride(op.step)
        iv_init, inits = self._raw(self.form(op.lower), self.shapes.stride(op.iv)), self._raws(op.inits, op.args)
        step = self.form(op.step)
        iv, args = self._bind(op.iv), self._bind_all(op.args)
        lanes_in = self.editor.fresh("mask", self.vector_type(I1))
        arg_forms = [self.forms[arg.name] for arg in op.args]
        with self.editor.collect() as before:
            below = self.editor.icmp("slt", self.lanes_of(op.iv), self.vector(upper), "below")
            on = self.both(lanes_in, below)
            kept, left = self._leaving(op.results, arg_forms, lanes_in, on)
            before.append(Condition(self.any(on), (on, iv, *args, *left)))
        on_in = self.editor.fresh("mask", self.vector_type(I1))
        iv_in, args_in = self._bind(op.iv), self._bind_all(op.args)
        left_in = tuple(self.editor.fresh(value.name, value.type) for value in kept)
        with self.editor.collect() as after:
            self.block(op.body.ops, on_in)
            following = self._advanced(iv_in, step, step_stride, self.shapes.stride(op.iv))
            after.append(Yield((on_in, following, *self._raws(last_values(op.body), op.args), *left_in)))
        starts = (self._mask(mask), iv_init, *inits, *(self.unknown_like(value) for value in kept))
        inner = (on_in, iv_in, *args_in, *left_in)
        self._append_while(op, starts, (lanes_in, iv, *args, *kept), before, inner, after, kept)

    def _advanced(self, iv: Operand, step: Form, step_stride: int | None, iv_stride: int | None) -> Operand:
        by = self.vector(step) if iv_stride is None else step.value if isinstance(step, Uniform) else None
        if by is None:
            raise InternalError(f"a step of stride {step_stride} under a variable of stride {iv_stride}")
        return self.editor.add(iv, by, name="next")

    # ------------------------------------------------------------ private arrays

    def place_private(self) -> list[Op]:
        """One array of W lanes for each private allocation; its form."""
        with self.editor.collect() as ops:
            for name, alloca in self.shapes.private.items():
                align = max(alloca.align_bytes, align_bytes(alloca.element), 64)
                count = self.editor.mul(self.scalar(alloca.count), self.width)
                place = self.editor.alloca(alloca.element, count, align_bytes=align, name=f"{name}.lanes")
                self.forms[name] = Steps(place, self.shapes.stride(alloca.result) or 0)
        return ops


def has_loops_or_branches(ops: Sequence[Op]) -> bool:
    return any(isinstance(op, If | For | While) for op in walk(ops))
