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

// States of an optimizer in an OffloadTier: while one bucket is updated, the
// next is read and the one before is written.
class OffloadedStates final : public optim::StateStore {
 public:
  explicit OffloadedStates(
      OffloadOptions options, std::int64_t bucket_bytes = 32 << 20);
  ~OffloadedStates() override;

  std::int64_t bucket_bytes() const override { return bucket_bytes_; }
  void make_buckets(const std::vector<std::int64_t>& bytes) override;
  at::Tensor fetch(std::size_t bucket) override;
  void put_back(std::size_t bucket, bool written) override;

  OffloadStats stats() const;

 private:
  const OffloadOptions options_;
  const std::int64_t bucket_bytes_;
  std::unique_ptr<OffloadTier> tier_;
  std::vector<std::size_t> slots_; // of buckets; none for empty ones
};

// Puts the states of an optimizer into a tier: averages, and masters of 16-bit
// parameters. Its steps give the same bits as before.
//
// A bucket is at least one parameter. So a flat shard, which is one tensor, is
// handed to the optimizer in pieces, each with its part of the gradient:
//
//   std::vector<at::Tensor> pieces = pieces_of(shard, shard_grad, 4 << 20);
//   optim::AdamW adam(pieces);
//   auto states = offload_states(adam, {.offload_path = "/scratch"});
//   ...
//   adam.step();   // reads and writes `shard` in place
//
// Optimizers that look at the norm of a parameter (Lamb, Lars) see pieces as
// parameters.
std::shared_ptr<OffloadedStates> offload_states(
    optim::FusedOptimizer& optimizer,
    OffloadOptions options,
    std::int64_t bucket_bytes = 32 << 20);

// Views of a flat tensor, of `numel` elements at most, with views of `grad` as
// their gradients.
std::vector<at::Tensor> pieces_of(
    const at::Tensor& flat, const at::Tensor& grad, std::int64_t numel);

} // namespace argosy::offload
