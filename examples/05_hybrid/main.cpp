// Trains a GPT on the King James Bible. A strategy file says how ranks split
// its layers, its sequences, its batch and the training state.
//
//   argosy run -n 4 ./hybrid --strategy strategy.json
//
// prints from rank 0, among other lines:
//   data 1 x sharding 2 x sep 1 x model 2
//   step 100: loss 5...

#include <argosy/argosy.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <iostream>

#include "bible.h"
#include "parallel_gpt.h"

namespace fleet = argosy::fleet;
using argosy::examples::ParallelGpt;
using argosy::examples::ParallelGptOptions;

using Grid = std::vector<std::int64_t>;

// The part of the model that this rank has, which depends on its coordinates.
ParallelGptOptions options_of(const GptOptions& gpt, const Grid& grid) {
  const auto hybrid = fleet::hybrid_mesh();
  ParallelGptOptions options{gpt, hybrid->group_over({"model"})};
  options.grid = grid;
  const int parts = hybrid->size_on("sep");
  if (parts > 1) {
    options.segments = std::make_shared<argosy::SegmentParallel>(
        hybrid->group_over({"sep"}), argosy::zigzag_split(gpt.context, parts));
  }
  return options;
}

void show_axes() {
  const auto hybrid = fleet::hybrid_mesh();
  if (fleet::is_first_worker()) {
    std::cout << "data " << hybrid->size_on("data") << " x sharding "
              << hybrid->size_on("sharding") << " x sep "
              << hybrid->size_on("sep") << " x model "
              << hybrid->size_on("model") << std::endl;
  }
}

void train(
    const fleet::DistributedStrategy& strategy, const Grid& grid, int steps) {
  fleet::init(true, strategy);
  show_axes();
  torch::set_num_threads(1);
  torch::manual_seed(1);
  const argosy::examples::Bible bible(512);
  const auto options =
      options_of({.vocab = 512, .width = 64, .layers = 2}, grid);

  ParallelGpt gpt(options);
  argosy::tensor_parallel::load_module( // the same start as in one process
      *gpt,
      *Gpt(options.gpt),
      options.group);
  argosy::optim::AdamW adam(
      gpt->parameters(), argosy::optim::AdamWOptions(2e-3));
  auto model = fleet::distributed_model(gpt);
  auto optimizer = fleet::distributed_optimizer(adam);
  auto loader = bible.loader(options.gpt.context, 4);
  const auto part = [&](const at::Tensor& texts) {
    return options.segments ? options.segments->part(texts) : texts;
  };
  for (int step = 1; step <= steps; ++step) {
    const auto batch = loader.next();
    optimizer.zero_grad();
    const at::Tensor loss =
        argosy::tensor_parallel::cross_entropy(
            model(part(batch->input)), part(batch->target), options.group)
            .mean();
    optimizer.minimize(loss);
    argosy::examples::tell(step, loss);
  }
  argosy::destroy_process_group();
}

int main(int argc, char** argv) {
  std::string file;
  Grid grid;
  int steps = 100;
  CLI::App app("A GPT divided over ranks as a file says.");
  app.option_defaults()->always_capture_default();
  app.add_option("--strategy", file, "JSON; without, data parallel");
  app.add_option("--grid", grid, "the model axis as x,y or x,y,z ranks")
      ->delimiter(',');
  app.add_option("--steps", steps)->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  return argosy::record([&] {
    train(
        file.empty() ? fleet::DistributedStrategy()
                     : fleet::DistributedStrategy::load(file),
        grid,
        steps);
  });
}
