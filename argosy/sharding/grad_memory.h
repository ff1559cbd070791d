#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "argosy/comm/ops.h"
#include "argosy/data_parallel/bucket_hook.h"
#include "argosy/sharding/buffer_pool.h"
#include "argosy/sharding/shard_memory.h"
#include "argosy/sharding/unit.h"
#include "argosy/training/gradient_reduction.h"

namespace argosy::sharding {

struct GradOptions {
  GroupPtr group;
  // The ranks of other groups that own the same slices as this one; gradients
  // are averaged over them too. Null: none.
  GroupPtr replicas;
  // The same for parameters of experts. Their gradients are sums over
  // `expert_ranks` ranks, and are divided by that number.
  GroupPtr expert_replicas;
  int expert_ranks = 1;
  // Keep memory for whole gradients all the time (ZeRO 1), so that passes
  // without sync accumulate there.
  bool keeps_whole = false;
  // A step may leave parameters without a gradient.
  bool find_unused_parameters = false;
  // Accumulate and reduce gradients of 16-bit parameters in float32.
  bool main_grad = false;
  // The type in which wider gradients are sent. None: their own.
  std::optional<c10::ScalarType> sent_type;
  // With keeps_whole: averages the whole gradients over `group`. Null: a
  // reduce_scatter does.
  std::shared_ptr<data_parallel::BucketHook> hook;
};

// Owns the gradients of a sharded model. During backward, the gradients of a
// bucket are copied into one buffer. When all have arrived, a reduce_scatter
// leaves each rank its slice of the averages, and the buffer is free again.
// Slices accumulate until zero_grad(). training::GradientReduction decides when
// a bucket is reduced.
//
// A pass that throws leaves the slices as they were. Errors come out of
// backward().
class GradMemory final : private training::BucketReducer {
 public:
  // `on_complete` is called with a unit when all its gradients have arrived.
  GradMemory(
      std::vector<Unit>& units,
      const std::vector<ParameterInfo>& parameters,
      std::shared_ptr<BufferPool> pool,
      std::shared_ptr<ShardMemory> shards,
      GradOptions options,
      std::function<void(std::size_t)> on_complete);
  ~GradMemory() override;
  GradMemory(const GradMemory&) = delete;
  GradMemory& operator=(const GradMemory&) = delete;

  // The pieces of parameters that this rank steps, each with its gradient after
  // backward. Always the same tensors.
  const std::vector<std::pair<Piece, at::Tensor>>& pieces() const {
    return pieces_;
  }

  void zero_grad();

  // For sync, recover() and reduce().
  training::GradientReduction& reduction() { return *reduction_; }
  const training::GradientReduction& reduction() const { return *reduction_; }

 private:
  // The gradients of one bucket.
  struct BucketState {
    std::size_t unit = 0;
    bool is_expert = false;
    std::int64_t count = 0; // elements of the whole
    c10::ScalarType type = c10::kFloat;
    at::Tensor whole; // undefined while no gradients come in
    at::Tensor part;  // this rank's slice of the reduced gradients
    std::vector<std::size_t> pieces;  // indices into pieces_
    data_parallel::GradBucket hooked; // with a hook: `whole`, as it takes it

    // Of the current pass.
    // keeps_whole: a copy of what `part` had before. Otherwise: what this pass
    // adds to `part`.
    at::Tensor incoming;
    // With sent_type: the gradients as they are sent, and this rank's slice of
    // the average.
    at::Tensor sent;
    at::Tensor received;
    WorkPtr reducing;
    bool is_in_hook = false; // between start() and finish()
    WorkPtr averaging;       // over replicas
  };

  struct Parameter {
    std::string name;
    at::Tensor tensor; // undefined if it does not train
    std::size_t bucket = 0;
    std::int64_t begin = 0; // in the bucket
    std::optional<std::size_t> piece;
  };

  void add(std::size_t unit, const ShardedBucket& bucket);
  void make_pieces(BucketState& state, const ShardedBucket& bucket);
  training::GradientSchedule schedule_of_buckets() const;
  void keep(Parameter& parameter);
  void retire_oldest();
  void discard(BucketState& bucket);
  at::Tensor& whole_of(BucketState& bucket);
  void start_reducing(BucketState& bucket, const at::Tensor& out);
  void end_reducing(BucketState& bucket);
  at::Tensor fresh_part(const BucketState& bucket) const;
  bool has_gradient(const BucketState& bucket) const;

  void take(std::size_t index) override;
  void accumulate(std::size_t index) override;
  void on_full(std::size_t index) override;
  void launch(std::size_t index) override;
  void finish() override;
  void publish(std::size_t index) override;
  training::GradientSchedule reschedule(
      const std::vector<std::size_t>& arrivals) override;
  void abandon() noexcept override;

  const std::shared_ptr<BufferPool> pool_;
  const std::shared_ptr<ShardMemory> shards_;
  const GradOptions options_;
  const std::function<void(std::size_t)> on_complete_;

  std::vector<BucketState> buckets_;
  std::vector<Parameter> parameters_; // numbered as the plan does
  std::vector<std::pair<Piece, at::Tensor>> pieces_;
  std::vector<at::Tensor> piece_grads_; // views of `part`, by piece
  std::deque<std::size_t> in_flight_;   // indices into buckets_
  std::optional<training::GradientReduction> reduction_;
};

} // namespace argosy::sharding
