#pragma once
#define CURAND_H_
#include <curand_types.h>
