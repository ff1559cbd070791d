// First the instruction set, then the loops that are compiled for it.
#include "argosy/simd/baseline.h"

#include "argosy/comm/kernels/simd_loops.h"

namespace argosy::comm {

constinit const KernelTable kBaselineKernels = make_table();

} // namespace argosy::comm
