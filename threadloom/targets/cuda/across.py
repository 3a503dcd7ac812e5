"""Reductions and scans over threads: lanes by shuffles, warps of a worker through scratch in shared memory.

A scan works up the digits of the axis from the smallest stride: after each, an element holds the prefix within its
block of positions, and the block's total is what stands at the block's last position.
"""

from __future__ import annotations

from threadloom.targets.cuda import functions as c
from threadloom.targets.cuda.layout import Digit, Layout, Source
from threadloom.targets.cuda.registers import Registers, Scope, unroll
from threadloom.targets.cuda.team import WARPGROUP
from threadloom.targets.cuda.unsupported import no_code
from threadloom.tile import ops as tile

CELL_BYTES = 8  # of scratch for each thread of a worker


def emit_reduce_threads(scope: Scope, op: tile.Reduce, source: Layout, result: Registers) -> None:
    """Combine what threads that share a result hold; afterwards each of them has it."""
    w, n, dtype = scope.writer, result.layout.registers, result.dtype
    for mask in lane_masks(source, op.axis):
        w.line(unroll(n, dtype))
        shuffled = f"__shfl_xor_sync(0xffffffffu, {result.name}[r], {mask})"
        total = c.combine(op.fn, dtype, f"{result.name}[r]", shuffled)
        w.line(f"for (int r = 0; r < {n}; r++) {result.name}[r] = {total};")
    for digit, place in places(source, Source.WARP):
        if digit.axis == op.axis:
            _over_warps(scope, op.fn, result, digit, place)
    if (workers := sharing_workers(scope, op)) > 1:
        kind = c.register_type(dtype)
        w.line(unroll(n, dtype))
        with w.block(f"for (int r = 0; r < {n}; r++)"):
            _exchange_workers(scope, f"{result.name}[r]", kind, workers)
            w.line(f"{kind} all = {_peer_worker(kind, '0')};")
            w.line("#pragma unroll")
            one = c.combine(op.fn, dtype, "all", _peer_worker(kind, "q"))
            w.line(f"for (int q = 1; q < {workers}; q++) all = {one};  // in the same order in all of them")
            w.line(f"{result.name}[r] = all;")


WORKERS_BARRIER = 8  # number of the barrier at which the threads of all workers meet; 1 and on are those of one each


