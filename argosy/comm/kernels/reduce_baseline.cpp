#include "argosy/comm/kernels/simd_baseline.h"
#include "argosy/comm/kernels/simd_loops.h"

namespace argosy::comm {

constinit const KernelTable kBaselineKernels = make_table();

} // namespace argosy::comm
