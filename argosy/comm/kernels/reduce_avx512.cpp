// First the instruction set, then the loops that are compiled for it.
#include "argosy/simd/avx512.h"

#include "argosy/comm/kernels/simd_loops.h"

namespace argosy::comm {

constinit const KernelTable kAvx512Kernels = make_table();

} // namespace argosy::comm
