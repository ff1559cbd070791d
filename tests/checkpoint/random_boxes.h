#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "argosy/checkpoint/tensor_info.h"

// Random shapes and boxes, and their elements one by one.
namespace argosy::checkpoint {

class RandomBoxes {
 public:
  explicit RandomBoxes(unsigned seed) : generator_(seed) {}

  // In [low, high].
  std::int64_t number(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(generator_);
  }

  Shape shape(std::int64_t most_dims, std::int64_t least, std::int64_t most) {
    Shape sizes(static_cast<std::size_t>(number(0, most_dims)));
    for (std::int64_t& size : sizes) {
      size = number(least, most);
    }
    return sizes;
  }

  Box box(const Shape& shape) {
    Box box = dtensor::whole(shape);
    for (std::size_t d = 0; d < shape.size(); ++d) {
      box.offset[d] = number(0, shape[d]);
      box.size[d] = number(0, shape[d] - box.offset[d]);
    }
    return box;
  }

  // Disjoint boxes that make up the whole: halves, of halves, ...
  std::vector<Box> partition(const Shape& shape, int cuts) {
    std::vector<Box> boxes = {dtensor::whole(shape)};
    for (int i = 0; i < cuts && !shape.empty(); ++i) {
      const auto at = static_cast<std::size_t>(
          number(0, static_cast<std::int64_t>(boxes.size()) - 1));
      const auto d = static_cast<std::size_t>(
          number(0, static_cast<std::int64_t>(shape.size()) - 1));
      Box second = boxes[at];
      boxes[at].size[d] = number(0, boxes[at].size[d]);
      second.offset[d] += boxes[at].size[d];
      second.size[d] -= boxes[at].size[d];
      boxes.push_back(second);
    }
    return boxes;
  }

 private:
  std::mt19937 generator_;
};

// The indices in a tensor of `shape` of the elements of a box, in its order.
inline std::vector<std::int64_t> elements(const Shape& shape, const Box& box) {
  std::vector<std::int64_t> found;
  const std::int64_t count = box.numel();
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i;
    std::int64_t index = 0;
    std::int64_t stride = 1;
    for (std::size_t d = shape.size(); d-- > 0;) {
      index += (box.offset[d] + rest % box.size[d]) * stride;
      rest /= box.size[d];
      stride *= shape[d];
    }
    found.push_back(index);
  }
  return found;
}

} // namespace argosy::checkpoint
