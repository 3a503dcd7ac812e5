#pragma once
#include <curand_types.h>
