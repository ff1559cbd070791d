#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "argosy/comm/ops.h"
#include "argosy/sharding/buffer_pool.h"
#include "argosy/sharding/flat.h"
#include "argosy/sharding/shard_memory.h"
#include "argosy/torch_hooks/grad_hook.h"

namespace argosy::sharding {

struct GradOptions {
  GroupPtr group;
  // Ranks that have the same part as this one, which average theirs; null for
  // none.
  GroupPtr replicas;
  // The same for parameters of experts, whose gradients are those of the sum of
  // so many ranks' losses.
  GroupPtr expert_replicas;
  int expert_ranks = 1;
  // Whole gradients have memory of their own, and stay there between the
  // backward passes that are not reduced.
  bool keeps_whole = false;
  // A step may leave parameters without a gradient.
  bool find_unused_parameters = false;
  // Gradients of 16-bit parameters add up and are reduced in float32.
  bool main_grad = false;
};

// Where gradients are: while backward goes on, those of a unit are copied into
// one buffer; when all are there, each rank gets its part of the averages, and
// the buffer goes. Parts add up until they are zeroed.
//
// Units are reduced in the order in which the first backward had them complete
// on the group's first rank, so that all ranks do the same. Errors come out of
// backward().
class GradMemory {
 public:
  // `on_complete` is called with a unit when backward is done with it.
  GradMemory(
      std::vector<Unit>& units,
      const std::vector<ParameterInfo>& parameters,
      std::shared_ptr<BufferPool> pool,
      std::shared_ptr<ShardMemory> shards,
      GradOptions options,
      std::function<void(std::size_t)> on_complete);
  ~GradMemory();
  GradMemory(const GradMemory&) = delete;
  GradMemory& operator=(const GradMemory&) = delete;

  // Without, gradients stay local, whole, and add up.
  void set_sync(bool sync) { sync_ = sync; }
  bool sync() const { return sync_; }

  // The parts of parameters that this rank steps, each with its gradient after
  // backward. The same tensors always.
  const std::vector<std::pair<Piece, at::Tensor>>& pieces() const {
    return pieces_;
  }

  // Reduces what has added up without sync, outside of backward.
  void reduce();

  void zero_grad();
  void check_idle() const;

 private:
  struct FlatGrad;
  struct Parameter;

  void add(std::size_t unit, std::size_t flat);
  void make_pieces(FlatGrad& grad);
  void on_gradient(std::size_t parameter);
  void begin();
  void begin_backward();
  std::vector<std::size_t> expected_order() const;
  void keep(Parameter& parameter);
  void take(Parameter& parameter);
  void mark_complete(FlatGrad& grad);
  void start_in_order();
  void start(FlatGrad& grad);
  void retire_oldest();
  void finish_backward();
  void fill_unused();
  void share_used();
  void finish(FlatGrad& grad);
  void publish();
  void follow_observed_order();
  at::Tensor& whole_of(FlatGrad& grad);
  at::Tensor& fresh_part(FlatGrad& grad) const;
  bool has_gradient(const FlatGrad& grad) const;

  std::vector<Unit>& units_;
  const std::vector<ParameterInfo>& infos_;
  const std::shared_ptr<BufferPool> pool_;
  const std::shared_ptr<ShardMemory> shards_;
  const GradOptions options_;
  const std::function<void(std::size_t)> on_complete_;

  std::vector<FlatGrad> grads_;
  std::vector<Parameter> parameters_; // by the numbers of the plan
  std::vector<std::pair<Piece, at::Tensor>> pieces_;
  std::vector<std::size_t> order_; // of grads_
  bool order_is_known_ = false;
  bool sync_ = true;

  // Of the current backward.
  bool under_way_ = false;
  std::size_t next_ = 0; // in order_
  std::vector<std::size_t> observed_;
  std::deque<std::size_t> in_flight_; // of grads_
  at::Tensor used_;                   // of parameters, by any rank
};

} // namespace argosy::sharding
