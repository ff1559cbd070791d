#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>

#include "argosy/rpc/buffer_pool.h"
#include "argosy/rpc/message.h"

namespace argosy::ps {

// Floats that become a part of a message; not initialised, since a table fills
// all of them. The pool gets their memory back: fresh memory of this size costs
// as much as what it is for.
class FloatBuffer {
 public:
  FloatBuffer(rpc::BufferPool& pool, std::size_t size)
      : data_(pool.take(size * sizeof(float))), size_(size) {}
  FloatBuffer(rpc::BufferPool& pool, std::span<const float> values)
      : FloatBuffer(pool, values.size()) {
    std::copy(values.begin(), values.end(), span().begin());
  }

  std::span<float> span() {
    return {reinterpret_cast<float*>(data_.get()), size_};
  }

  rpc::Bytes bytes() const {
    return {data_.get(), size_ * sizeof(float), data_};
  }

 private:
  std::shared_ptr<std::byte> data_;
  std::size_t size_;
};

} // namespace argosy::ps
