"""What CUDA's collectives mean to the interpreter of par: who meets, and what each participant gets.

Numbers are linear thread numbers of a block (of a grid for grid.sync); a warp is 32 consecutive ones. A participant's
answer depends only on the arguments of those that are there. Semantics: CUDA C++ Programming Guide, warp functions;
PTX ISA shfl.sync, vote.sync, match.sync, redux.sync.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from threadloom.cuda.kernel import COLLECTIVES, WARP_LANES, Collective
from threadloom.errors import InternalError
from threadloom.par.interp_parallel import Rendezvous
from threadloom.par.interp_values import InterpValue
from threadloom.par.ops import Level

Arguments = tuple[InterpValue, ...]
Brought = Mapping[int, Arguments]  # by linear number
Answers = dict[int, InterpValue]

_ALL_BITS = (1 << 32) - 1
_EVERYBODY = frozenset(range(1024))  # the most threads that a block has, and blocks that a cooperative grid has here


def cuda_rendezvous() -> tuple[Rendezvous, ...]:
    """One per collective of kernel.py."""
    return tuple(_rendezvous(collective) for collective in COLLECTIVES.values())


def _rendezvous(collective: Collective) -> Rendezvous:
    callee = collective.callee
    combine = _combination(callee)
    match collective.scope:
        case "warp":
            alone, orders = callee == "loom.activemask", callee == "loom.syncwarp"
            return Rendezvous(callee, Level.THREADS, _warp if alone else _members, combine, together=alone,
                              orders_group=orders)  # fmt: skip
        case "block":
            return Rendezvous(callee, Level.THREADS, _everybody, combine, orders=True)
        case "grid":
            return Rendezvous(callee, Level.BLOCKS, _everybody, combine, orders=True)
    raise InternalError(f"collective {callee} of unknown scope {collective.scope}")


def _everybody(item: int, args: Arguments) -> frozenset[int]:
    return _EVERYBODY


def _warp(item: int, args: Arguments) -> frozenset[int]:
    first = item - item % WARP_LANES
    return frozenset(range(first, first + WARP_LANES))


def _members(item: int, args: Arguments) -> frozenset[int]:
    """The lanes of the member mask, which is argument 0, and the caller."""
    first = item - item % WARP_LANES
    return frozenset(first + lane for lane in _lanes(_number(args[0]))) | {item}


def _lanes(mask: int) -> list[int]:
    return [lane for lane in range(WARP_LANES) if mask >> lane & 1]


def _number(value: InterpValue) -> int:
    return value if isinstance(value, int) else 0


def _signed(value: InterpValue) -> int:
    number = _number(value) & _ALL_BITS
    return number - (1 << 32) if number >> 31 else number


# ---------------------------------------------------------------- answers


def _combination(callee: str) -> Callable[[Brought], Answers]:
    family, _, rest = callee.removeprefix("loom.").partition(".sync.")
    kind = rest.split(".")[0]
    match family:
        case "shfl":
            return partial(_shuffle, kind)
        case "vote":
            return partial(_vote, kind)
        case "match":
            return partial(_match, kind)
        case "reduce":
            return partial(_reduce, kind)
        case "activemask":
            return _activemask
        case "syncthreads.count" | "syncthreads.and" | "syncthreads.or":
            return partial(_count, family.removeprefix("syncthreads."))
    return lambda brought: dict.fromkeys(brought, 0)  # syncwarp, grid.sync


def _shuffle(kind: str, brought: Brought) -> Answers:
    answers: Answers = {}
    for item, (_, own, by, width) in brought.items():
        lane, first = item % WARP_LANES, item - item % WARP_LANES
        by, width = _number(by) % WARP_LANES, _number(width)
        low = lane & -width
        last = low + width - 1
        source = {"up": lane - by, "down": lane + by, "xor": lane ^ by, "idx": low | (by & (width - 1))}[kind]
        inside = source >= low if kind == "up" else source <= last
        there = brought.get(first + source, (0, 0))[1]  # a lane that is not there gives 0
        answers[item] = there if inside else own
    return answers


def _voters(brought: Brought, mask: int, test: Callable[[InterpValue], bool]) -> int:
    """Member lanes whose argument passes `test`, as bits."""
    return sum(1 << item % WARP_LANES for item, args in brought.items()
               if mask >> item % WARP_LANES & 1 and test(args[1]))  # fmt: skip


def _vote(kind: str, brought: Brought) -> Answers:
    answers: Answers = {}
    for item, args in brought.items():
        mask = _number(args[0])
        yes, no = (_voters(brought, mask, test) for test in (lambda p: p != 0, lambda p: p == 0))
        answers[item] = {"ballot": yes, "any": int(yes != 0), "all": int(no == 0), "uni": int(not (yes and no))}[kind]
    return answers


def _match(kind: str, brought: Brought) -> Answers:
    answers: Answers = {}
    for item, (mask, own) in brought.items():
        same = _voters(brought, _number(mask), lambda value, own=own: value == own)
        members = _voters(brought, _number(mask), lambda value: True)
        answers[item] = same if kind == "any" else (_number(mask) if same == members else 0)
    return answers


_REDUCTIONS: dict[str, Callable[[list[InterpValue]], int]] = {
    "add": lambda values: sum(_number(value) for value in values),
    "min": lambda values: min(map(_signed, values)),
    "max": lambda values: max(map(_signed, values)),
    "umin": lambda values: min(map(_number, values)),
    "umax": lambda values: max(map(_number, values)),
    "and": lambda values: _fold(values, lambda a, b: a & b),
    "or": lambda values: _fold(values, lambda a, b: a | b),
    "xor": lambda values: _fold(values, lambda a, b: a ^ b),
}


def _fold(values: list[InterpValue], operation: Callable[[int, int], int]) -> int:
    result = _number(values[0])
    for value in values[1:]:
        result = operation(result, _number(value))
    return result


def _reduce(kind: str, brought: Brought) -> Answers:
    answers: Answers = {}
    for item, (mask, _) in brought.items():
        members = [args[1] for other, args in brought.items() if _number(mask) >> other % WARP_LANES & 1]
        answers[item] = _REDUCTIONS[kind](members) & _ALL_BITS if members else 0
    return answers


def _activemask(brought: Brought) -> Answers:
    active = sum(1 << item % WARP_LANES for item in brought)
    return dict.fromkeys(brought, active)


def _count(kind: str, brought: Brought) -> Answers:
    yes = sum(_number(args[0]) != 0 for args in brought.values())
    answer = {"count": yes, "and": int(yes == len(brought)), "or": int(yes > 0)}[kind]
    return dict.fromkeys(brought, answer)
