/* The primitives and the classes of asynchronous copies. */
#pragma once
#include <cuda/pipeline>
#include <cuda_pipeline_primitives.h>
namespace nvcuda {
namespace experimental = ::cuda;
}
