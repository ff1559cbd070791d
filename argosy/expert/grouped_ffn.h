#pragma once

#include <cstdint>
#include <vector>

#include "argosy/expert/grouped_experts.h"

// The computation of GroupedExperts. Not installed.
namespace argosy::expert {

struct GroupedWeights {
  at::Tensor weight1;
  at::Tensor bias1;
  at::Tensor weight2;
  at::Tensor bias2;
  // Of gated activations; else undefined.
  at::Tensor weight3;
  at::Tensor bias3;
};

bool is_gated(ExpertActivation activation);

// `rows[e]` rows belong to expert e. If the results of several ranks are
// summed, each adds `bias_share` of the last bias; the gradient of that bias is
// not scaled.
struct GroupedFfn {
  std::vector<std::int64_t> rows;
  ExpertActivation activation = ExpertActivation::Gelu;
  double bias_share = 1;
};

at::Tensor grouped_ffn(
    const at::Tensor& x,
    const GroupedWeights& weights,
    const GroupedFfn& options);

} // namespace argosy::expert
