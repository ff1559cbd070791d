#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>

#include "argosy/rpc/message.h"

namespace argosy::ps {

// Floats that become a part of a message; not initialised, since a table fills
// all of them.
class FloatBuffer {
 public:
  explicit FloatBuffer(std::size_t size)
      : data_(std::make_shared_for_overwrite<float[]>(size)), size_(size) {}
  explicit FloatBuffer(std::span<const float> values)
      : FloatBuffer(values.size()) {
    std::copy(values.begin(), values.end(), data_.get());
  }

  std::span<float> span() { return {data_.get(), size_}; }

  rpc::Bytes bytes() const {
    return {
        reinterpret_cast<const std::byte*>(data_.get()),
        size_ * sizeof(float),
        data_};
  }

 private:
  std::shared_ptr<float[]> data_;
  std::size_t size_;
};

} // namespace argosy::ps
