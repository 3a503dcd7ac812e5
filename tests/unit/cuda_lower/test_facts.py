"""Analyses: uniformity, scalar operations, memory roots and aliasing, exits."""

from __future__ import annotations

from threadloom.cuda.lower.effects import Kind, Memory, may_alias
from threadloom.cuda.lower.exits import Exits, places
from threadloom.cuda.lower.scalars import Scalars
from threadloom.cuda.lower.traverse import walk
from threadloom.cuda.lower.uniformity import Uniformity
from threadloom.par.ops import Function, If, Level, Module, Parallel, While
from threadloom.par.text import parse

HEAD = """
@table = internal constant [4 x i32] [i32 1, i32 2, i32 3, i32 4]
@count = internal global i32 0
define void @k(ptr %x, ptr noalias %y, ptr %z, i32 %m, i32 %n) {
  parallel blocks (%b) = (i32 0) to (i32 4) {
    %tile = alloca shared i32, i64 64
    parallel threads (%t) = (i32 0) to (i32 %n) {
"""
TAIL = """
    }
  }
  return
}
"""


def _kernel(body: str) -> tuple[Module, Function, Parallel]:
    module = parse(HEAD + body + TAIL)
    function = module.functions[0]
    threads = next(op for op in walk(function.body.ops) if isinstance(op, Parallel) and op.level is Level.THREADS)
    return module, function, threads


def _names(body: str) -> tuple[frozenset[str], Scalars]:
    module, function, threads = _kernel(body)
    memory = Memory(function, module)
    uniformity = Uniformity(threads, memory)
    return uniformity.varying_names, Scalars(threads, memory, uniformity)


def _scalar_names(body: str) -> set[str]:
    from threadloom.par.walk import results

    _, function, _ = _kernel(body)
    _, scalars = _names(body)
    defined = [value for op in walk(function.body.ops) for value in results(op)]
    return {value.name for value in defined if scalars.is_scalar(value)} - {"tile"}


def test_arithmetic_on_uniform_values_is_uniform() -> None:
    varying, _ = _names("%a = add i32 %m, 1\n %c = add i32 %a, %t\n %d = mul i32 %a, %b")
    assert varying >= {"t", "c"} and not varying & {"a", "d"}


def test_a_plain_load_from_one_address_is_uniform() -> None:
    varying, _ = _names("%a = load i32, ptr %x\n %p = getelementptr i32, ptr %x, i32 %t\n %c = load i32, ptr %p")
    assert "a" not in varying and "c" in varying


def test_volatile_and_atomically_updated_memory_is_varying() -> None:
    varying, _ = _names("""
      %a = load volatile i32, ptr %x
      %o = atomicrmw add ptr @count, i32 1 monotonic
      %c = load i32, ptr @count
      %d = load i32, ptr %y""")
    assert varying >= {"a", "o", "c"} and "d" not in varying


def test_results_of_divergent_control_flow_vary() -> None:
    varying, _ = _names("""
      %c = icmp eq i32 %t, 0
      %r, %same = if i1 %c { yield i32 1, i32 %m } else { yield i32 2, i32 %m }
      %k.out = while (%k = i32 0) {
        %go = icmp slt i32 %k, %t
        condition i1 %go, i32 %k
      } do (%k1) {
        %next = add i32 %k1, 1
        yield i32 %next
      }""")
    assert varying >= {"r", "k.out"} and not varying & {"same", "k", "k1", "next"}


def test_private_memory_varies() -> None:
    varying, _ = _names("%p = alloca private i32, i64 1\n store i32 1, ptr %p\n %a = load i32, ptr %p")
    assert "a" in varying


def test_a_write_before_it_in_the_interval_keeps_a_load_from_being_scalar() -> None:
    body = """
      %a = load i32, ptr %z
      %p = getelementptr i32, ptr %x, i32 %t
      store i32 1, ptr %p
      %c = load i32, ptr %z
      barrier threads
      %d = load i32, ptr %z"""
    assert _scalar_names(body) == {"a", "d"}


def test_noalias_memory_and_constants_do_not_conflict() -> None:
    body = """
      %p = getelementptr i32, ptr %x, i32 %t
      store i32 1, ptr %p
      %c = load i32, ptr %y
      %d = load i32, ptr @table
      barrier threads"""
    assert _scalar_names(body) >= {"c", "d"}


