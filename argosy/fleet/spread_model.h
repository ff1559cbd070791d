#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "argosy/dtensor/layout/placement.h"
#include "argosy/fleet/model.h"
#include "argosy/fleet/spread_gradients.h"
#include "argosy/mesh/process_mesh.h"
#include "argosy/semi_auto/sent_gradients.h"
#include "argosy/training/main_grads.h"

// Models that parallelize() has spread over a mesh: their parameters are
// DTensors, so the ops themselves communicate.
namespace argosy::fleet {

bool is_spread(const torch::nn::Module& module);

// prepare_model() for such a module. Throws InvalidArgument when it is not on
// the mesh of the strategy, or for settings that have no meaning for it.
ModelSetup prepare_spread_model(
    torch::nn::Module& module,
    const DistributedStrategy& strategy,
    const Axes& axes,
    std::shared_ptr<Registry> registry);

// What happens around such a module. Gradients stay partial sums until the
// optimizer needs them, so there is nothing to switch for no_sync().
class SpreadCore final : public training::ModelCore {
 public:
  SpreadCore(torch::nn::Module& module, const SpreadSetup& setup);

  void before_forward() override {}
  void after_forward(const Tensors& /*outputs*/) override {}
  void set_sync(bool sync) override { sync_ = sync; }
  bool sync() const override { return sync_; }
  void zero_grad() override;
  void reduce_gradients() override;
  Memory memory() const override;
  void set_memory(const Memory& memory) override;

  // Before a step: compresses the gradients of the parameters that `is_wanted`
  // chooses, if the strategy says so. They are whole sums afterwards.
  void compress_gradients(
      const std::function<bool(const at::Tensor& parameter)>& is_wanted);

  // In between, parameters and buffers are plain tensors.
  void begin_whole() override;
  void end_whole() override;

  // This rank's part of a batch as part of a DTensor, and of a DTensor this
  // rank's part. Gradients of a loss of that part count as those of a mean over
  // the ranks with their own data. A number (0 dims) is the same on all ranks.
  at::Tensor enter(const at::Tensor& part) const;
  at::Tensor leave(const at::Tensor& output) const;

 private:
  const ProcessMesh mesh_;
  const Placements batch_; // of inputs and outputs
  const std::int64_t num_parts_;
  std::vector<at::Tensor> parameters_;
  std::vector<at::Tensor> buffers_;
  std::vector<at::Tensor> spread_; // what those were, between the two
  const SentGradients sent_;
  std::optional<training::MainGrads> main_grads_;
  std::optional<SpreadGradients> compressed_; // none: sums as they are
  bool sync_ = true;
};

} // namespace argosy::fleet
