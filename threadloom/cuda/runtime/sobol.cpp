// Direction numbers of Sobol's sequence, in up to 161 dimensions: those of S. Joe and F. Y. Kuo, "Constructing Sobol sequences with
// better two-dimensional projections", SIAM J. Sci. Comput. 30 (2008), whose set "new-joe-kuo-6.21201" cuRAND uses, too. Of each
// dimension the first numbers are given here, as many as its polynomial's degree; the polynomials are the primitive ones of degrees
// 1 to 10 in order, and the other numbers follow from both. Copyright (c) 2008 Frances Y. Kuo and Stephen Joe, who publish theirs
// under a licence like BSD's: https://web.maths.unsw.edu.au/~fkuo/sobol/.
#include <curand_types.h>
#include <sys/mman.h>
#include <unistd.h>

#include <vector>

#include "sobol.h"

namespace {
using loom::sobol_dimensions;
const short first_numbers[] = {
    1, 1,3, 1,3,1, 1,1,1, 1,1,3,3, 1,3,5,13, 1,1,5,5,17, 1,1,5,5,5, 1,1,7,11,19, 1,1,5,1,1, 1,1,1,3,11, 1,3,5,5,31,
    1,3,3,9,7,49, 1,1,1,15,21,21, 1,3,1,13,27,49, 1,1,1,15,7,5, 1,3,1,15,13,25, 1,1,5,5,19,61, 1,3,7,11,23,15,103,
    1,3,7,13,13,15,69, 1,1,3,13,7,35,63, 1,3,5,9,1,25,53, 1,3,1,13,9,35,107, 1,3,1,5,27,61,31, 1,1,5,11,19,41,61,
    1,3,5,3,3,13,69, 1,1,7,13,1,19,1, 1,3,7,5,13,19,59, 1,1,3,9,25,29,41, 1,3,5,13,23,1,55, 1,3,7,3,13,59,17, 1,3,1,3,5,53,69,
    1,1,5,5,23,33,13, 1,1,7,7,1,61,123, 1,1,7,9,13,61,49, 1,3,3,5,3,55,33, 1,3,1,15,31,13,49,245, 1,3,5,15,31,59,63,97,
    1,3,1,11,11,11,77,249, 1,3,1,11,27,43,71,9, 1,1,7,15,21,11,81,45, 1,3,7,3,25,31,65,79, 1,3,1,1,19,11,3,205,
    1,1,5,9,19,21,29,157, 1,3,7,11,1,33,89,185, 1,3,3,3,15,9,79,71, 1,3,7,11,15,39,119,27, 1,1,3,1,11,31,97,225,
    1,1,1,3,23,43,57,177, 1,3,7,7,17,17,37,71, 1,3,1,5,27,63,123,213, 1,1,3,5,11,43,53,133, 1,3,5,5,29,17,47,173,479,
    1,3,3,11,3,1,109,9,69, 1,1,1,5,17,39,23,5,343, 1,3,1,5,25,15,31,103,499, 1,1,1,11,11,17,63,105,183,
    1,1,5,11,9,29,97,231,363, 1,1,5,15,19,45,41,7,383, 1,3,7,7,31,19,83,137,221, 1,1,1,3,23,15,111,223,83,
    1,1,5,13,31,15,55,25,161, 1,1,3,13,25,47,39,87,257, 1,1,1,11,21,53,125,249,293, 1,1,7,11,11,7,57,79,323,
    1,1,5,5,17,13,81,3,131, 1,1,7,13,23,7,65,251,475, 1,3,5,1,9,43,3,149,11, 1,1,3,13,31,13,13,255,487, 1,3,3,1,5,63,89,91,127,
    1,1,3,3,1,19,123,127,237, 1,1,5,7,23,31,37,243,289, 1,1,5,11,17,53,117,183,491, 1,1,1,5,1,13,13,209,345,
    1,1,3,15,1,57,115,7,33, 1,3,1,11,7,43,81,207,175, 1,3,1,1,15,27,63,255,49, 1,3,5,3,27,61,105,171,305,
    1,1,5,3,1,3,57,249,149, 1,1,3,5,5,57,15,13,159, 1,1,1,11,7,11,105,141,225, 1,3,3,5,27,59,121,101,271,
    1,3,5,9,11,49,51,59,115, 1,1,7,1,23,45,125,71,419, 1,1,3,5,23,5,105,109,75, 1,1,7,15,7,11,67,121,453,
    1,3,7,3,9,13,31,27,449, 1,3,1,15,19,39,39,89,15, 1,1,1,1,1,33,73,145,379, 1,3,1,15,15,43,29,13,483,
    1,1,7,3,19,27,85,131,431, 1,3,3,3,5,35,23,195,349, 1,3,3,7,9,27,39,59,297, 1,1,3,9,11,17,13,241,157,
    1,3,7,15,25,57,33,189,213, 1,1,7,1,9,55,73,83,217, 1,3,3,13,19,27,23,113,249, 1,3,5,3,23,43,3,253,479,
    1,1,5,5,11,5,45,117,217, 1,3,3,7,29,37,33,123,147, 1,3,1,15,5,5,37,227,223,459, 1,1,7,5,5,39,63,255,135,487,
    1,3,1,7,9,7,87,249,217,599, 1,1,3,13,9,47,7,225,363,247, 1,3,7,13,19,13,9,67,9,737, 1,3,5,5,19,59,7,41,319,677,
    1,1,5,3,31,63,15,43,207,789, 1,1,7,9,13,39,3,47,497,169, 1,3,1,7,21,17,97,19,415,905, 1,3,7,1,3,31,71,111,165,127,
    1,1,5,11,1,61,83,119,203,847, 1,3,3,13,9,61,19,97,47,35, 1,1,7,7,15,29,63,95,417,469, 1,3,1,9,25,9,71,57,213,385,
    1,3,5,13,31,47,101,57,39,341, 1,1,3,3,31,57,125,173,365,551, 1,3,7,1,13,57,67,157,451,707, 1,1,1,7,21,13,105,89,429,965,
    1,1,5,9,17,51,45,119,157,141, 1,3,7,7,13,45,91,9,129,741, 1,3,7,1,23,57,67,141,151,571, 1,1,3,11,17,47,93,107,375,157,
    1,3,3,5,11,21,43,51,169,915, 1,1,5,3,15,55,101,67,455,625, 1,3,5,9,1,23,29,47,345,595, 1,3,7,7,5,49,29,155,323,589,
    1,3,3,7,5,41,127,61,261,717, 1,3,7,7,17,23,117,67,129,1009, 1,1,3,13,11,39,21,207,123,305, 1,1,3,9,29,3,95,47,231,73,
    1,3,1,9,1,29,117,21,441,259, 1,3,1,13,21,39,125,211,439,723, 1,1,7,3,17,63,115,89,49,773, 1,3,7,13,11,33,101,107,63,73,
    1,1,5,5,13,57,63,135,437,177, 1,1,3,7,27,63,93,47,417,483, 1,1,3,1,23,29,1,191,49,23, 1,1,3,15,25,55,9,101,219,607,
    1,3,1,7,7,19,51,251,393,307, 1,3,3,3,25,55,17,75,337,3, 1,1,1,13,25,17,65,45,479,413, 1,1,7,7,27,49,99,161,213,727,
    1,3,5,1,23,5,43,41,251,857, 1,3,3,7,11,61,39,87,383,835, 1,1,3,15,13,7,29,7,505,923, 1,3,7,1,5,31,47,157,445,501,
    1,1,3,7,1,43,9,147,115,605, 1,3,3,13,5,1,119,211,455,1001, 1,1,3,5,13,19,3,243,75,843, 1,3,7,7,1,19,91,249,357,589,
    1,1,1,9,1,25,109,197,279,411, 1,3,1,15,23,57,59,135,191,75, 1,1,5,15,29,21,39,253,383,349, 1,3,3,5,19,45,61,151,199,981,
    1,3,5,13,9,61,107,141,141,1, 1,3,1,11,27,25,85,105,309,979, 1,3,3,11,19,7,115,223,349,43, 1,1,7,9,21,39,123,21,275,927,
    1,1,7,13,15,41,47,243,303,437, 1,1,1,7,7,3,15,99,409,719,
};

bool is_primitive(unsigned polynomial, int degree) {
  unsigned x = 1, steps = 0;
  do {
    x <<= 1;
    if (x >> degree & 1) x ^= polynomial;
  } while (++steps < (1u << degree) && x != 1);
  return steps == (1u << degree) - 1;
}

// The 64 direction numbers of a dimension; the upper halves of the first 32 are those of 32 bits.
void extend(unsigned polynomial, int degree, const short* first, unsigned long long* v) {
  for (int k = 0; k < 64; ++k) {
    if (k < degree) {
      v[k] = (unsigned long long)first[k] << (63 - k);
      continue;
    }
    v[k] = v[k - degree] ^ v[k - degree] >> degree;
    for (int i = 1; i < degree; ++i)
      if (polynomial >> (degree - i) & 1) v[k] ^= v[k - i];
  }
}

struct Directions {
  unsigned long long of[sobol_dimensions][64];
  Directions() {
    for (int k = 0; k < 64; ++k) of[0][k] = 1ull << (63 - k);
    const short* first = first_numbers;
    int dimension = 1;
    for (int degree = 1; degree <= 10; ++degree)
      for (unsigned middle = 0; middle < 1u << (degree - 1); ++middle) {
        unsigned polynomial = 1u << degree | middle << 1 | 1;
        if (!is_primitive(polynomial, degree)) continue;
        extend(polynomial, degree, first, of[dimension++]);
        first += degree;
      }
  }
};
const Directions& directions() {
  static const Directions* all = new Directions;
  return *all;
}

// Where a program asks for more dimensions than there are, it reads pages that are not there, not wrong numbers.
template <class T> T* guarded(size_t count) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = (count * sizeof(T) + page - 1) / page * page, behind = 16 << 20;
  char* memory = (char*)mmap(nullptr, bytes + behind, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED || mprotect(memory, bytes, PROT_READ | PROT_WRITE)) return nullptr;
  return (T*)(memory + bytes - count * sizeof(T));
}
template <class T> T* made(int bits) {
  T* all = guarded<T>((size_t)sobol_dimensions * bits);
  for (int d = 0; all && d < sobol_dimensions; ++d)
    for (int k = 0; k < bits; ++k) all[d * bits + k] = (T)(directions().of[d][k] >> (64 - bits));
  return all;
}
}  // namespace