def test_carried_values_of_a_barrier_loop_are_scalar_while_all_that_feeds_them_is() -> None:
    body = """
      %s.out, %v.out = for %i = i32 0 to %m step 1 carry (%s = i32 0, %v = i32 0) {
        barrier threads
        %s1 = add i32 %s, %i
        %v1 = add i32 %v, %t
        yield i32 %s1, i32 %v1
      }"""
    _, scalars = _names(body)
    names = _scalar_names(body)
    assert {"s.out", "s1"} <= names and not names & {"v.out", "v1"} and scalars is not None


def test_a_uniform_loop_without_barriers_runs_once() -> None:
    body = """
      %sum = for %i = i32 0 to %m step 1 carry (%s = i32 0) {
        %p = getelementptr i32, ptr %y, i32 %i
        %v = load i32, ptr %p
        %s1 = add i32 %s, %v
        yield i32 %s1
      }
      barrier threads"""
    assert "sum" in _scalar_names(body)


# ---------------------------------------------------------------- memory


def test_roots_go_through_loops_selects_and_ifs() -> None:
    body = """
      %c = icmp eq i32 %t, 0
      %p = select i1 %c, ptr %x, ptr %tile
      %q.out = for %i = i32 0 to %m step 1 carry (%q = ptr %p) {
        %r = getelementptr i32, ptr %q, i32 1
        yield ptr %r
      }
      store i32 1, ptr %q.out
      %u = load ptr, ptr %y
      store i32 2, ptr %u"""
    module, function, threads = _kernel(body)
    memory = Memory(function, module)
    stores = [access for access in memory.accesses(threads.body.ops) if access.kind is Kind.WRITE]
    assert {root.name for root in stores[0].roots} == {"x", "tile"}
    assert {root.kind for root in stores[1].roots} == {"unknown"}


def test_aliasing() -> None:
    module, function, _ = _kernel("store i32 1, ptr %x")
    memory = Memory(function, module)
    params = {param.value.name: memory.roots(param.value) for param in function.params}
    tile = memory.roots(next(iter(memory.allocas.values())).result)
    assert may_alias(params["x"], params["z"]) and not may_alias(params["x"], params["y"])
    assert not may_alias(tile, params["x"])


def test_an_allocation_whose_address_is_stored_may_be_reached_by_unknown_pointers() -> None:
    body = """
      %mine = alloca private i32, i64 1
      %own = alloca private i32, i64 1
      store ptr %mine, ptr %x
      %u = load ptr, ptr %y
      store i32 1, ptr %u"""
    module, function, threads = _kernel(body)
    memory = Memory(function, module)
    unknown = [a for a in memory.accesses(threads.body.ops) if a.kind is Kind.WRITE][1].roots
    by_name = {name: memory.roots(op.result) for name, op in memory.allocas.items()}
    assert may_alias(unknown, by_name["mine"]) and not may_alias(unknown, by_name["own"])


# ---------------------------------------------------------------- exits


def _place_of(body: str, kind: type) -> tuple[Exits, object, tuple]:
    module, function, threads = _kernel(body)
    op, place = next((op, place) for op, place in places(threads) if isinstance(op, kind))
    return Exits(Memory(function, module)), op, place


GUARDED = """
      %c = icmp eq i32 %t, 0
      if i1 %c { barrier threads yield } else { OTHERWISE yield }
      REST"""


def test_the_empty_side_of_the_last_if_exits() -> None:
    body = GUARDED.replace("OTHERWISE", "store i32 1, ptr %x").replace("REST", "")
    exits, op, place = _place_of(body, If)
    assert exits.side_exits(op, op.otherwise, place)


def test_a_store_behind_the_if_is_no_exit() -> None:
    body = GUARDED.replace("OTHERWISE", "").replace("REST", "store i32 1, ptr %x")
    exits, op, place = _place_of(body, If)
    assert not exits.side_exits(op, op.otherwise, place)


def test_an_exit_selector_is_followed_through_loops_and_guards() -> None:
    body = """
      %exit.0 = while (%e = i32 0) {
        %stay = icmp eq i32 %e, 0
        condition i1 %stay, i32 %e
      } do (%e1) {
        %p = getelementptr i32, ptr %x, i32 %t
        %v = load i32, ptr %p
        %done = icmp eq i32 %v, 0
        %e2 = if i1 %done { yield i32 2 } else { barrier threads yield i32 1 }
        yield i32 %e2
      }
      %rest = icmp eq i32 %exit.0, 1
      if i1 %rest {
 barrier threads
 yield
 } else {
 yield
 }"""
    exits, op, place = _place_of(body, While)
    assert {constant.text for _, constant in exits.leaving_exits(op, place)} == {"0", "2"}
    inner, inner_op, inner_place = _place_of(body, If)
    assert inner.side_exits(inner_op, inner_op.then, inner_place)
