#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// Buckets: tensors that lie side by side in one flat buffer and are
// communicated in one call. Torch-free.
namespace argosy::training {

// A parameter as the plans of buckets see it.
struct ParameterInfo {
  std::string name;
  std::int64_t count = 0;  // elements
  std::size_t element = 4; // bytes of an element
  std::string type = "Float";
  bool trainable = true;
  bool sparse = false; // its gradient is a sparse tensor
  // A slice of a layer that is split over ranks. Its size may differ between
  // ranks, so it must not influence how other parameters are laid out.
  bool is_distributed = false;
  // Belongs to an expert; its gradient is averaged over other ranks than the
  // rest of the model.
  bool is_expert = false;
  int comm_fusion = -1; // see ParameterMarks

  std::size_t bytes() const {
    return static_cast<std::size_t>(count) * element;
  }
  bool operator==(const ParameterInfo&) const = default;
};

// The position of a parameter in its bucket, in elements.
struct BucketEntry {
  std::size_t parameter = 0; // index
  std::int64_t begin = 0;
  std::int64_t count = 0;

  bool operator==(const BucketEntry&) const = default;
};

// The layout of one flat buffer. All entries have the type and the flags of the
// bucket. Entries begin on cache lines.
struct Bucket {
  std::string type;
  std::size_t element = 4;
  bool trainable = true;
  bool sparse = false;
  bool is_distributed = false;
  bool is_expert = false;
  std::int64_t count = 0; // elements, including the gaps between entries
  std::vector<BucketEntry> entries;

  std::size_t bytes() const {
    return static_cast<std::size_t>(count) * element;
  }
  bool operator==(const Bucket&) const = default;
};

// An empty bucket of the parameter's type and flags.
Bucket bucket_for(const ParameterInfo& parameter);

// Whether the parameter has the type and flags of the bucket.
bool same_kind(const Bucket& bucket, const ParameterInfo& parameter);

// Adds the parameter with index `index` at the end of the bucket.
void append(Bucket& bucket, std::size_t index, const ParameterInfo& parameter);

// Parameters by what their fusion ids say, in the order given.
struct FusionSets {
  // Each is communicated in one call: those with equal ids above 0, and each
  // with the id 0 alone. Distributed parameters lie apart from others.
  std::vector<std::vector<std::size_t>> together;
  std::vector<std::size_t> rest; // without id, and those that do not train
};

FusionSets fusion_sets(
    const std::vector<ParameterInfo>& parameters,
    const std::vector<std::size_t>& order);

// Rounds up to whole cache lines of elements of `element` bytes.
std::int64_t whole_lines(std::int64_t count, std::size_t element);

} // namespace argosy::training
