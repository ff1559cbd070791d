#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "argosy/pipeline/cut/cut_module.h"
#include "argosy/pipeline/layer_desc.h"
#include "argosy/pipeline/stage_model.h"
#include "argosy/recomputation/options.h"

namespace argosy::pipeline {

struct CutOptions {
  // The stages; null: the pipe axis of the current HybridCommunicateGroup, or
  // all ranks when there is none.
  GroupPtr group;
  int chunks = 1;
  PartOrder order = PartOrder::kRound;
  // Where to cut: stages * chunks - 1 points; none: evenly.
  SplitSpec split_spec;
  CutRule::Weight weight = CutRule::Weight::kWork;
  // All microbatches have the shapes of the examples. Without, a stage tells
  // the next one in a few numbers which shapes the inputs have.
  bool fixed_shapes = false;
  // Parts keep nothing but what they receive for backward, and run again.
  std::optional<RecomputeOptions> recompute;
};

// What one stage of a pipeline has of a module that was written without
// pipelines in mind:
//
//   auto stage = std::make_shared<CutStage>(existing(gpt), Tensors{tokens},
//       CutOptions{.split_spec = {{"blocks.5", SplitPoint::END}}});
//   PipelineParallel pipeline(stage, {loss}, {.microbatches = 8});
//
// `examples` are the inputs of one microbatch; their values do not matter. The
// module must have the same values on all stages, but for weights that several
// stages use, which the first gives to the others. Afterwards the parameters
// and buffers of other stages have no values, and no memory. A module that no
// rank could hold is made under DeferredInit; each stage then makes its own.
class CutStage final : public StageModel {
 public:
  // All ranks call it alike. Throws InvalidArgument as record() and cut() do,
  // and when there are not as many parts as stages times chunks.
  CutStage(const LayerDesc& module, Tensors examples, CutOptions options);

  Tensors forward(int chunk, const Tensors& inputs) override;
  // With the parameters and buffers of this stage, under their names.
  torch::nn::Module& module() override { return *states_; }

  const CutModule& cut_module() const { return cut_; }

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
