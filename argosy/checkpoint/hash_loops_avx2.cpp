// First the instruction set, then the loops that are compiled for it.
#include "argosy/simd/avx2.h"

#include "argosy/checkpoint/hash_loops.h"

namespace argosy::checkpoint {

constinit const HashKernels kAvx2HashKernels = make_hash_kernels();

} // namespace argosy::checkpoint
