// Dropout of whole channels. LibTorch makes its noise from the options of the
// input, which would be a plain tensor that every rank fills by itself.

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>

#include <cmath>

#include "argosy/common/error.h"
#include "argosy/dtensor/layout/layout.h"
#include "argosy/dtensor/ops/families.h"
#include "argosy/torch_hooks/wrapper_tensor.h"

namespace argosy::dtensor {

namespace {

// A number for each channel of each sample, 1 where it is kept.
at::Tensor channel_noise(const at::Tensor& input, double p) {
  ARGOSY_CHECK(
      p >= 0 && p <= 1, "[dtensor.dropout] p {}, expected in [0, 1]", p);
  ARGOSY_CHECK(
      input.dim() >= 2,
      "[dtensor.dropout] a tensor of {} dims, expected samples and channels",
      input.dim());
  Shape shape(static_cast<std::size_t>(input.dim()), 1);
  shape[0] = input.size(0);
  shape[1] = input.size(1);
  return input.new_empty(shape).bernoulli_(1 - p);
}

bool keeps_all(const at::Tensor& input, double p, bool train) {
  return p == 0 || !train || input.numel() == 0;
}

at::Tensor feature_dropout(const at::Tensor& input, double p, bool train) {
  if (keeps_all(input, p, train)) {
    return input;
  }
  const at::Tensor noise = channel_noise(input, p);
  return input * (p == 1 ? noise : noise.div(1 - p));
}

at::Tensor& feature_dropout_(at::Tensor& input, double p, bool train) {
  if (!keeps_all(input, p, train)) {
    const at::Tensor noise = channel_noise(input, p);
    input.mul_(p == 1 ? noise : noise.div(1 - p));
  }
  return input;
}

// What is dropped becomes the value that SELU tends to; then mean and deviation
// are made what they were.
struct AlphaNoise {
  at::Tensor factor;
  at::Tensor offset;

  AlphaNoise(const at::Tensor& kept, double p) {
    constexpr double kAlpha = 1.7580993408473766;
    if (p == 1) {
      factor = kept;
      offset = kept;
      return;
    }
    const double a = 1 / std::sqrt((kAlpha * kAlpha * p + 1) * (1 - p));
    factor = kept * a;
    offset = (kept - 1) * (kAlpha * a) + kAlpha * a * p;
  }
};

at::Tensor feature_alpha_dropout(
    const at::Tensor& input, double p, bool train) {
  if (keeps_all(input, p, train)) {
    return input;
  }
  const AlphaNoise noise(channel_noise(input, p), p);
  return input * noise.factor + noise.offset;
}

at::Tensor& feature_alpha_dropout_(at::Tensor& input, double p, bool train) {
  if (!keeps_all(input, p, train)) {
    const AlphaNoise noise(channel_noise(input, p), p);
    input.mul_(noise.factor).add_(noise.offset);
  }
  return input;
}

} // namespace

void add_dropout_kernels(torch_hooks::WrapperKernels& kernels) {
  for (torch::Library* library : {&kernels.below, &kernels.autograd}) {
    library->impl("feature_dropout", &feature_dropout);
    library->impl("feature_dropout_", &feature_dropout_);
    library->impl("feature_alpha_dropout", &feature_alpha_dropout);
    library->impl("feature_alpha_dropout_", &feature_alpha_dropout_);
  }
}

} // namespace argosy::dtensor
