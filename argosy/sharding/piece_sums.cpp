#include "argosy/sharding/piece_sums.h"

#include <torch/nn/module.h>

namespace argosy::sharding {

PieceSums::PieceSums(const ShardedCore& core) : sharding_{core.group()} {
  const auto named = core.module().named_parameters(true);
  for (const ParameterInfo& info : core.parameters()) {
    groups_.push_back(optim::part_groups(named[info.name]));
  }
  for (const OwnPiece& piece : core.pieces()) {
    parameter_.emplace(
        piece.tensor.unsafeGetTensorImpl(), piece.place.parameter);
  }
}

void PieceSums::add(
    const std::vector<const at::Tensor*>& parts,
    std::vector<optim::Sums>& sums) {
  const auto number_of = [&](std::size_t i) {
    return parameter_.at(parts[i]->unsafeGetTensorImpl());
  };
  std::vector<optim::Sums> all(groups_.size(), optim::Sums{});
  for (std::size_t i = 0; i < parts.size(); ++i) {
    all[number_of(i)] = sums[i];
  }
  optim::add_over_groups({groups_.size(), sharding_}, all);
  optim::add_over_groups(groups_, all);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    sums[i] = all[number_of(i)];
  }
}

} // namespace argosy::sharding
