#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace at {
class Tensor;
}

namespace argosy::optim {

// Keeps the state of a FusedOptimizer between steps; see
// FusedOptimizer::set_state_store(). The state of consecutive parameters is in
// one buffer, and a step fetches one buffer after the other.
class StateStore {
 public:
  virtual ~StateStore() = default;

  // The maximum size of a buffer, unless the state of one parameter is larger.
  virtual std::int64_t buffer_bytes() const = 0;

  // Replaces all buffers by new ones of these sizes. Called before the first
  // step, and after parameters were added.
  virtual void make_buffers(const std::vector<std::int64_t>& bytes) = 0;

  // Returns the memory of a buffer, of type kByte and aligned to cache lines,
  // with the bytes that it had when it was put back. Valid until put_back().
  // One buffer is out at a time. `written`: the bytes have changed.
  virtual at::Tensor fetch(std::size_t buffer) = 0;
  virtual void put_back(std::size_t buffer, bool written) = 0;
};

} // namespace argosy::optim
