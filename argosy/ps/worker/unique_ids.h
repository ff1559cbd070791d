#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

namespace argosy::ps {

// The ids of a lookup, each once.
struct UniqueIds {
  std::vector<std::uint64_t> keys;
  std::vector<float> counts; // how often each stands in the tensor
  at::Tensor positions; // of the ids in `keys`; the padding id is behind them
};

// Throws InvalidArgument, naming the table, for ids that are no integers, and
// for negative ones but `padding_idx`.
UniqueIds unique_ids(
    const at::Tensor& ids, std::int64_t padding_idx, const std::string& table);

} // namespace argosy::ps
