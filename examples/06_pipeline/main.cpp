// Trains a GPT on the King James Bible, split by depth over ranks.
//
//   argosy run -n 2 ./pipeline --strategy strategy.json
//
// prints from rank 0, among other lines:
//   2 stages, schedule zbh1, 4 microbatches
//   step 100: loss 5...

#include <argosy/argosy.h>
#include <argosy/fleet/pipeline_model.h>
#include <argosy/pipeline/cut/cut_stage.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <iostream>

#include "../05_hybrid/bible.h"
#include "pipeline_gpt.h"

namespace fleet = argosy::fleet;
namespace pipeline = argosy::pipeline;
using argosy::examples::ParallelGptOptions;

constexpr long kRows = 8; // per batch

// This rank's stage, built from a list of layers.
std::shared_ptr<pipeline::StageModel> listed(
    const ParallelGptOptions& options) {
  pipeline::PipelineLayer layers(
      argosy::examples::gpt_layers(options), pipeline::PipelineLayerOptions());
  const auto whole = Gpt(options.gpt)->named_parameters();
  for (const auto& item : layers->named_parameters()) {
    argosy::tensor_parallel::load_parameter(
        item.value(),
        whole[argosy::examples::gpt_name(item.key(), options.gpt.layers)],
        options.group);
  }
  return layers.ptr();
}

// The same, cut out of a model that does not know about pipelines.
std::shared_ptr<pipeline::StageModel> cut(
    const GptOptions& options, int microbatches) {
  const at::Tensor text =
      torch::zeros({kRows / microbatches, options.context}, torch::kLong);
  return std::make_shared<pipeline::CutStage>(
      pipeline::existing(Gpt(options)),
      argosy::Tensors{text},
      pipeline::CutOptions());
}

void train(
    const fleet::DistributedStrategy& strategy, bool unchanged, int steps) {
  fleet::init(true, strategy);
  torch::set_num_threads(1);
  torch::manual_seed(1);
  const argosy::examples::Bible bible(512);
  const ParallelGptOptions options{
      {.vocab = 512, .width = 64, .layers = 4},
      fleet::hybrid_mesh()->group_over({"model"})};

  const auto stage = unchanged
      ? cut(options.gpt, strategy.pipeline_configs.accumulate_steps)
      : listed(options);
  auto model =
      fleet::distributed_model(stage, {argosy::examples::gpt_loss(options)});
  argosy::optim::AdamW adam(
      stage->module().parameters(), argosy::optim::AdamWOptions(2e-3));
  auto optimizer = fleet::distributed_optimizer(adam);
  if (fleet::is_first_worker()) {
    std::cout << stage->stages() << " stages, schedule "
              << model.schedule().name << ", " << model.schedule().microbatches
              << " microbatches" << std::endl;
  }
  auto loader = bible.loader(options.gpt.context, kRows);
  for (int step = 1; step <= steps; ++step) {
    const auto batch = loader.next();
    const at::Tensor loss =
        model.train_batch({batch->input}, {batch->target}, optimizer);
    argosy::examples::tell(step, loss);
  }
  argosy::destroy_process_group();
}

int main(int argc, char** argv) {
  std::string file;
  bool unchanged = false;
  int steps = 100;
  CLI::App app("A GPT cut by depth as a file says.");
  app.option_defaults()->always_capture_default();
  app.add_option("--strategy", file, "JSON; without, one stage");
  app.add_flag("--unchanged", unchanged, "cut the GPT of examples/02_gpt");
  app.add_option("--steps", steps)->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  return argosy::record([&] {
    train(
        file.empty() ? fleet::DistributedStrategy()
                     : fleet::DistributedStrategy::load(file),
        unchanged,
        steps);
  });
}
