// Workers that stay together for several parallel regions: one fork for a batch of launches, and between two regions only
// the waiting that their data asks for.
#pragma once
#include <functional>

namespace loom {
// Lets the OpenMP runtime start its threads, once; the calling thread's first region then finds them.
void start_workers();
// `master` runs in the calling thread while the OpenMP team waits for regions. Each __loom_parallel in it hands its region
// to the team and returns when the calling thread's own share is done.
void with_team(const std::function<void()>& master);
// Inside with_team: waits until all regions handed over so far are done.
void join_team();
// Whether the next regions keep each block with its worker, so that one may follow another without waiting.
void keep_team_in_order(bool wanted);
}  // namespace loom
