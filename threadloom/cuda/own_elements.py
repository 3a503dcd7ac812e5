"""Which arrays a kernel uses at its own threads' places only, so that launches need not wait for one another.

    __global__ void scale(float2* y, float a) { int i = blockIdx.x * blockDim.x + threadIdx.x; y[i].x *= a; }
                                            ->  y: 8 bytes a thread, any block size

Of two launches with equal grids and blocks, the same worker runs the same blocks, one launch after the other. Where
both go through an array thread by thread, with the same bytes for each, no worker ever touches what another one wrote,
so nothing has to be waited for (runtime/batch.cpp). Known of arrays whose every address is the pointer plus the
thread's number times the bytes plus a constant below; for any other the launches meet between them. Declines where the
kernel looks elsewhere in the array, where the grid is not walked along x alone, and where threads of a block are spread
(optimize/collapse.py). Source: PPoPP'23, section 4 (fusion of parallel regions), done at run time.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from threadloom.cuda.kernel import BLOCK, BLOCK_INDEX, THREAD_INDEX
from threadloom.cuda.lower.effects import Access, Memory
from threadloom.cuda.optimize.affine import Arithmetic
from threadloom.par.ops import Function, Level, Parallel, Value
from threadloom.par.result_types import stored_bytes
from threadloom.par.walk import walk

NAME = "stream-blocks"  # the switch (lower/pipeline.py: OPTIONAL)
_BLOCK, _THREAD, _EXTENT = BLOCK_INDEX[0].name, THREAD_INDEX[0].name, BLOCK[0].name


@dataclass(frozen=True, slots=True)
class Own:
    """Thread t of block b touches bytes [(b * block.x + t) * bytes, ... + bytes) behind the pointer; only in blocks of
    `block` threads, 0 for any."""

    bytes: int
    block: int = 0


ANYWHERE = Own(0)


def own_elements(kernel: Function, memory: Memory) -> dict[str, Own]:
    """The pointer parameters of `kernel` (as raised, with its memory) that lead to each thread's own elements only."""
    ops = kernel.body.ops if kernel.body else ()
    arithmetic = Arithmetic(ops)
    found: dict[str, set[Own | None]] = {}
    for access in memory.accesses(ops):
        own = _own(access, arithmetic)
        for root in access.roots:
            direct = own is not None and own[0].name == root.name
            found.setdefault(root.name, set()).add(own[1] if own is not None and direct else None)
    return {name: own for name, (own, *others) in ((n, tuple(s)) for n, s in found.items()) if own and not others}


def _own(access: Access, arithmetic: Arithmetic) -> tuple[Value, Own] | None:
    if access.pointer is None or access.type is None:
        return None
    address = arithmetic.address(access.pointer).flattened()
    terms = dict(address.index(1).terms)
    place, bytes_ = terms.pop((), 0), terms.pop((_THREAD,), 0)
    if not isinstance(address.base, Value) or bytes_ <= 0 or not 0 <= place <= bytes_ - stored_bytes(access.type):
        return None
    [(monomial, step)] = terms.items() if len(terms) == 1 else [((), 0)]
    if monomial == tuple(sorted((_BLOCK, _EXTENT))) and step == bytes_:
        return address.base, Own(bytes_)
    if monomial == (_BLOCK,) and step > 0 and step % bytes_ == 0:
        return address.base, Own(bytes_, step // bytes_)
    return None


def even_blocks(versions: Iterable[Function]) -> bool:
    """Whether all versions of a lowered kernel give the blocks of equal launches to the same workers."""
    loops = [op for version in versions if version.body for op in walk(version.body) if isinstance(op, Parallel)]
    blocks = [op for op in loops if op.level is Level.BLOCKS]
    return all(op.schedule == "static" and op.grain == 1 and len(op.ivs) == len(BLOCK_INDEX) for op in blocks)
