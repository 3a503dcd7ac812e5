// PTX's clocks with one percent sign, as nvcc reads them, in a program that names no other clock.
#include "check.h"

__global__ void take_times(unsigned long long* times) {
  unsigned long long first, second;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(first));
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(second));
  times[0] = first;
  times[1] = second;
}

int main() {
  unsigned long long* times = to_device(std::vector<unsigned long long>(2));
  take_times<<<1, 1>>>(times);
  auto got = to_host(times, 2);
  EXPECT(got[0] > 0 && got[1] >= got[0], "%llu, then %llu", got[0], got[1]);
  return wrong != 0;
}
