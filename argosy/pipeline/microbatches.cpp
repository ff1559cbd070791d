#include "argosy/pipeline/microbatches.h"

#include "argosy/common/error.h"

namespace argosy::pipeline {

std::vector<Microbatch> split_batch(
    const Tensors& inputs, const Tensors& labels, int microbatches) {
  std::vector<Microbatch> result(static_cast<std::size_t>(microbatches));
  const auto split = [&](const Tensors& tensors, Tensors Microbatch::*field) {
    for (const at::Tensor& each : tensors) {
      ARGOSY_CHECK(
          each.dim() > 0 && each.size(0) % microbatches == 0,
          "[pipeline] a batch of {} rows, expected a multiple of {} "
          "microbatches; forward_backward() of microbatches takes any sizes, "
          "and counts each alike in the mean",
          each.dim() > 0 ? each.size(0) : 0,
          microbatches);
      const std::int64_t size = each.size(0) / microbatches;
      for (int i = 0; i < microbatches; ++i) {
        (result[static_cast<std::size_t>(i)].*field)
            // A view: splitting copies no data.
            .push_back(each.narrow(0, i * size, size));
      }
    }
  };
  split(inputs, &Microbatch::inputs);
  split(labels, &Microbatch::labels);
  return result;
}

} // namespace argosy::pipeline
