// slow; Lanes grouped by key with __match_any_sync: leaders insert once per group in a hash table with atomicCAS.
#include "check.h"

struct Slot { int key, count; };
constexpr int slots = 64, empty = -1;

__global__ void insert(const int* keys, Slot* table, int* ranks) {
  int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31, key = keys[i];
  unsigned peers = __match_any_sync(0xffffffffu, key);
  int leader = __ffs(peers) - 1;
  ranks[i] = __popc(peers & ((1u << lane) - 1u));
  if (lane == leader) {
    int slot = key * 7 % slots;
    while (true) {
      int found = atomicCAS(&table[slot].key, empty, key);
      if (found == empty || found == key) break;
      slot = (slot + 1) % slots;
    }
    atomicAdd(&table[slot].count, __popc(peers));
  }
  __syncwarp(peers);
}

int main() {
  const int n = 256;
  std::vector<int> keys(n);
  for (int i = 0; i < n; ++i) keys[i] = i * i % 19;
  std::vector<Slot> table(slots, Slot{empty, 0});
  int* device_keys = to_device(keys);
  Slot* device_table = to_device(table);
  int* ranks;
  CUDA(cudaMalloc(&ranks, n * sizeof(int)));
  insert<<<2, 128>>>(device_keys, device_table, ranks);
  auto got = to_host(device_table, slots);
  auto rank = to_host(ranks, n);
  for (int key = 0; key < 19; ++key) {
    int expected = 0, count = 0, places = 0;
    for (int k : keys) expected += k == key;
    for (Slot slot : got)
      if (slot.key == key) ++places, count += slot.count;
    EXPECT(count == expected && places == (expected > 0), "key %d: %d in %d places, not %d", key, count, places, expected);
  }
  for (int i = 0; i < n; ++i) {
    int expected = 0;
    for (int j = i / 32 * 32; j < i; ++j) expected += keys[j] == keys[i];
    EXPECT(rank[i] == expected, "thread %d: rank %d, not %d", i, rank[i], expected);
  }
  return wrong != 0;
}
