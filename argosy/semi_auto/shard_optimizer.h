#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "argosy/offload/options.h"

#include "argosy/semi_auto/sent_gradients.h"
#include "argosy/semi_auto/stages.h"

namespace at {
class Tensor;
}
namespace torch::optim {
class Optimizer;
}

namespace argosy {

// Runs an optimizer on this rank's shards of DTensor parameters.
//
//   torch::optim::AdamW adam(model->parameters());
//   auto optimizer = shard_optimizer(adam, ShardingStage2());
//   loss.backward(); optimizer.step(); optimizer.zero_grad();
//
// The stage decides how optimizer states and gradients are sharded. step()
// reshards gradients accordingly, steps, and restores the placements of the
// parameters. Optimizers with an elementwise update (SGD, Adam, AdamW, Adagrad,
// RMSprop, and those of argosy::optim except Lamb and Lars) run on the plain
// local tensors, so fused kernels apply; others run on DTensors.
//
// Instead of a stage, a function may say where the states of each parameter
// are:
//
//   auto optimizer = shard_optimizer(adam, [](const at::Tensor& parameter) {
//     return parameter.dim() == 2 ? Placements{Shard(1)}
//                                 : placements_of(parameter);
//   });
//
// Or a function places each accumulator by itself, as in Paddle:
//
//   auto optimizer = shard_optimizer(
//       adam,
//       [](const std::string& name, const at::Tensor& parameter,
//          const at::Tensor& accumulator) {
//         return name == "exp_avg" ? reshard(accumulator, {Shard(0)})
//                                  : accumulator;
//       });
//
// The optimizer keeps its options and its states, which are sharded here if it
// has stepped before. It must outlive this object. All ranks of the mesh call
// the same methods in the same order.

// The placements of a parameter's optimizer states, all alike, and of its
// gradient in step(). Partial has no meaning there.
using ShardStatesFn = std::function<Placements(const at::Tensor& parameter)>;

// Returns an accumulator, a DTensor of the shape of its parameter, where it is
// to be: called once for each, in the order of the parameters, with a name of
// torch ("momentum_buffer", "exp_avg", "exp_avg_sq", "max_exp_avg_sq", "sum",
// "square_avg", "grad_avg"). Optimizers of torch::optim (SGD, Adam, AdamW,
// Adagrad, RMSprop) then run on DTensors, and each op of an update moves what
// is elsewhere. Those of argosy::optim update an element in one pass: all
// accumulators of a parameter must be in the same place, and gradients go
// there.
using ShardAccumulatorFn = std::function<at::Tensor(
    const std::string& name,
    const at::Tensor& parameter,
    const at::Tensor& accumulator)>;

// Shards that are kept in a file which is mapped into memory, so that their
// pages leave memory while nobody uses them; none: in memory.
struct OffloadedShards {
  std::optional<offload::OffloadOptions> parameters; // stage 3
  std::optional<offload::OffloadOptions> gradients;  // stages 2 and 3
};

class ShardOptimizer {
 public:
  // Throws InvalidArgument when a parameter is not a DTensor, when parameters
  // are on several meshes, when the stage does not shard what is offloaded, or
  // when the optimizer has stepped and its states are
  // not known.
  ShardOptimizer(
      torch::optim::Optimizer& optimizer,
      ShardingStage stage,
      const OffloadedShards& offloaded = {});
  ShardOptimizer(
      torch::optim::Optimizer& optimizer, const ShardStatesFn& shard_fn);
  // Throws InvalidArgument, too, when the accumulators of the optimizer are not
  // known.
  ShardOptimizer(
      torch::optim::Optimizer& optimizer, const ShardAccumulatorFn& shard_fn);
  ~ShardOptimizer();
  ShardOptimizer(ShardOptimizer&&) noexcept;
  ShardOptimizer& operator=(ShardOptimizer&&) = delete;

  // From now on, gradients are sent so; all ranks alike.
  void send_gradients(SentGradients sent);

  void step();
  // Releases all gradients.
  void zero_grad();

  // The two halves of step() around optimizer().step(), for callers that decide
  // in between whether to step: reshard gradients to the placements of the
  // states, and copy the updated values to the parameters.
  void reshard_gradients();
  void update_parameters();

  torch::optim::Optimizer& optimizer();
  const ProcessMesh& mesh() const;

 private:
  struct Impl;

  std::unique_ptr<Impl> impl_;
};

inline ShardOptimizer shard_optimizer(
    torch::optim::Optimizer& optimizer,
    ShardingStage stage = {},
    const OffloadedShards& offloaded = {}) {
  return {optimizer, std::move(stage), offloaded};
}
inline ShardOptimizer shard_optimizer(
    torch::optim::Optimizer& optimizer, const ShardStatesFn& shard_fn) {
  return {optimizer, shard_fn};
}
inline ShardOptimizer shard_optimizer(
    torch::optim::Optimizer& optimizer, const ShardAccumulatorFn& shard_fn) {
  return {optimizer, shard_fn};
}

} // namespace argosy
