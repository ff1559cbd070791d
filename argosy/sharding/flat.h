#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <string>
#include <vector>

#include "argosy/sharding/unit_plan.h"

namespace argosy::sharding {

// A flat buffer of parameters on this rank.
struct Flat {
  FlatPlan plan;
  c10::ScalarType type = c10::ScalarType::Float;
  std::vector<at::Tensor> params; // as plan.entries
  at::Tensor full;      // always when resident, else while it is gathered
  at::Tensor shard;     // this rank's part; lies in `full` when resident
  c10::Storage storage; // of the parameters when not resident
};

struct Unit {
  std::string name;
  bool resident = true;
  std::vector<Flat> flats;
};

// This rank's part of a buffer.
inline at::Tensor part_of(const at::Tensor& full, int rank, int num_ranks) {
  const std::int64_t part = full.numel() / num_ranks;
  return full.narrow(0, rank * part, part);
}

} // namespace argosy::sharding
