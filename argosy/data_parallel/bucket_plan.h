#pragma once

#include <cstddef>
#include <iosfwd>
#include <vector>

#include "argosy/training/bucket.h"

// Which gradients are reduced together: a pure plan. Torch-free.
namespace argosy::data_parallel {

using training::Bucket;
using training::BucketEntry;
using training::ParameterInfo;

// The buckets in the order in which they are reduced. A sparse gradient has a
// bucket of its own.
struct BucketPlan {
  std::vector<Bucket> buckets;

  bool operator==(const BucketPlan&) const = default;
};

std::ostream& operator<<(std::ostream& out, const BucketPlan& plan);

// How gradients are fused into buckets.
struct Fusion {
  enum class Mode {
    Size,  // buckets of up to `bytes`, the last one of up to `last_bytes`
    Index, // a new bucket begins at each place of `starts`
    Auto,  // sizes from the total size of the gradients; see auto_fusion()
    None,  // a bucket for every gradient
  };

  Mode mode = Mode::Size;
  std::size_t bytes = std::size_t{25} << 20;
  std::size_t last_bytes = std::size_t{1} << 20;
  // Places in the order of arrival, ascending, without 0.
  std::vector<std::size_t> starts;
};

// Assigns gradients to buckets. `order` lists the indices of all parameters in
// the order in which their gradients arrive. The last bucket is small, because
// no computation is left to hide its reduction behind. Fusion ids of parameters
// come before `fusion`. Throws InvalidArgument
// if `order` is not a permutation, or `starts` is not ascending.
BucketPlan plan_buckets(
    const std::vector<ParameterInfo>& parameters,
    const std::vector<std::size_t>& order,
    const Fusion& fusion);

// Bucket sizes for `total_bytes` of gradients: about `num_buckets` buckets, so
// that all reductions but the last are hidden, and none smaller than 256 KB,
// where latency dominates.
Fusion auto_fusion(std::size_t total_bytes, std::size_t num_buckets = 8);

} // namespace argosy::data_parallel
