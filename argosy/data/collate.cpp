#include "argosy/data/collate.h"

// First: clang wants IValue complete where lists of it are declared.
#include <ATen/core/ivalue.h>

#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>

#include <algorithm>

#include "argosy/common/error.h"

namespace argosy::data {

namespace {

void check_same_size(std::size_t size, std::size_t expected) {
  ARGOSY_CHECK(
      size == expected,
      "[data.collate] a sample of {} values, expected {} as in the first of "
      "the batch",
      size,
      expected);
}

template <typename Sample>
const Sample& first_of(const std::vector<Sample>& samples) {
  ARGOSY_CHECK(
      !samples.empty(), "[data.collate] no samples, expected 1 or more");
  return samples.front();
}

} // namespace

at::Tensor stack_tensors(const std::vector<at::Tensor>& samples) {
  const at::Tensor& first = first_of(samples);
  for (const at::Tensor& sample : samples) {
    ARGOSY_CHECK(
        sample.sizes() == first.sizes() && sample.dtype() == first.dtype(),
        "[data.collate] a sample of shape {} and type {}, expected {} and {} "
        "as the first of the batch",
        sample.sizes(),
        sample.dtype(),
        first.sizes(),
        first.dtype());
  }
  return at::stack(samples);
}

Example stack_examples(const std::vector<Example>& samples) {
  std::vector<at::Tensor> inputs;
  std::vector<at::Tensor> targets;
  for (const Example& sample : samples) {
    inputs.push_back(sample.input);
    targets.push_back(sample.target);
  }
  return {stack_tensors(inputs), stack_tensors(targets)};
}

Example stack_images(const std::vector<ImageSample>& samples) {
  const ImageSample& first = first_of(samples);
  const auto count = static_cast<std::int64_t>(samples.size());
  Example batch{
      at::empty({count, 1, first.rows, first.columns}, at::kFloat),
      at::empty({count}, at::kLong)};
  // One pass that converts and copies, without a tensor for each sample.
  auto* pixels = batch.input.data_ptr<float>();
  auto* labels = batch.target.data_ptr<std::int64_t>();
  for (const ImageSample& sample : samples) {
    check_same_size(sample.pixels.size(), first.pixels.size());
    pixels = std::transform(
        sample.pixels.begin(),
        sample.pixels.end(),
        pixels,
        [](std::uint8_t value) { return static_cast<float>(value) / 255.0F; });
    *labels++ = sample.label;
  }
  return batch;
}

Example stack_windows(const std::vector<TokenWindow>& samples) {
  const auto count = static_cast<std::int64_t>(samples.size());
  const auto length =
      static_cast<std::int64_t>(first_of(samples).input().size());
  Example batch{
      at::empty({count, length}, at::kLong),
      at::empty({count, length}, at::kLong)};
  auto* input = batch.input.data_ptr<std::int64_t>();
  auto* target = batch.target.data_ptr<std::int64_t>();
  for (const TokenWindow& sample : samples) {
    check_same_size(sample.tokens.size(), samples.front().tokens.size());
    input = std::ranges::copy(sample.input(), input).out;
    target = std::ranges::copy(sample.target(), target).out;
  }
  return batch;
}

} // namespace argosy::data
