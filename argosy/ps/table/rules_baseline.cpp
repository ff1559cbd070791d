// First the instruction set, then the loops that are compiled for it.
#include "argosy/simd/baseline.h"

#include "argosy/ps/table/dense_loops.h"

namespace argosy::ps {

constinit const RuleKernels kBaselineRuleKernels = make_rule_kernels();

} // namespace argosy::ps
