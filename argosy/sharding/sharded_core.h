#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "argosy/comm/ops.h"
#include "argosy/offload/options.h"
#include "argosy/sharding/unit_plan.h"
#include "argosy/training/parallel_model.h"

namespace argosy::sharding {

// What is spread over the ranks.
enum class Level {
  os,     // states of the optimizer (ZeRO 1)
  os_g,   // and gradients (ZeRO 2)
  p_g_os, // and parameters (ZeRO 3)
};

// By its name. Throws InvalidArgument when there is none such.
Level level_of(const std::string& name);
const char* to_string(Level level);

struct ShardingOptions {
  GroupPtr group; // null: all ranks
  // The ranks at the same place of other groups, which have other data: their
  // gradients are averaged too. Null: there are none.
  GroupPtr dp_group;
  // Those of them that have the same experts; null: there are none. Gradients
  // of experts, which have seen tokens of all of dp_group, are averaged over
  // these, and divided by how many times more dp_group has.
  GroupPtr expert_dp_group;
  // Buffers (running statistics) are those of the first rank at every forward.
  bool sync_buffers = false;
  // Bytes that are communicated together, for os and os_g.
  std::size_t buffer_max_size = std::size_t{1} << 23;
  // For p_g_os: modules that are gathered as one; see members_by_module(). What
  // has less than segment_size bytes goes with its neighbour.
  std::vector<std::string> units;
  std::size_t segment_size = std::size_t{1} << 18;
  // For p_g_os: modules whose parameters stay whole on every rank.
  std::vector<std::string> exclude_layer;
  // Set when a step may leave parameters without a gradient.
  bool find_unused_parameters = false;
  // Gradients of 16-bit parameters add up and are reduced in float32: those of
  // the parts are float32 tensors then, which optimizers of argosy::optim take.
  bool main_grad = false;
  // Where states of the optimizer are between steps; none: in memory. Needs an
  // optimizer of argosy::optim. With offload_params and offload_grads, parts of
  // parameters (p_g_os) and of gradients (os_g, p_g_os) are there too, in a
  // file that is mapped into memory.
  std::optional<offload::OffloadOptions> offload;
  bool offload_params = false;
  bool offload_grads = false;
  // Memory of large tensors is kept for the next step; see
  // keep_tensor_memory().
  bool keep_memory = true;
};

// A part of a parameter that this rank steps. `tensor` is the part, in one
// dimension, with its gradient after backward.
struct OwnPiece {
  std::string name; // of the parameter
  at::Tensor param; // the whole, for its shape
  Piece place;
  at::Tensor tensor;
};

// What sharding does around a module, without its type.
class ShardedCore final : public training::ModelCore {
 public:
  ShardedCore(torch::nn::Module& module, Level level, ShardingOptions options);
  ~ShardedCore() override;

  void before_forward() override;
  void after_forward(const Tensors& outputs) override;
  void set_sync(bool sync) override;
  bool sync() const override;
  void zero_grad() override;
  void reduce_gradients() override;

  Level level() const;
  const GroupPtr& group() const;
  const GroupPtr& dp_group() const;
  const ShardingOptions& options() const;
  torch::nn::Module& module() const;
  const std::vector<UnitPlan>& plan() const;
  const std::vector<ParameterInfo>& parameters() const;
  const std::vector<OwnPiece>& pieces() const;

  // Around a step of the optimizer. A forward does what after_step() does when
  // nobody has.
  void before_step();
  void after_step();

  void begin_whole() override;
  void end_whole() override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace argosy::sharding
