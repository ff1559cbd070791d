#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "argosy/pipeline/cut/cut_module.h"
#include "argosy/pipeline/layer_desc.h"
#include "argosy/pipeline/stage_model.h"
#include "argosy/recomputation/options.h"

namespace argosy::pipeline {

struct CutOptions {
  // The ranks that are the stages. Null: the pipe axis of the current
  // HybridMesh, or all ranks if there is none.
  GroupPtr group;
  int chunks = 1;
  PartOrder order = PartOrder::kRound;
  // Where to cut: stages * chunks - 1 points. Empty: evenly, by `weight`.
  SplitSpec split_spec;
  CutRule::Weight weight = CutRule::Weight::kWork;
  // Set it if all microbatches have the shapes of the examples. Otherwise each
  // stage sends the input shapes along to the next.
  bool fixed_shapes = false;
  // If set, parts keep only what they receive, and run forward again in
  // backward.
  std::optional<RecomputeOptions> recompute;
  // Of a module whose parameters are DTensors, or become DTensors here, and
  // whose inputs are parts of DTensors. Loss functions then get DTensors.
  // parallelize() fills it in (semi_auto/parallelize.h).
  std::optional<Spread> spread;
};

// One stage of a pipeline, cut from a module that was written without pipelines
// in mind:
//
//   auto stage = std::make_shared<CutStage>(existing(gpt), Tensors{tokens},
//       CutOptions{.split_spec = {{"blocks.5", SplitPoint::END}}});
//   PipelineParallel pipeline(stage, {loss}, {.microbatches = 8});
//
// `examples` are the inputs of one microbatch; only their shapes and dtypes
// matter. The module must have equal values on all stages; weights that several
// stages use are copied from the first. Afterwards, parameters and buffers of
// other stages are released. A module too large for one rank can be made under
// DeferredInit; each stage then materializes only its own states.
//
// A module with tensor parallel layers works as well: every rank records and
// runs its own program, whose ops communicate with the ranks of its stage. All
// ranks of a stage construct the stage and run it alike, and `group` is the
// pipeline of this rank, with ranks of equal coordinates on the other axes.
class CutStage final : public StageModel {
 public:
  // All ranks of the group call it alike; it communicates. Throws
  // InvalidArgument as record() and cut() do, and when the number of parts is
  // not stages * chunks.
  CutStage(const LayerDesc& module, Tensors examples, CutOptions options);

  Tensors forward(int chunk, const Tensors& inputs) override;
  at::Tensor loss(
      const LossFn& fn,
      const Tensors& outputs,
      const Tensors& labels) const override;
  // A module with the parameters and buffers of this stage, under their names.
  // Checkpoints and save_model() take the stage itself, and have the whole.
  torch::nn::Module& module() override { return *states_; }

  const CutModule& cut_module() const { return cut_; }

 protected:
  bool recomputes_all() const override {
    return options_.recompute.has_value();
  }

 private:
  CutStage(const LayerDesc::Built& built, Tensors examples, CutOptions options);

  std::vector<int> parts() const;
  Tensors run(int part, const Tensors& given, const Metas& inputs);
  std::vector<SharedWeight> find_shared() const;

  const CutOptions options_;
  CutModule cut_;
  std::shared_ptr<torch::nn::Module> states_;
};

} // namespace argosy::pipeline
