#pragma once

#include <cstddef>
#include <iosfwd>
#include <string>
#include <vector>

// Which gradients are reduced together: a pure plan. Torch-free.
namespace argosy::data_parallel {

// A parameter as the plan sees it.
struct ParameterInfo {
  std::string name;
  std::size_t count = 0;   // elements
  std::size_t element = 4; // bytes of one
  std::string type = "float32";
  bool sparse = false; // its gradient is

  bool operator==(const ParameterInfo&) const = default;
};

// Where a gradient lies in its bucket, in elements.
struct BucketEntry {
  std::size_t parameter = 0; // index
  std::size_t begin = 0;
  std::size_t count = 0;

  bool operator==(const BucketEntry&) const = default;
};

// Gradients of one type, side by side. A sparse gradient has a bucket of its
// own.
struct Bucket {
  std::string type;
  std::size_t element = 4;
  std::size_t count = 0; // elements, with gaps between entries
  bool sparse = false;
  std::vector<BucketEntry> entries;

  std::size_t bytes() const { return count * element; }
  bool operator==(const Bucket&) const = default;
};

// In the order in which they are reduced.
struct BucketPlan {
  std::vector<Bucket> buckets;

  bool operator==(const BucketPlan&) const = default;
};

std::ostream& operator<<(std::ostream& out, const BucketPlan& plan);

// How gradients are fused.
struct Fusion {
  enum class Mode {
    Size,  // up to `bytes`, the last up to `last_bytes`
    Index, // cut before the parameters of `starts`
    Auto,  // sizes from how long gradients take to come; see auto_fusion()
    None,  // every gradient alone
  };

  Mode mode = Mode::Size;
  std::size_t bytes = std::size_t{25} << 20;
  std::size_t last_bytes = std::size_t{1} << 20;
  // Places in the order of readiness, ascending, without 0.
  std::vector<std::size_t> starts;
};

// `order` has the indices of all parameters as their gradients become ready;
// the last bucket is small, since nothing is left to hide it behind. Throws
// InvalidArgument when `order` is not a permutation, or `starts` not ascending.
BucketPlan plan_buckets(
    const std::vector<ParameterInfo>& parameters,
    const std::vector<std::size_t>& order,
    const Fusion& fusion);

// The order that backward most likely has: the reverse of registration.
std::vector<std::size_t> expected_order(std::size_t num_parameters);

// Sizes for `total_bytes` of gradients: about `num_buckets` buckets, none so
// small that its latency counts (256 KB), so that the reductions of all but the
// last are hidden.
Fusion auto_fusion(std::size_t total_bytes, std::size_t num_buckets = 8);

} // namespace argosy::data_parallel
