// slow; Of math_bounds.cu one function of each kind of implementation.
#define SOME
#include "check.h"
#include "math_bounds.cu"
