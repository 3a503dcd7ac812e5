"""What the EUs of a cluster load together is the same for all of them (docs/sprogram.md, section 8).

The EUs of a cluster differ in their index along one grid axis. Which values depend on that axis is found forwards, over
all operations of the graph, until nothing is added: no multicast load, and no bound of a loop, may be among them.
"""

from __future__ import annotations

from threadloom.machine.model import Completion, Device
from threadloom.sched.check_findings import Finding, Findings
from threadloom.sched.ops import Buffer, Issue, Partition, SProgram
from threadloom.task.ops import Kind, STask, TaskGraph
from threadloom.tile.ops import Bound, Index, Load
from threadloom.tile.uses import operands, results


def check_clusters(program: SProgram, device: Device, findings: Findings) -> None:
    """Each multicast buffer is filled by unguarded bulk loads that are common to the cluster, and all EUs of it run the
    same loops equally often."""
    count, graph = program.partition.cluster, program.graph
    together = [b for b in program.buffers if b.multicast != 1]
    for buffer in together:
        if buffer.multicast != count:
            message = f"buffer {buffer.name} is loaded for {buffer.multicast} EUs, a cluster has {count}"
            findings.add(Finding("wrong-multicast", message, *_edge(buffer, graph), buffer.name))
    if not together or findings:
        return
    axis = varying_axis(graph, program.partition)
    known = _depending_on(axis, graph)
    for loop in graph.loops:
        for a in loop.axes:
            passed_over = loop.id == 0 and (a.start is not None or a.stop is not None)
            if passed_over or any(v is not None and v.name in known for v in (a.start, a.stop)):
                message = f"EUs of a cluster, which differ in {axis}, may run loop {loop.id} differently"
                findings.add(Finding("wrong-multicast", message, buffer=together[0].name))
    engine = {u.name for u in device.seus if u.is_async and u.completion is Completion.MBARRIER}
    units = {i.task: i.seu for s in program.sections for i in s.instrs if isinstance(i, Issue)}
    for buffer in together:
        for name in next(t.producers for t in graph.tiles if t.name == buffer.tile):
            why = _not_common(graph.task(name), axis, known, graph)
            why = why or ("" if units.get(name) in engine else "is not loaded by a copy engine")
            if why:
                message = f"{name} {why}: it is not the same for all EUs of a cluster, which differ in {axis}"
                findings.add(Finding("wrong-multicast", message, *_edge(buffer, graph), buffer.name))


def varying_axis(graph: TaskGraph, partition: Partition) -> str:
    """The grid axis along which tiles that follow one another differ: the innermost of the order, but of grouped tiles
    the one whose tiles are visited together."""
    order = list(partition.order) + [a.axis.name for a in graph.loops[0].axes if a.axis.name not in partition.order]
    return order[-2 if partition.group > 1 and len(order) > 1 else -1]


def _edge(buffer: Buffer, graph: TaskGraph) -> tuple[str, str]:
    tile = next(t for t in graph.tiles if t.name == buffer.tile)
    return (tile.producers or ("",))[0], (tile.consumers or ("",))[0]


def _depending_on(axis: str, graph: TaskGraph) -> set[str]:
    """Names of values of any rank that depend on the index of the EU's tile along `axis`."""
    found: set[str] = set()
    ops = [op for task in graph.tasks for op in task.ops]
    carried = [[v.name for v in quadruple] for loop in graph.loops for quadruple in loop.carried]
    size = -1
    while size != len(found):
        size = len(found)
        for op in ops:
            own = isinstance(op, Index | Bound) and op.axis == axis
            own = own or (isinstance(op, Load) and any(t.axis == axis for s in op.subscripts for t in s.terms))
            if own or any(v.name in found for v in operands(op)):
                found |= {v.name for v in results(op)}
        for names in carried:
            if found & set(names):
                found |= set(names)
    return found


def _not_common(task: STask, axis: str, known: set[str], graph: TaskGraph) -> str:
    if task.kind is not Kind.LOAD:
        return "is no load"
    if any(g.task == task.name for g in graph.guards):
        return "is done under a condition"
    made = [t for t in graph.tiles if task.name in t.producers]
    if any(axis in t.type.axes for t in made) or any(v.name in known for op in task.ops for v in results(op)):
        return f"depends on {axis}"
    return ""
