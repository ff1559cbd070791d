#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "argosy/comm/group.h"
#include "argosy/comm/ops.h"
#include "argosy/pipeline/schedule.h"
#include "argosy/recomputation/modules.h"

namespace torch::nn {
class Module;
}

namespace argosy::pipeline {

// Computes the loss of a microbatch from the last layer's outputs and the
// labels.
using LossFn =
    std::function<at::Tensor(const Tensors& outputs, const Tensors& labels)>;

// A parameter that several stages hold copies of.
struct SharedWeight {
  std::string name; // equal on all of them
  at::Tensor parameter;
  std::vector<int> stages; // ascending
};

// The parts (chunks) of a model that one stage of a pipeline holds.
class StageModel {
 public:
  virtual ~StageModel() = default;
  StageModel(const StageModel&) = delete;
  StageModel& operator=(const StageModel&) = delete;

  int stages() const { return group_->nranks(); }
  int stage() const { return group_->rank(); }
  int chunks() const { return chunks_; }
  PartOrder order() const { return order_; }
  // The ranks that are the stages.
  const GroupPtr& group() const { return group_; }
  Schedule layout() const; // the placement of the parts, without steps

  virtual Tensors forward(int chunk, const Tensors& inputs) = 0;
  // fn(outputs, labels) of the last part's outputs, as a plain tensor.
  virtual at::Tensor loss(
      const LossFn& fn, const Tensors& outputs, const Tensors& labels) const {
    return fn(outputs, labels);
  }

  // In equal order on all stages.
  const std::vector<SharedWeight>& shared_weights() const { return shared_; }

  // A module that has the parameters of all chunks.
  virtual torch::nn::Module& module() = 0;

  // From now on, modules of module() whose whole names match one of the regular
  // expressions run again in backward (RecomputedModules). An expression must
  // match on some stage, not on each. All stages call it alike, with the same
  // expressions; blocks. Throws InvalidArgument, on all stages, when an
  // expression matches nowhere, and when the model runs all its layers again
  // already.
  void recompute_modules(
      const std::vector<std::string>& patterns,
      const RecomputeOptions& options = {});

 protected:
  // Whether options of the model say that forward runs again in backward.
  virtual bool recomputes_all() const { return false; }

  // Null: no modules of this stage run again.
  const RecomputedModules* recomputed() const { return recomputed_.get(); }

  // A null group means the pipe axis of the current HybridMesh, or
  // all ranks if there is none. Throws InvalidArgument when `chunks` < 1.
  StageModel(const GroupPtr& group, int chunks, PartOrder order);

  // Sets the shared weights, and copies the first stage's values to the others.
  // All stages of the group call it; blocks.
  void set_shared_weights(std::vector<SharedWeight> weights);

 private:
  const GroupPtr group_;
  const int chunks_;
  const PartOrder order_;
  std::vector<SharedWeight> shared_;
  std::unique_ptr<const RecomputedModules> recomputed_;
};

// Replaces the numbers by those of the first rank of `group` (null: of the
// world). All ranks call it; blocks.
void broadcast_from_first(std::vector<double>& numbers, const GroupPtr& group);

} // namespace argosy::pipeline
