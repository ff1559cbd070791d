#pragma once

#include <map>
#include <vector>

#include "argosy/optim/parts.h"
#include "argosy/sharding/sharded_core.h"

namespace argosy::sharding {

// Norms of whole parameters for optimizers that step pieces of them. Ranks hold
// pieces of different parameters, so all parameters of the model take part in
// each exchange: one all_reduce over the ranks that share the model, and one
// over each group that a parameter is split over before that (tensor
// parallelism).
class PieceSums final : public optim::PartSums {
 public:
  explicit PieceSums(const ShardedCore& core);

  void add(
      const std::vector<const at::Tensor*>& parts,
      std::vector<optim::Sums>& sums) override;

 private:
  const optim::Groups sharding_;
  std::vector<optim::Groups> groups_;            // by parameter
  std::map<const void*, std::size_t> parameter_; // by piece
};

} // namespace argosy::sharding
