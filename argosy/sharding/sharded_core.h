#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "argosy/comm/ops.h"
#include "argosy/offload/options.h"
#include "argosy/sharding/unit_plan.h"
#include "argosy/training/parallel_model.h"

namespace argosy::data_parallel {
class BucketHook;
}

namespace argosy::sharding {

// What is sharded over the ranks.
enum class Level {
  os,     // optimizer state (ZeRO 1)
  os_g,   // optimizer state and gradients (ZeRO 2)
  p_g_os, // optimizer state, gradients and parameters (ZeRO 3)
};

// The level called "os", "os_g" or "p_g_os". Throws InvalidArgument for other
// names.
Level level_of(const std::string& name);
const char* to_string(Level level);

struct ShardingOptions {
  // The ranks over which the state is sharded. Null: all ranks.
  GroupPtr group;
  // The ranks that hold the same shards in other groups. They train on other
  // data, and gradients are averaged over them too. Null: there are none.
  GroupPtr dp_group;
  // The ranks of dp_group that hold the same experts; null: there are none.
  // Gradients of experts come from the tokens of all of dp_group. They are
  // averaged over this group and divided by the ratio of the groups' sizes.
  GroupPtr expert_dp_group;
  // The tensor parallel ranks of this one. For p_g_os and a model that was
  // built under DeferredInit: parameters that are not split over them start
  // with the values of the first of them. Null: there are none.
  GroupPtr mp_group;
  // Broadcast the buffers (running statistics) of the first rank at every
  // forward in grad mode.
  bool sync_buffers = false;
  // For os and os_g: bytes that are communicated in one call.
  std::size_t buffer_max_size = std::size_t{1} << 23;
  // For p_g_os: the modules that are gathered as one unit; see
  // members_by_module(). A unit smaller than segment_size bytes joins its
  // neighbour.
  std::vector<std::string> units;
  std::size_t segment_size = std::size_t{1} << 18;
  // For p_g_os: modules whose parameters stay whole on every rank.
  std::vector<std::string> exclude_layer;
  // Set it if a step may leave parameters without a gradient. They count as
  // zeros. A parameter that no rank has used keeps the gradient that it had.
  bool find_unused_parameters = false;
  // Send gradients as this type, kHalf or kBFloat16, if that is narrower than
  // theirs. The average is rounded once in each group. None: as they are.
  std::optional<c10::ScalarType> sent_type;
  // For os: how gradients are averaged over `group`, such as power_sgd()
  // (data_parallel/compression.h). What is kept for later steps is whole on
  // every rank. Each rank makes its own, with the same options. Null: a
  // reduce_scatter.
  std::shared_ptr<data_parallel::BucketHook> hook;
  // Local SGD: gradients are averaged over `group` and not over `dp_group`. Who
  // sets it averages the pieces over dp_group every few steps; see
  // optim::LocalSgd.
  bool is_local = false;
  // Accumulate and reduce gradients of 16-bit parameters in float32. The
  // gradients of the pieces are then float32 tensors, which optimizers of
  // argosy::optim accept.
  bool main_grad = false;
  // Where optimizer state is between steps; none: in memory. Needs an optimizer
  // of argosy::optim. offload_params and offload_grads also keep the shards of
  // parameters (p_g_os) and gradients (os_g, p_g_os) there, in a file that is
  // mapped into memory.
  std::optional<offload::OffloadOptions> offload;
  bool offload_params = false;
  bool offload_grads = false;
  // Keep the memory of large tensors for the next step; see
  // keep_tensor_memory().
  bool keep_memory = true;
};

// The piece of a parameter that this rank's optimizer updates.
struct OwnPiece {
  std::string name; // of the parameter
  at::Tensor param; // the parameter itself
  Piece place;
  at::Tensor tensor; // one-dimensional; has the gradient after backward
};

// The part of ShardedModel that does not depend on the type of the module. All
// ranks construct it alike, which blocks; they then have the first rank's
// values. A module that was built under DeferredInit gets its values here, with
// p_g_os one parameter after the other. Throws InvalidArgument, on all ranks,
// if their parameters differ in name, shape or type.
//
// If backward throws on all ranks, the gradients of earlier passes stay as they
// were, and the next step works. If it throws on some ranks only, all ranks get
// an error in this step or the next.
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
  bool keeps_gradient_parts() const override;
  void reduce_gradients_early(const Tensors& whole) override;
  Memory memory() const override;
  void set_memory(const Memory& memory) override;

  Level level() const;
  const GroupPtr& group() const;
  const GroupPtr& dp_group() const;
  const ShardingOptions& options() const;
  torch::nn::Module& module() const;
  const std::vector<UnitPlan>& plan() const;
  const std::vector<ParameterInfo>& parameters() const;
  const std::vector<OwnPiece>& pieces() const;

  // Call them around a step of the optimizer. after_step() is collective. If
  // the wrapped optimizer was stepped directly, the next forward does what
  // after_step() does.
  void before_step();
  void after_step();

  void settle() override;
  void begin_whole() override;
  void end_whole() override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

} // namespace argosy::sharding
