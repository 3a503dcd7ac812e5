// Lanes of a warp that meet in parts: __syncwarp(mask) orders what its lanes did before it with what they do behind it, and
// nothing of the others.
//
// Each lane has a number of __syncwarp that it has passed in the interval, its epoch, and knows of every other lane how many
// of its epochs are over: where lanes meet, each gets to know what all of them knew when they came. An access of lane x in
// its epoch e comes before what lane y does now if y knows that more than e epochs of x are over. (Vector clocks: Mattern 1988.)
#include "check.h"

#include <algorithm>

namespace loom {
namespace checking {
constexpr int lanes = 32;
struct Meeting {  // of the lanes of one mask at one place, the last time
  int site;
  unsigned mask;
  bool over;  // some lane has gone on: who comes now comes to the next one
  unsigned known[lanes];
};
struct Warp {
  Moment interval = 0;
  unsigned epoch[lanes], known[lanes][lanes];
  std::vector<Meeting> meetings;
};
struct Warps {
  Warp all[1024 / lanes];
};

struct Asked {  // of the lanes of one mask at one operation
  int site;
  unsigned mask;
  bool done;  // by the first of them that goes on: the others may have gone elsewhere when the last one does
};
struct Aside {
  unsigned long long conditions[1024] = {};  // by thread: which keep it from meeting others
  std::vector<Asked> asked[1024 / lanes];
};

namespace {
Block& numbered(int number) { return state().kept.empty() ? state().block : *state().kept[(unsigned)number]; }

Aside& aside_of(Block& block) {
  if (!block.aside) block.aside = new Aside;
  return *block.aside;
}

Asked& asked_at(Aside& aside, unsigned warp, int site, unsigned mask) {
  for (Asked& one : aside.asked[warp])
    if (one.site == site && one.mask == mask) return one;
  aside.asked[warp].push_back({site, mask, false});
  return aside.asked[warp].back();
}

Warp& warp_of(Block& block, unsigned thread, Moment position) {
  if (!block.warps) block.warps = new Warps;
  Warp& warp = block.warps->all[thread / lanes];
  if (warp.interval == interval(position)) return warp;  // a barrier of the block has ordered all before
  warp.interval = interval(position);
  std::fill_n(warp.epoch, lanes, 0);
  std::fill_n(&warp.known[0][0], lanes * lanes, 0);
  warp.meetings.clear();
  return warp;
}

Meeting& meeting_at(Warp& warp, int site, unsigned mask) {
  for (Meeting& one : warp.meetings)
    if (one.site == site && one.mask == mask) return one;
  warp.meetings.push_back({site, mask, true, {}});
  return warp.meetings.back();
}
}  // namespace

bool met_since(const Block& block, Moment old, Moment now) {
  const Warp& warp = block.warps->all[thread(now) / lanes];
  if (warp.interval != interval(now)) return false;
  unsigned x = thread(old) % lanes, behind = (warp.epoch[x] - warp_count(old)) % lanes;
  return warp.known[thread(now) % lanes][x] > warp.epoch[x] - behind;
}

void forget_warps(Block& block) {
  delete block.warps;
  delete block.aside;
  block.warps = nullptr, block.aside = nullptr;
}
}  // namespace checking
}  // namespace loom

using namespace loom::checking;

// The thread goes another way than those that meet under the conditions `set`, or under `cleared` no more.
extern "C" void __loom_check_aside(int number, int thread, unsigned long long set, unsigned long long cleared) {
  unsigned long long& own = aside_of(numbered(number)).conditions[(unsigned)thread];
  own = (own & ~cleared) | set;
}

// The thread comes to the operation `site`, which names the lanes of `mask`, and goes on behind it, under `conditions`.
extern "C" void __loom_check_comes(int number, int thread, int mask, int site) {
  asked_at(aside_of(numbered(number)), (unsigned)thread / lanes, site, (unsigned)mask).done = false;
}
extern "C" void __loom_check_named(int number, int thread, int mask, int site, unsigned long long conditions, const char* file, int line, const char* text, const char* name) {
  Aside& aside = aside_of(numbered(number));
  unsigned absent = 0, first = (unsigned)thread / lanes * lanes;
  Asked& asked = asked_at(aside, first / lanes, site, (unsigned)mask);
  if (asked.done) return;
  asked.done = true;
  for (unsigned i = 0; i < lanes; i++)
    if ((unsigned)mask >> i & 1 && aside.conditions[first + i] & conditions) absent |= 1u << i;
  if (absent) report_absent({file, text, line, 0, Write, -1, 0}, name, first / lanes, absent);
}

// A lane comes to the __syncwarp at `site`, and goes on behind it; `position` is the one before it.
extern "C" void __loom_check_arrive(void* which, int thread, unsigned long long position, int mask, int site) {
  Warp& warp = warp_of(*(Block*)which, (unsigned)thread, position);
  Meeting& meeting = meeting_at(warp, site, (unsigned)mask);
  if (meeting.over) std::fill_n(meeting.known, lanes, 0);
  meeting.over = false;
  int lane = thread % lanes;
  for (int i = 0; i < lanes; i++) meeting.known[i] = std::max(meeting.known[i], warp.known[lane][i]);
  meeting.known[lane] = std::max(meeting.known[lane], warp.epoch[lane] + 1);
}

extern "C" void __loom_check_depart(void* which, int thread, unsigned long long position, int mask, int site) {
  Warp& warp = warp_of(*(Block*)which, (unsigned)thread, position);
  Meeting& meeting = meeting_at(warp, site, (unsigned)mask);
  meeting.over = true;
  int lane = thread % lanes;
  for (int i = 0; i < lanes; i++) warp.known[lane][i] = std::max(warp.known[lane][i], meeting.known[i]);
  warp.epoch[lane]++;
}
