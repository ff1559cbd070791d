#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <type_traits>
#include <utility>

#include "argosy/data/loader.h"
#include "argosy/semi_auto/sample_slice.h"

namespace argosy {

// The part that a plan says, with fill around it, of a whole sample. Throws
// InvalidArgument if the sample is not large enough.
at::Tensor cut_sample(
    const at::Tensor& sample, const SampleSlice& slice, double fill = 0);
// The same for what is `slice.read` already.
at::Tensor fill_around(
    const at::Tensor& read, const SampleSlice& slice, double fill = 0);

// A dataset that reads parts of its samples, which are tensors.
template <typename D>
concept PartialDataset = data::Sized<D> &&
    requires(const D& dataset, std::int64_t index, const dtensor::Box& box) {
  { dataset.get_part(index, box) } -> std::convertible_to<at::Tensor>;
};

// The parts of samples that a rank loads, as a dataset for DataLoader. A
// dataset with get_part(index, box) reads only these; of others, samples are
// read and cut. Samples are tensors.
//
//   const auto plan = plan_loading({3, 512, 512}, mesh, {Shard(3)},
//   get_rank()); data::DataLoader loader(
//       SlicedDataset(images, plan.slice),
//       data::DistributedBatchSampler(images.size(), {
//           .num_replicas = plan.num_replicas, .rank = plan.replica}),
//       data::stack_tensors);
template <typename D>
class SlicedDataset {
 public:
  SlicedDataset(D dataset, SampleSlice slice, double fill = 0)
      : dataset_(std::move(dataset)), slice_(std::move(slice)), fill_(fill) {}

  std::int64_t size() const {
    return static_cast<std::int64_t>(dataset_.size());
  }

  at::Tensor get(std::int64_t index) const {
    if constexpr (PartialDataset<D>) {
      return fill_around(dataset_.get_part(index, slice_.read), slice_, fill_);
    } else {
      return cut_sample(dataset_.get(index), slice_, fill_);
    }
  }

 private:
  D dataset_;
  SampleSlice slice_;
  double fill_;
};

} // namespace argosy
