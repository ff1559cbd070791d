// A GPT with experts on the King James Bible: ranks have different experts, and
// their own texts.
//
//   argosy run -n 2 ./moe
//
// prints from rank 0, among others:
//   8 experts, 4 on each of 2 ranks
//   step 100: loss 5...

#include <argosy/argosy.h>
#include <argosy/optim/adam.h>
#include <argosy/optim/expert_clip.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <iostream>

#include "../05_hybrid/parallel_gpt.h"

namespace data = argosy::data;
using argosy::examples::ParallelGpt;
using argosy::examples::ParallelGptOptions;

auto make_loader(const data::Tokens& tokens, long context) {
  const data::TokenDataset texts(tokens, context);
  return data::DataLoader(
      texts,
      data::DistributedBatchSampler(
          texts,
          {.batch_size = 8,
           .num_replicas = argosy::get_world_size(),
           .rank = argosy::get_rank(),
           .shuffle = true,
           .drop_last = true}),
      data::stack_windows);
}

ParallelGptOptions options_of(long experts) {
  const auto world = argosy::current_world();
  ParallelGptOptions options{{.vocab = 512, .width = 64, .layers = 2}};
  options.group = argosy::shared_group(world, {world->rank()});
  options.experts = experts;
  options.expert_group = argosy::get_group(); // all ranks
  options.balance = 0.01;
  return options;
}

// Scores of words that are as small as GPT-2's at the beginning.
void shrink_words(ParallelGpt& gpt) {
  const torch::NoGradGuard no_grad;
  for (const auto* name : {"tokens.weight", "places.weight"}) {
    gpt->named_parameters()[name].mul_(0.02);
  }
}

void train(long experts, int steps) {
  const auto world = argosy::init_parallel_env();
  torch::set_num_threads(1);
  argosy::model_parallel_random_seed(1);
  const std::string corpus = data::king_james_bible();
  const auto tokenizer = data::Tokenizer::train(corpus, 512);
  const data::Tokens tokens(tokenizer.encode(corpus));
  const auto options = options_of(experts);

  ParallelGpt gpt(options);
  shrink_words(gpt);
  argosy::DataParallel model(gpt);
  argosy::optim::AdamW adam(
      gpt->parameters(), argosy::optim::AdamWOptions(2e-3));
  if (world->rank() == 0) {
    std::cout << experts << " experts, " << experts / world->size()
              << " on each of " << world->size() << " ranks" << std::endl;
  }
  auto loader = make_loader(tokens, options.gpt.context);
  for (int step = 1; step <= steps; ++step) {
    const auto batch = loader.next();
    model.zero_grad();
    const at::Tensor loss = torch::nn::functional::cross_entropy(
        model(batch->input).flatten(0, 1), batch->target.flatten());
    loss.backward();
    argosy::optim::clip_grad_norm_moe(gpt->parameters(), 1.0);
    adam.step();
    if (step % 50 == 0) {
      const at::Tensor mean = loss.detach().clone();
      argosy::all_reduce(mean, argosy::ReduceOp::AVG);
      if (world->rank() == 0) {
        std::cout << "step " << step << ": loss " << mean.item<double>()
                  << std::endl;
      }
    }
  }
  argosy::destroy_process_group();
}

int main(int argc, char** argv) {
  long experts = 8;
  int steps = 100;
  CLI::App app("A GPT with experts that ranks divide among them.");
  app.option_defaults()->always_capture_default();
  app.add_option("--experts", experts, "a multiple of the number of ranks");
  app.add_option("--steps", steps)->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  return argosy::record([&] { train(experts, steps); });
}
