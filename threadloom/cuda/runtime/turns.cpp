// Loops over blocks, warps or threads that may wait for one another (lower/watch_waits.py). Their work takes iterations from a
// counter, one at a time. A loop that has lasted for some microseconds asks here: then the same work goes on with the iterations
// behind on a stack of its own, in the same thread of the system, and whoever waits is asked again in its turn. A program in which
// nobody waits never leaves its first stack.
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>

#include <atomic>
#include <mutex>
#include <vector>

#include "runtime.h"
#include "turns.h"

extern "C" void __loom_fork(void (*work)(void*), void* context, unsigned threads, unsigned flags);  // parallel.cpp

// Saves what a call must keep, leaves the stack pointer in `*from`, and goes on where `to` was left.
extern "C" __attribute__((visibility("hidden"))) void loom_change_stack(void** from, void* to);
#if defined(__x86_64__)
asm(R"(
.text
.hidden loom_change_stack
.globl loom_change_stack
.type loom_change_stack, @function
loom_change_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size loom_change_stack, .-loom_change_stack
)");
constexpr int saved_words = 8, return_word = 6;  // the last one only aligns the stack as a call does
#elif defined(__aarch64__)
asm(R"(
.text
.hidden loom_change_stack
.globl loom_change_stack
.type loom_change_stack, %function
loom_change_stack:
  sub sp, sp, #160
  stp x19, x20, [sp, #0]
  stp x21, x22, [sp, #16]
  stp x23, x24, [sp, #32]
  stp x25, x26, [sp, #48]
  stp x27, x28, [sp, #64]
  stp x29, x30, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  mov x9, sp
  str x9, [x0]
  mov sp, x1
  ldp x19, x20, [sp, #0]
  ldp x21, x22, [sp, #16]
  ldp x23, x24, [sp, #32]
  ldp x25, x26, [sp, #48]
  ldp x27, x28, [sp, #64]
  ldp x29, x30, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  add sp, sp, #160
  ret
.size loom_change_stack, .-loom_change_stack
)");
constexpr int saved_words = 20, return_word = 11;
#else
#error "changing stacks is written for x86-64 and AArch64"
#endif

namespace {
constexpr size_t page_bytes = 64 << 10;  // the largest that a system has
constexpr int most_stacks = 20000;       // each is two of the 65530 mappings that a process may have
constexpr int most_blocks = 500;         // that wait: each holds one of the arenas (targets/cpu/arena.py)

struct Stack {
  char* memory = nullptr;  // its first page is never touched
  size_t bytes = 0;
};

// Stacks that nobody uses, of all threads. They keep their pages.
struct Stacks {
  std::mutex mutex;
  std::vector<Stack> free;
  int made = 0;

  Stack take(size_t bytes) {
    bytes = (bytes + 2 * page_bytes - 1) / page_bytes * page_bytes;
    std::lock_guard<std::mutex> guard(mutex);
    for (size_t i = free.size(); i-- && i + 4 > free.size();)
      if (free[i].bytes >= bytes) {
        Stack found = free[i];
        free.erase(free.begin() + (long)i);
        return found;
      }
    if (made >= most_stacks) return {};
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED) return {};
    mprotect(memory, page_bytes, PROT_NONE);
    ++made;
    return {(char*)memory, bytes};
  }
  void give(Stack stack) {
    std::lock_guard<std::mutex> guard(mutex);
    free.push_back(stack);
  }
};
Stacks& stacks() {
  static Stacks* all = new Stacks;  // never destroyed: threads may outlast the program's end
  return *all;
}
std::atomic<int> waiting_blocks{0};

// A loop whose iterations take turns, as one worker runs it.
struct Region {
  void (*work)(void*);
  void* context;
  size_t stack_bytes;
  bool of_blocks;
  Region* outer = nullptr;
  int helpers = 0;     // stacks beside the one that opened it
  bool empty = false;  // no iteration is left to begin
};

// What runs on one stack: a worker's own, or one on which a region's work goes on. All of a worker stand in
// a ring, the worker's own first, the others as they began.
struct Runner {
  void* stack_pointer = nullptr;
  Stack stack;
  Region* innermost = nullptr;
  Region* helps = nullptr;
  Runner *next = this, *before = this;
  loom::Asked asked[8];  // one loop may be in another
  int oldest = 0;
};

struct Worker {
  Runner own;
  Runner* runs = &own;
  Runner* done = nullptr;  // its stack can be given away when another one runs
  bool backwards = false;  // from the last one to the first, then again to the last: each may wait for the one behind, or before
  const char* file = nullptr;  // the loop that asked last
  int line = 0;

  void change_to(Runner* other) {
    Runner* from = runs;
    runs = other;
    loom_change_stack(&from->stack_pointer, other->stack_pointer);
    arrived();
  }
  void arrived() {
    if (!done) return;
    stacks().give(done->stack);
    delete done;
    done = nullptr;
  }
  bool begin_helper(Region* region);
  [[noreturn]] void end();
  Runner* neighbour() const { return backwards ? runs->before : runs->next; }
  void next_turn() {
    if (runs == &own) {  // all others have had theirs
      backwards = !backwards;
      sched_yield();
      loom::look_for_progress(file, line, 0);
    }
    change_to(neighbour());
  }
};
thread_local Worker worker;

void first_call() {
  worker.arrived();
  Region* region = worker.runs->helps;
  region->work(region->context);
  worker.end();
}

bool Worker::begin_helper(Region* region) {
  if (region->of_blocks && ++waiting_blocks > most_blocks) {
    --waiting_blocks;
    return false;
  }
  Stack stack = stacks().take(region->stack_bytes);
  if (!stack.memory) {
    if (region->of_blocks) --waiting_blocks;
    return false;
  }
  Runner* helper = new Runner;
  helper->stack = stack;
  helper->innermost = helper->helps = region;
  void** top = (void**)(stack.memory + stack.bytes) - saved_words;
  for (int i = 0; i < saved_words; ++i) top[i] = nullptr;
  top[return_word] = (void*)first_call;
  helper->stack_pointer = top;
  helper->next = &own;
  helper->before = own.before;
  helper->before->next = own.before = helper;
  ++region->helpers;
  loom::progress.fetch_add(1, std::memory_order_relaxed);
  change_to(helper);
  return true;
}

void Worker::end() {
  Runner *ended = runs, *following = neighbour();
  ended->helps->empty = true;
  --ended->helps->helpers;
  if (ended->helps->of_blocks) --waiting_blocks;
  ended->before->next = ended->next;
  ended->next->before = ended->before;
  loom::progress.fetch_add(1, std::memory_order_relaxed);
  done = ended;
  change_to(following);
  __builtin_unreachable();
}

// Runs the region's work; back when every iteration that this worker has taken is over.
void share(Region region) {
  Worker& here = worker;
  region.outer = here.runs->innermost;
  here.runs->innermost = &region;
  region.work(region.context);
  region.empty = true;
  while (region.helpers) here.next_turn();
  here.runs->innermost = region.outer;
}

struct ForkedBlocks {
  void (*work)(void*);
  void* context;
};
void share_blocks(void* forked) { share({((ForkedBlocks*)forked)->work, ((ForkedBlocks*)forked)->context, 1 << 20, true}); }
}  // namespace

namespace loom {
std::atomic<long> progress{0};

Asked& asked(const char* file, int line) {
  Runner& runs = *worker.runs;
  for (Asked& one : runs.asked)
    if (one.line == line && one.file == file) return one;
  runs.oldest = (runs.oldest + 1) % 8;
  return runs.asked[runs.oldest] = {file, line};
}

void let_others_run(const char* file, int line) {
  Worker& here = worker;
  here.file = file, here.line = line;
  for (Region* region = here.runs->innermost; region; region = region->outer)
    if (!region->empty && here.begin_helper(region)) return;
  if (here.runs->next != here.runs) return here.next_turn();
  static thread_local int naps;  // another worker may be at it
  timespec moment = {0, 20000L << (++naps % 4)};
  nanosleep(&moment, nullptr);
  look_for_progress(file, line, 1e-9 * (double)moment.tv_nsec);
}
}  // namespace loom

extern "C" {
// Blocks, over the workers of `fork` (null: those of our own OpenMP runtime).
void __loom_turns(void (*work)(void*), void* context, unsigned threads, void (*fork)(void (*)(void*), void*, unsigned, unsigned)) {
  ForkedBlocks forked{work, context};
  (fork ? fork : __loom_fork)(share_blocks, &forked, threads, 0);
}
// Warps, lanes or threads of one block; `frame_bytes`: what an iteration keeps on the stack.
void __loom_take_turns(void (*work)(void*), void* context, size_t frame_bytes) {
  share({work, context, frame_bytes + (192 << 10), false});
}
}
