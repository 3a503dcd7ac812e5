/* CUB's collectives in our own words: the block and warp primitives, and the device-wide algorithms that programs use.
   Device-wide algorithms run as one serial kernel: exact, in the order that a stable definition gives. */
#pragma once
#include <loom/prelude.h>
#include "functors.cuh"
#if defined(__CUDA__)
#include "allocator.cuh"
#include "debug.cuh"
#include "traits.cuh"
#include "warp.cuh"
#include "block.cuh"
#include "iterators.cuh"
#include "device.cuh"
#include "segmented_sort.cuh"
#endif
