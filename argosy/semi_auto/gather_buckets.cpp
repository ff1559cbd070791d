#include "argosy/semi_auto/gather_buckets.h"

#include <ATen/core/Tensor.h>

#include <numeric>

#include "argosy/data_parallel/bucket_plan.h"
#include "argosy/training/parameter_marks.h"

namespace argosy::semi_auto {

std::vector<Tensors> buckets_of(const Tensors& parameters, std::size_t bytes) {
  std::vector<training::ParameterInfo> infos;
  for (const at::Tensor& each : parameters) {
    infos.push_back(
        {.count = each.numel(),
         .element = static_cast<std::size_t>(each.element_size()),
         .type = c10::toString(each.scalar_type()),
         .comm_fusion = marks_of(each).comm_fusion});
  }
  std::vector<std::size_t> order(parameters.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::vector<Tensors> buckets;
  for (const training::Bucket& bucket :
       data_parallel::plan_buckets(
           infos, order, {.bytes = bytes, .last_bytes = bytes})
           .buckets) {
    buckets.emplace_back();
    for (const training::BucketEntry& entry : bucket.entries) {
      buckets.back().push_back(parameters[entry.parameter]);
    }
  }
  return buckets;
}

} // namespace argosy::semi_auto
