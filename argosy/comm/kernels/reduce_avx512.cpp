#include "argosy/comm/kernels/simd_avx512.h"
#include "argosy/comm/kernels/simd_loops.h"

namespace argosy::comm {

constinit const KernelTable kAvx512Kernels = make_table();

} // namespace argosy::comm
