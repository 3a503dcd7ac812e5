/* What nvcc includes before every .cu file. The order matters: device overloads of the C library come before its headers. */
#pragma once
#include "host_defines.h"
#if defined(__CUDA__)
#include "device_math.h"
#endif
#if defined(__cplusplus)
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>
#endif
#if defined(__CUDA__) && !defined(__CLANG_CUDA_WRAPPERS_NEW)
#include "device_new.h"
#endif
#include <assert.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "vector_types.h"
#if defined(__CUDA__)
#include "host_math.h"
#include "execution.h"
#include "atomics.h"
#include "intrinsics.h"
#include "simd.h"
#include "dpx.h"
#endif
#include "runtime_api.h"
#include "texture_types.h"
#if defined(__CUDA__)
#include "texture_fetch.h"
#endif
