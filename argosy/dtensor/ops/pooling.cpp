// Pooling, resizing and padding of images: batch and channels may be cut,
// spatial dims are whole.

#include <algorithm>

#include "argosy/dtensor/ops/dims.h"
#include "argosy/dtensor/ops/families.h"
#include "argosy/dtensor/ops/letters.h"

namespace argosy::dtensor {

namespace {

// All tensors have the same dims, of which the last `count` are spatial. The
// ops want some of all channels, and of the batch if there is none.
std::vector<Strategy> spatial(const OpCall& call, std::size_t count) {
  const std::size_t ndim = call.shape(0).size();
  if (ndim < count) {
    return {};
  }
  std::string letters = first_letters(ndim - count);
  for (std::size_t dim = 0; dim < letters.size(); ++dim) {
    const bool is_batch = dim == 0 && letters.size() > 1;
    if (!is_batch && may_leave_empty_parts(call, 0, dim)) {
      letters[dim] = '-';
    }
  }
  letters += std::string(count, '-');
  return by_letters(
      call,
      std::vector<std::string>(call.num_inputs(), letters),
      std::vector<std::string>(call.num_outputs(), letters));
}

template <std::size_t count>
std::vector<Strategy> spatial(const OpCall& call) {
  return spatial(call, count);
}

// The gradient of a resized image has the size that is given.
std::vector<Shape> given_shape(const OpCall& call) {
  return {call.integers("input_size")};
}

Arguments given_size(const OpCall&, const std::vector<Shape>& local_outs) {
  return {{"input_size", c10::IValue(local_outs[0])}};
}

// Adaptive ones are told the size of the result.
std::vector<Shape> adaptive_shape(const OpCall& call) {
  const Shape size = call.integers("output_size");
  Shape shape = call.shape(0);
  if (size.size() > shape.size()) {
    return {};
  }
  std::copy(size.rbegin(), size.rend(), shape.rbegin());
  return {shape};
}

// The last dim is named first, with what is before and after it.
std::vector<Shape> padded_shape(const OpCall& call) {
  const Shape padding = call.integers("padding");
  Shape shape = call.shape(0);
  if (padding.size() > 2 * shape.size()) {
    return {};
  }
  for (std::size_t i = 0; i < padding.size(); ++i) {
    shape[shape.size() - 1 - i / 2] += padding[i];
  }
  return {shape};
}

std::vector<Shape> shape_of_input(const OpCall& call) {
  return {call.shape(1)};
}

} // namespace

void add_pooling_rules(RuleTable& table) {
  table.add(
      "_adaptive_avg_pool2d",
      {.strategies = spatial<2>, .shapes = adaptive_shape});
  table.add(
      "_adaptive_avg_pool3d",
      {.strategies = spatial<3>, .shapes = adaptive_shape});
  table.add(
      "reflection_pad1d replication_pad1d",
      {.strategies = spatial<1>, .shapes = padded_shape});
  table.add(
      "reflection_pad2d replication_pad2d",
      {.strategies = spatial<2>, .shapes = padded_shape});
  table.add(
      "reflection_pad3d replication_pad3d",
      {.strategies = spatial<3>, .shapes = padded_shape});
  table.add(
      "max_pool2d_with_indices avg_pool2d adaptive_max_pool2d "
      "upsample_bicubic2d upsample_bilinear2d upsample_nearest2d "
      "_upsample_nearest_exact2d",
      {.strategies = spatial<2>});
  table.add(
      "max_pool2d_with_indices_backward avg_pool2d_backward "
      "_adaptive_avg_pool2d_backward adaptive_max_pool2d_backward "
      "reflection_pad2d_backward replication_pad2d_backward",
      {.strategies = spatial<2>, .shapes = shape_of_input});
  table.add(
      "upsample_bicubic2d_backward upsample_bilinear2d_backward "
      "upsample_nearest2d_backward _upsample_nearest_exact2d_backward",
      {.strategies = spatial<2>,
       .shapes = given_shape,
       .localize = given_size});
  table.add(
      "max_pool3d_with_indices avg_pool3d adaptive_max_pool3d "
      "upsample_nearest3d upsample_trilinear3d",
      {.strategies = spatial<3>});
  table.add(
      "max_pool3d_with_indices_backward avg_pool3d_backward "
      "_adaptive_avg_pool3d_backward adaptive_max_pool3d_backward "
      "reflection_pad3d_backward replication_pad3d_backward",
      {.strategies = spatial<3>, .shapes = shape_of_input});
  table.add(
      "upsample_nearest3d_backward upsample_trilinear3d_backward",
      {.strategies = spatial<3>,
       .shapes = given_shape,
       .localize = given_size});
  table.add("upsample_linear1d upsample_nearest1d", {.strategies = spatial<1>});
  table.add(
      "reflection_pad1d_backward replication_pad1d_backward",
      {.strategies = spatial<1>, .shapes = shape_of_input});
  table.add(
      "upsample_linear1d_backward upsample_nearest1d_backward",
      {.strategies = spatial<1>,
       .shapes = given_shape,
       .localize = given_size});
}

} // namespace argosy::dtensor
