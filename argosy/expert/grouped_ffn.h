#pragma once

#include <cstdint>
#include <vector>

#include "argosy/expert/grouped_experts.h"

// What grouped experts compute. Not installed.
namespace argosy::expert {

struct GroupedWeights {
  at::Tensor weight1;
  at::Tensor bias1;
  at::Tensor weight2;
  at::Tensor bias2;
};

// Products of the rows of each expert with its weights. Ranks whose results are
// added up take `bias_share` of the last bias each; its gradient is whole.
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