unsigned long long loom::sobol(unsigned dimension, unsigned long long index) {
  unsigned long long x = 0, gray = index ^ index >> 1;
  for (int k = 0; gray >> k; ++k)
    if (gray >> k & 1) x ^= directions().of[dimension][k];
  return x;
}

extern "C" {
curandStatus_t curandGetDirectionVectors32(curandDirectionVectors32_t** vectors, curandDirectionVectorSet_t set) {
  if (set != CURAND_DIRECTION_VECTORS_32_JOEKUO6) return CURAND_STATUS_OUT_OF_RANGE;  // scrambled ones are NVIDIA's own
  static unsigned* all = made<unsigned>(32);
  *vectors = (curandDirectionVectors32_t*)all;
  return all ? CURAND_STATUS_SUCCESS : CURAND_STATUS_ALLOCATION_FAILED;
}
curandStatus_t curandGetDirectionVectors64(curandDirectionVectors64_t** vectors, curandDirectionVectorSet_t set) {
  if (set != CURAND_DIRECTION_VECTORS_64_JOEKUO6) return CURAND_STATUS_OUT_OF_RANGE;
  static unsigned long long* all = made<unsigned long long>(64);
  *vectors = (curandDirectionVectors64_t*)all;
  return all ? CURAND_STATUS_SUCCESS : CURAND_STATUS_ALLOCATION_FAILED;
}
}