def sharing_workers(scope: Scope, op: tile.Reduce | tile.Scan) -> int:
    """How many workers share the axis that `op` runs along."""
    place = scope.places.get(op.axis)
    workers = -(-place.whole.extent // place.extent) if place is not None and place.whole is not None else 1
    if workers > 1 and scope.takes_turns:
        why = "workers share that axis and take turns in the same loop of this plan"
        raise no_code(f"a {op.fn} along {op.axis}", why, op.loc, "another plan: one without turns, or with one worker")
    return workers


def _exchange_workers(scope: Scope, value: str, kind: str, workers: int) -> None:
    """Let the same threads of the other workers, which hold what belongs to it, see `value`."""
    scope.sharing_workers = max(scope.sharing_workers, workers)
    w, meet = scope.writer, f"group_sync({WORKERS_BARRIER}, {scope.team.threads * workers});"
    w.line(f"{meet}  // scratch of all workers is free")
    w.line(f"write_cell<{kind}>(smem_between, worker * {scope.team.warps} + warp_in_group, {value});")
    w.line(meet)


def _peer_worker(kind: str, number: str) -> str:
    return f"read_cell<{kind}>(smem_between, {number} * {WARPGROUP.warps} + warp_in_group)"


NOWHERE = 2**31 - 1  # position of a value that is none


def is_better(fn: str, value: str, at: str, other: str, other_at: str) -> str:
    """C condition: whether `value` at position `at` is the extreme rather than `other`."""
    return f"{'larger' if fn == 'argmax' else 'smaller'}_first({value}, (i64)({at}), {other}, {other_at})"


def emit_position_threads(scope: Scope, op: tile.Reduce, source: Layout, best: Registers, at: Registers) -> None:
    """The same for positions of extremes: pairs of a value and where it stands."""
    w, n, kind = scope.writer, at.layout.registers, c.register_type(best.dtype)

    def keep(value: str, position: str) -> None:
        w.line(f"const {kind} value = {value};")
        w.line(f"const i64 position = {position};")
        test = is_better(op.fn, "value", "position", f"{best.name}[r]", f"{at.name}[r]")
        w.line(f"if ({test}) {best.name}[r] = value, {at.name}[r] = position;")

    def each_register():
        w.line(unroll(n, best.dtype))
        return w.block(f"for (int r = 0; r < {n}; r++)")

    for mask in lane_masks(source, op.axis):
        with each_register():
            keep(*(f"__shfl_xor_sync(0xffffffffu, {held.name}[r], {mask})" for held in (best, at)))
    for digit, place in places(source, Source.WARP):
        if digit.axis == op.axis:
            with each_register():
                _exchange(scope, f"{best.name}[r]", kind)
                w.line(f"{kind} values[{digit.size}];")
                w.line("#pragma unroll")
                w.line(f"for (int q = 0; q < {digit.size}; q++) values[q] = {_peer(scope, kind, digit, place, 'q')};")
                _exchange(scope, f"{at.name}[r]", "i64")
                w.line("#pragma unroll")
                with w.block(f"for (int q = 0; q < {digit.size}; q++)"):
                    keep("values[q]", _peer(scope, "i64", digit, place, "q"))
    if (workers := sharing_workers(scope, op)) > 1:
        with each_register():
            _exchange_workers(scope, f"{best.name}[r]", kind, workers)
            w.line(f"{kind} values[{workers}];")
            w.line("#pragma unroll")
            w.line(f"for (int q = 0; q < {workers}; q++) values[q] = {_peer_worker(kind, 'q')};")
            _exchange_workers(scope, f"{at.name}[r]", "i64", workers)
            w.line("#pragma unroll")
            with w.block(f"for (int q = 0; q < {workers}; q++)"):
                keep("values[q]", _peer_worker("i64", "q"))
    with each_register():
        w.line(f"if ({at.name}[r] == {NOWHERE}) {at.name}[r] = 0;  // nothing was there")


def lane_masks(layout: Layout, axis: str) -> list[int]:
    """Shuffle distances that combine the lanes along `axis`."""
    masks = []
    for d, place in places(layout, Source.LANE):
        step = 1
        while d.axis == axis and step < d.size:
            masks.append(place * step)
            step *= 2
    return masks


def places(layout: Layout, source: Source) -> list[tuple[Digit, int]]:
    """(digit, how much one step of it adds to the source's number)"""
    found, place = [], 1
    for d in layout.of(source):
        found.append((d, place))
        place *= d.size
    return found


def _over_warps(scope: Scope, fn: str, result: Registers, digit: Digit, place: int) -> None:
    w, dtype = scope.writer, result.dtype
    kind = c.register_type(dtype)
    w.line(unroll(result.layout.registers, dtype))
    with w.block(f"for (int r = 0; r < {result.layout.registers}; r++)"):
        _exchange(scope, f"{result.name}[r]", kind)
        w.line(f"{kind} all = {_peer(scope, kind, digit, place, '0')};")
        w.line("#pragma unroll")
        one = c.combine(fn, dtype, "all", _peer(scope, kind, digit, place, "q"))
        w.line(f"for (int q = 1; q < {digit.size}; q++) all = {one};")
        w.line(f"{result.name}[r] = all;")


def _exchange(scope: Scope, value: str, kind: str) -> None:
    """Let the other warps of the worker see `value`."""
    scope.needs_scratch = True
    w = scope.writer
    w.line(f"{scope.team.sync}  // scratch is free")
    w.line(f"write_cell<{kind}>(smem_scratch + worker * {scope.team.threads * CELL_BYTES}, warp_in_group, {value});")
    w.line(scope.team.sync)


def _peer(scope: Scope, kind: str, digit: Digit, place: int, at: str) -> str:
    """C expression: what the warp with value `at` of the digit let see, in this lane."""
    around, below = place * digit.size, "" if place == 1 else f" + warp_in_group % {place}"
    above = f"warp_in_group / {around} * {around} + " if around < scope.team.warps else ""
    cell = f"{above}({at}) * {place}{below}"
    return f"read_cell<{kind}>(smem_scratch + worker * {scope.team.threads * CELL_BYTES}, {cell})"


# ---------------------------------------------------------------- scans


def emit_scan(scope: Scope, op: tile.Scan, made: Registers) -> None:
    """Turn the elements that `made` holds into their inclusive prefixes along the axis, in place."""
    lower: list[tuple[Digit, int]] = []
    digits = [(d, p) for s in (Source.REGISTER, Source.LANE, Source.WARP) for d, p in places(made.layout, s)]
    mine = sorted(((d, p) for d, p in digits if d.axis == op.axis and d.size > 1), key=lambda x: x[0].stride)
    block = 1
    for digit, place in mine:
        if digit.stride != block:
            raise no_code(f"a {op.fn} scan along {op.axis}", "its elements are spread without order", op.loc)
        _scan_level(scope, op, made, digit, place, lower)
        lower.append((digit, place))
        block *= digit.size
    if (workers := sharing_workers(scope, op)) > 1:
        _scan_level(scope, op, made, None, workers, lower)


def _scan_level(
    scope: Scope, op: tile.Scan, made: Registers, digit: Digit | None, place: int, lower: list[tuple[Digit, int]]
) -> None:
    """Add to each block the totals of the blocks before it along `digit` (None: those of the workers before this one
    of `place`, which share the axis)."""
    w, kind = scope.writer, c.register_type(made.dtype)
    inside = [(d, p) for d, p in lower if d.source is Source.REGISTER]  # register digits within a block
    count = 1
    for d, _ in inside:
        count *= d.size
    ends = "".join(f" + {0 if op.reverse else (d.size - 1) * p}" for d, p in inside)  # the block's last register
    spread, at = "", 1
    for d, p in inside:
        spread += f" + q / {at} % {d.size} * {p}"
        at *= d.size
    first = "".join(f" && i / {p} % {d.size} == 0" for d, p in inside)
    if digit is not None and digit.source is Source.REGISTER:
        steps = range(digit.size - 2, -1, -1) if op.reverse else range(1, digit.size)
        back = place if op.reverse else -place
        for step in steps:
            w.line(unroll(made.layout.registers, made.dtype))
            each = f"for (int i = 0; i < {made.layout.registers}; i++)"
            with w.block(f"{each} if (i / {place} % {digit.size} == {step}{first})"):
                total = _from_last_thread(scope, op, lower, f"{made.name}[i + {back}{ends}]", kind)
                w.line(f"const {kind} before = {total};")
                _add_to_block(scope, op, made, count, spread)
        return
    w.line(unroll(made.layout.registers, made.dtype))
    with w.block(f"for (int i = 0; i < {made.layout.registers}; i++) if (true{first})"):
        total = _from_last_thread(scope, op, lower, f"{made.name}[i{ends}]", kind)
        w.line(f"{kind} before = {c.identity(op.fn, made.dtype)};")
        if digit is None:
            _exchange_workers(scope, total, kind, place)
            _before_in_order(scope, op, made, "worker", place, _peer_worker(kind, "q"))
        elif digit.source is Source.LANE:
            _before_in_lanes(scope, op, made, digit, place, total)
        else:
            _exchange(scope, total, kind)
            mine = f"warp_in_group / {place} % {digit.size}"
            _before_in_order(scope, op, made, mine, digit.size, _peer(scope, kind, digit, place, "q"))
        _add_to_block(scope, op, made, count, spread)


def _before_in_order(scope: Scope, op: tile.Scan, made: Registers, mine: str, count: int, theirs: str) -> None:
    """`before` = the totals of those of `count` warps or workers that come before number `mine`; `theirs`: q's."""
    test = f"q > {mine}" if op.reverse else f"q < {mine}"
    scope.writer.line("#pragma unroll")
    one = c.combine(op.fn, made.dtype, "before", theirs)
    scope.writer.line(f"for (int q = 0; q < {count}; q++) if ({test}) before = {one};")


def _before_in_lanes(scope: Scope, op: tile.Scan, made: Registers, digit: Digit, place: int, total: str) -> None:
    """`before` = the totals of the lanes before this one."""
    w, kind = scope.writer, c.register_type(made.dtype)
    verb, edge = ("down", f"digit + step < {digit.size}") if op.reverse else ("up", "digit >= step")
    w.line(f"{kind} sum = {total};")
    w.line(f"const int digit = lane / {place} % {digit.size};")
    w.line("#pragma unroll")
    with w.block(f"for (int step = 1; step < {digit.size}; step *= 2)"):
        w.line(f"const {kind} other = __shfl_{verb}_sync(0xffffffffu, sum, step * {place});")
        w.line(f"if ({edge}) sum = {c.combine(op.fn, made.dtype, 'sum', 'other')};")
    w.line(f"const {kind} other = __shfl_{verb}_sync(0xffffffffu, sum, {place});")
    first = f"digit < {digit.size - 1}" if op.reverse else "digit > 0"
    w.line(f"if ({first}) before = other;")


def _from_last_thread(scope: Scope, op: tile.Scan, lower: list[tuple[Digit, int]], value: str, kind: str) -> str:
    """C expression: `value` of the thread that holds the block's last position."""
    lanes = [(d, p) for d, p in lower if d.source is Source.LANE]
    from_ = "lane"
    for d, p in lanes:
        from_ = f"({from_} - ({from_} / {p} % {d.size}) * {p} + {0 if op.reverse else (d.size - 1) * p})"
    if lanes:
        value = f"__shfl_sync(0xffffffffu, {value}, {from_})"
    for d, p in lower:
        if d.source is Source.WARP:
            _exchange(scope, value, kind)
            value = _peer(scope, kind, d, p, "0" if op.reverse else str(d.size - 1))
    return value


def _add_to_block(scope: Scope, op: tile.Scan, made: Registers, count: int, spread: str) -> None:
    w = scope.writer
    w.line("#pragma unroll")
    place = f"{made.name}[i{spread}]"
    w.line(f"for (int q = 0; q < {count}; q++) {place} = {c.combine(op.fn, made.dtype, 'before', place)};")
