"""Memory of CPU workers: shared and worker allocations live in slots that outlast the launch.

A worker takes a free slot when it enters a parallel region and gives it back when it leaves. A slot keeps its
memory, so the next launch pays neither allocation nor page faults; the search starts at the worker's own number, so
a worker mostly gets the pages it touched first. Large ones ask for huge pages (Linux; elsewhere the advice is unknown
and does nothing): 3 % of a product of 2048 x 2048. The functions are par text, compiled by the path that they serve.
"""

from __future__ import annotations

HUGE_PAGE_BYTES, MADV_HUGEPAGE = 2 << 20, 14
SLOT = "{ i32, i32, ptr, i64, [40 x i8] }"  # busy, padding, memory, its bytes; one cache line
BASE_OFFSET_BYTES = 8
ACQUIRE, RELEASE = "loom_arena_acquire", "loom_arena_release"

SOURCE = f"""
@loom.arenas = internal global [1024 x {SLOT}] zeroinitializer, align 64

declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
declare void @abort()
declare i32 @madvise(ptr, i64, i32)

define exported ptr @{ACQUIRE}(i64 %bytes, i64 %worker) nounwind {{
  %slot, %tries = while (%k = i64 0) {{
    %start = add i64 %worker, %k
    %index = and i64 %start, 1023
    %candidate = getelementptr inbounds {SLOT}, ptr @loom.arenas, i64 %index
    %swap = cmpxchg ptr %candidate, i32 0, i32 1 acquire monotonic, align 4
    %taken = extractvalue {{ i32, i1 }} %swap, 1
    %busy = xor i1 %taken, true
    condition i1 %busy, ptr %candidate, i64 %k
  }} do (%missed, %last) {{
    %next = add i64 %last, 1
    yield i64 %next
  }}
  %base.at = getelementptr inbounds i8, ptr %slot, i64 {BASE_OFFSET_BYTES}
  %size.at = getelementptr inbounds i8, ptr %slot, i64 16
  %size = load i64, ptr %size.at, align 8
  %small = icmp ult i64 %size, %bytes
  if i1 %small {{
    %old = load ptr, ptr %base.at, align 8
    call void @free(ptr %old)
    %large = icmp uge i64 %bytes, {HUGE_PAGE_BYTES // 2}
    %page = select i1 %large, i64 {HUGE_PAGE_BYTES}, i64 4096
    %less = sub i64 %page, 1
    %padded = add i64 %bytes, %less
    %mask = sub i64 0, %page
    %rounded = and i64 %padded, %mask
    %new = call ptr @aligned_alloc(i64 %page, i64 %rounded)
    if i1 %large {{
      %ignored = call i32 @madvise(ptr %new, i64 %rounded, i32 {MADV_HUGEPAGE})
      yield
    }} else {{
      yield
    }}
    %failed = icmp eq ptr %new, null
    if i1 %failed {{
      call void @abort()
      yield
    }} else {{
      yield
    }}
    store ptr %new, ptr %base.at, align 8
    store i64 %rounded, ptr %size.at, align 8
    yield
  }} else {{
    yield
  }}
  return ptr %slot
}}

define exported void @{RELEASE}(ptr %slot) nounwind {{
  store atomic i32 0, ptr %slot release, align 4
  return
}}
"""
