#pragma once

#include <cstdint>
#include <memory>

#include "argosy/offload/options.h"
#include "argosy/optim/state_store.h"

namespace argosy::optim {
class FusedOptimizer;
}

namespace argosy::offload {

class OffloadTier;

// Keeps the state of an optimizer in an OffloadTier. While one buffer is
// updated, the next is read and the previous one is written.
class OffloadedStates final : public optim::StateStore {
 public:
  explicit OffloadedStates(
      OffloadOptions options, std::int64_t buffer_bytes = 32 << 20);
  ~OffloadedStates() override;

  std::int64_t buffer_bytes() const override { return buffer_bytes_; }
  void make_buffers(const std::vector<std::int64_t>& bytes) override;
  at::Tensor fetch(std::size_t buffer) override;
  void put_back(std::size_t buffer, bool written) override;

  OffloadStats stats() const;

 private:
  const OffloadOptions options_;
  const std::int64_t buffer_bytes_;
  std::unique_ptr<OffloadTier> tier_;
  std::vector<std::size_t> slots_; // of buffers
};

// Moves the state of an optimizer (averages, and master weights of 16-bit
// parameters) into a tier. Steps give the same bits as without.
//
// A buffer holds the state of at least one parameter. So pass a large flat
// tensor to the optimizer in pieces, each with its part of the gradient:
//
//   std::vector<at::Tensor> pieces = pieces_of(shard, shard_grad, 4 << 20);
//   optim::AdamW adam(pieces);
//   auto states = offload_states(adam, {.offload_path = "/scratch"});
//   ...
//   adam.step();   // reads and writes `shard` in place
//
// Optimizers that use the norm of a parameter (Lamb, Lars) treat each piece as
// a parameter.
std::shared_ptr<OffloadedStates> offload_states(
    optim::FusedOptimizer& optimizer,
    OffloadOptions options,
    std::int64_t buffer_bytes = 32 << 20);

// Splits a flat tensor into views of up to `numel` elements, with views of
// `grad` as their gradients.
std::vector<at::Tensor> pieces_of(
    const at::Tensor& flat, const at::Tensor& grad, std::int64_t numel);

} // namespace argosy::offload
