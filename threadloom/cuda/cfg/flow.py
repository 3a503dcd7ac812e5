"""Facts about a function's control flow: order, dominators, natural loops, reducibility."""

from __future__ import annotations

from dataclasses import dataclass

from threadloom.cuda.cfg.ops import BasicBlock, Function
from threadloom.errors import CompileError, slug

IRREDUCIBLE = slug("cuda-irreducible", "control flow jumps into the middle of a loop")


@dataclass(frozen=True, slots=True)
class Flow:
    """Everything is by block name; unreachable blocks are absent."""

    blocks: dict[str, BasicBlock]
    order: tuple[str, ...]  # reverse postorder
    number: dict[str, int]  # position in `order`
    idom: dict[str, str]  # the entry has none
    forward_preds: dict[str, tuple[str, ...]]
    loops: dict[str, frozenset[str]]  # header -> its blocks

    def outermost_left(self, source: str, target: str) -> str | None:
        """The header of the outermost loop that holds `source` but not `target`."""
        headers = [h for h, body in self.loops.items() if source in body and target not in body]
        return min(headers, key=self.number.__getitem__, default=None)


def analyze(function: Function) -> Flow:
    """The flow facts of `function`; irreducible control flow is a CompileError with its place."""
    blocks = {block.name: block for block in function.blocks}
    order = _reverse_postorder(function.blocks[0].name, blocks)
    number = {name: index for index, name in enumerate(order)}
    preds: dict[str, list[str]] = {name: [] for name in order}
    for name in order:
        for successor in blocks[name].successors:
            preds[successor].append(name)
    idom = _dominators(order, number, preds)
    loops: dict[str, set[str]] = {}
    for name in order:
        for successor in blocks[name].successors:
            if number[successor] > number[name]:
                continue
            if not _dominates(successor, name, idom):
                _fail(function, blocks[successor])
            loops.setdefault(successor, {successor}).update(_loop_body(successor, name, preds))
    forward = {name: tuple(p for p in preds[name] if number[p] < number[name]) for name in order}
    frozen = {header: frozenset(body) for header, body in loops.items()}
    return Flow({name: blocks[name] for name in order}, tuple(order), number, idom, forward, frozen)


def _fail(function: Function, target: BasicBlock) -> None:
    loc = next((op.loc for op in (*target.phis, *target.body, target.end) if op.loc), function.loc)
    raise CompileError(
        IRREDUCIBLE,
        "control flow enters a loop in its middle",
        why="a `goto` or a jumped-into switch case gives the loop two entries",
        try_="turn the goto into a loop condition or a flag",
        loc=loc,
    )


def _reverse_postorder(entry: str, blocks: dict[str, BasicBlock]) -> list[str]:
    done: list[str] = []
    seen = {entry}
    stack = [(entry, iter(blocks[entry].successors))]
    while stack:
        name, successors = stack[-1]
        following = next((s for s in successors if s not in seen), None)
        if following is None:
            done.append(name)
            stack.pop()
        else:
            seen.add(following)
            stack.append((following, iter(blocks[following].successors)))
    return done[::-1]


def _dominators(order: list[str], number: dict[str, int], preds: dict[str, list[str]]) -> dict[str, str]:
    """Cooper, Harvey, Kennedy: "A Simple, Fast Dominance Algorithm"."""
    idom = {order[0]: order[0]}
    changed = True
    while changed:
        changed = False
        for name in order[1:]:
            known = [p for p in preds[name] if p in idom]
            new = known[0]
            for other in known[1:]:
                new = _meet(new, other, idom, number)
            if idom.get(name) != new:
                idom[name] = new
                changed = True
    del idom[order[0]]
    return idom


def _meet(a: str, b: str, idom: dict[str, str], number: dict[str, int]) -> str:
    while a != b:
        if number[a] > number[b]:
            a = idom[a]
        else:
            b = idom[b]
    return a


def _dominates(a: str, b: str, idom: dict[str, str]) -> bool:
    while b != a and b in idom:
        b = idom[b]
    return a == b


def _loop_body(header: str, latch: str, preds: dict[str, list[str]]) -> set[str]:
    body, work = {header}, [latch]
    while work:
        name = work.pop()
        if name not in body:
            body.add(name)
            work += preds[name]
    return body
