// Sobol's sequence (sobol.cpp), for the host API of cuRAND (random.cpp).
#pragma once

namespace loom {
constexpr int sobol_dimensions = 161;
unsigned long long sobol(unsigned dimension, unsigned long long index);  // the point of that number, as a 64-bit fraction
}  // namespace loom
