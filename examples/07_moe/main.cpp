// Trains a GPT with experts on the King James Bible. Each rank has its own
// experts and its own share of the text.
//
//   argosy run -n 2 ./moe --strategy strategy.json
//
// prints from rank 0, among other lines:
//   8 experts, 4 on each of 2 ranks
//   step 100: loss 5...

#include <argosy/argosy.h>
#include <argosy/fleet/pipeline_model.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <iostream>

#include "../05_hybrid/bible.h"
#include "../06_pipeline/pipeline_gpt.h"

namespace fleet = argosy::fleet;
namespace pipeline = argosy::pipeline;
using argosy::examples::ParallelGptOptions;

ParallelGptOptions options_of(long experts) {
  const auto hybrid = fleet::hybrid_mesh();
  ParallelGptOptions options{{.vocab = 512, .width = 64, .layers = 2}};
  options.group = hybrid->group_over({"model"});
  options.experts = experts;
  options.expert_group = hybrid->group_over({"expert"});
  options.balance = 0.01;
  return options;
}

pipeline::PipelineLayer make_layers(const ParallelGptOptions& options) {
  pipeline::PipelineLayer layers(
      argosy::examples::gpt_layers(options),
      pipeline::PipelineLayerOptions{
          .loss_fns = {argosy::examples::gpt_loss(options)}});
  const torch::NoGradGuard no_grad;
  for (const auto& item : layers->named_parameters()) {
    const std::string name =
        argosy::examples::gpt_name(item.key(), options.gpt.layers);
    if (name == "tokens.weight" || name == "places.weight") {
      item.value().mul_(0.02); // initial scores as small as those of GPT-2
    }
  }
  return layers;
}

void train(
    const fleet::DistributedStrategy& strategy, long experts, int steps) {
  fleet::init(true, strategy);
  torch::set_num_threads(1);
  const argosy::examples::Bible bible(512);
  const auto options = options_of(experts);

  pipeline::PipelineLayer layers = make_layers(options);
  auto model = fleet::distributed_model(layers);
  argosy::optim::AdamW adam(
      layers->parameters(), argosy::optim::AdamWOptions(2e-3));
  auto optimizer = fleet::distributed_optimizer(adam);
  if (fleet::is_first_worker()) {
    const int ranks = options.expert_group->nranks();
    std::cout << experts << " experts, " << experts / ranks << " on each of "
              << ranks << " ranks" << std::endl;
  }
  auto loader = bible.loader(options.gpt.context, 8);
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
  long experts = 8;
  int steps = 100;
  CLI::App app("A GPT with experts that ranks divide among them.");
  app.option_defaults()->always_capture_default();
  app.add_option("--strategy", file, "JSON; without, all ranks have all");
  app.add_option("--experts", experts, "a multiple of ep_degree");
  app.add_option("--steps", steps)->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  return argosy::record([&] {
    train(
        file.empty() ? fleet::DistributedStrategy()
                     : fleet::DistributedStrategy::load(file),
        experts,
        steps);
  });
}
