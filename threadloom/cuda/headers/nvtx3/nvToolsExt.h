/* Ranges and marks for NVIDIA's profilers, which there are none of here: nothing is recorded. Nesting is counted, as the
   functions return it. */
#pragma once
#define LOOM_NVTX static inline
#ifdef __cplusplus
extern "C" {
#endif
typedef unsigned long long nvtxRangeId_t;
LOOM_NVTX int* __loom_nvtx_depth(void) { static __thread int depth; return &depth; }
LOOM_NVTX int nvtxRangePushA(const char* name) { (void)name; return (*__loom_nvtx_depth())++; }
LOOM_NVTX int nvtxRangePop(void) { return *__loom_nvtx_depth() > 0 ? --*__loom_nvtx_depth() : -2; }
LOOM_NVTX void nvtxMarkA(const char* name) { (void)name; }
LOOM_NVTX nvtxRangeId_t nvtxRangeStartA(const char* name) { (void)name; return 1; }
LOOM_NVTX void nvtxRangeEnd(nvtxRangeId_t id) { (void)id; }
#define nvtxRangePush nvtxRangePushA
#define nvtxMark nvtxMarkA
#define nvtxRangeStart nvtxRangeStartA
#ifdef __cplusplus
}
#endif
