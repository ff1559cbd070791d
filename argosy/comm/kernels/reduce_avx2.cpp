#include "argosy/comm/kernels/simd_avx2.h"
#include "argosy/comm/kernels/simd_loops.h"

namespace argosy::comm {

constinit const KernelTable kAvx2Kernels = make_table();

} // namespace argosy::comm
