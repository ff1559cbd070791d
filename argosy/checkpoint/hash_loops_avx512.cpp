// First the instruction set, then the loops that are compiled for it.
#include "argosy/simd/avx512.h"

#include "argosy/checkpoint/hash_loops.h"

namespace argosy::checkpoint {

constinit const HashKernels kAvx512HashKernels = make_hash_kernels();

} // namespace argosy::checkpoint
