#include "argosy/ps/table/rule.h"

#include "argosy/common/error.h"
#include "argosy/ps/table/rule_kernels.h"

namespace argosy::ps {

std::string_view to_string(Rule rule) {
  constexpr std::string_view kNames[] = {
      "naive",
      "adagrad",
      "std_adagrad",
      "adagrad_v2",
      "adam",
      "shared_adam",
      "sum"};
  return kNames[static_cast<int>(rule)];
}

int state_size(Rule rule, int dim) {
  switch (rule) {
    case Rule::Naive:
    case Rule::Sum:
      return 0;
    case Rule::AdaGrad:
    case Rule::AdaGradV2:
      return 1;
    case Rule::StdAdaGrad:
      return dim;
    case Rule::Adam:
      return 2 * dim + 2;
    case Rule::SharedAdam:
      return 4;
  }
  return 0;
}

const RuleKernels& rule_kernels(simd::Isa isa) {
  switch (isa) {
    case simd::Isa::Baseline:
      return kBaselineRuleKernels;
    case simd::Isa::Avx2:
      return kAvx2RuleKernels;
    case simd::Isa::Avx512:
      return kAvx512RuleKernels;
  }
  return kBaselineRuleKernels;
}

} // namespace argosy::ps
