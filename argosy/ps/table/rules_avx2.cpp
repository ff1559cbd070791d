// First the instruction set, then the loops that are compiled for it.
#include "argosy/simd/avx2.h"

#include "argosy/ps/table/dense_loops.h"

namespace argosy::ps {

constinit const RuleKernels kAvx2RuleKernels = make_rule_kernels();

} // namespace argosy::ps
