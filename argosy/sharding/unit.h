#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <string>
#include <vector>

#include "argosy/comm/operation/label.h"
#include "argosy/sharding/unit_plan.h"

namespace argosy::sharding {

// A bucket of parameters with its memory on this rank.
struct ShardedBucket {
  Bucket plan;
  c10::ScalarType type = c10::ScalarType::Float;
  std::vector<at::Tensor> params; // in the order of plan.entries
  at::Tensor full;      // resident: always defined; else only while gathered
  at::Tensor shard;     // this rank's slice; resident: a view of `full`
  c10::Storage storage; // of the parameters if the unit is not resident
  // Resident: where the parameters lie in `full`.
  std::vector<at::Tensor> places;
};

// A unit of the plan with its memory on this rank.
struct Unit {
  std::string name;
  bool resident = true;
  std::vector<ShardedBucket> buckets;
  OpLabel label{}; // of the operations that gather it
};

// A view of the slice of a buffer that belongs to `rank`.
inline at::Tensor part_of(const at::Tensor& full, int rank, int num_ranks) {
  const std::int64_t part = full.numel() / num_ranks;
  return full.narrow(0, rank * part, part);
}

} // namespace argosy::sharding
