// Trains a GPT-2-style language model on the King James Bible, data parallel.
//
//   argosy run -n 2 ./gpt
//
// Rank 0 shows the progress line, then the validation loss and a text that the
// model generates.

#include <argosy/argosy.h>
#include <argosy/data/tokenizer.h>
#include <argosy/observe/world_observer.h>
#include <argosy/optim/parameter_groups.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <numbers>

#include "gpt.h"

namespace data = argosy::data;

struct Options {
  GptOptions gpt{.vocab = 1024};
  int steps = 400;
  int batch = 4;      // sequences per rank and pass
  int accumulate = 2; // passes per step
  double lr = 2e-3;
  int threads = 0; // number of thread ranks; 0: use the launcher's
};

// Linear warm-up, then cosine decay to a tenth of the peak.
double lr_at(int step, const Options& options) {
  const int warmup = std::min(20, options.steps / 10);
  if (step < warmup) {
    return options.lr * (step + 1) / warmup;
  }
  const double done =
      static_cast<double>(step - warmup) / (options.steps - warmup);
  return options.lr * (0.55 + 0.45 * std::cos(std::numbers::pi * done));
}

// This rank's share of the sequences.
auto make_loader(const data::Tokens& tokens, const Options& options) {
  const data::TokenDataset texts(tokens, options.gpt.context);
  return data::DataLoader(
      texts,
      data::DistributedBatchSampler(
          texts,
          {.batch_size = options.batch, .shuffle = true, .drop_last = true}),
      data::stack_windows);
}

at::Tensor loss_of(const at::Tensor& scores, const at::Tensor& target) {
  return torch::nn::functional::cross_entropy(
      scores.flatten(0, 1), target.flatten());
}

// The mean loss of the first batches over all ranks.
double validation_loss(
    Gpt& gpt, const data::Tokens& tokens, const Options& options) {
  const torch::NoGradGuard no_grad;
  auto loader = make_loader(tokens, options);
  const long batches = std::min<long>(20, loader.size());
  at::Tensor sum = torch::zeros({});
  for (long i = 0; i < batches; ++i) {
    const auto batch = loader.next();
    sum += loss_of(gpt(batch->input), batch->target);
  }
  argosy::all_reduce(sum, argosy::ReduceOp::AVG);
  return sum.item<double>() / static_cast<double>(batches);
}

// Generates text after `start`, token by token.
std::string sample(
    Gpt& gpt, const data::Tokenizer& tokenizer, const std::string& start) {
  const torch::NoGradGuard no_grad;
  std::vector<std::int64_t> text = tokenizer.encode(start);
  for (int i = 0; i < 120; ++i) {
    const at::Tensor all = torch::tensor(text, torch::kLong);
    const long begin = std::max<long>(0, all.numel() - gpt->options.context);
    const at::Tensor scores = gpt(all.slice(0, begin).unsqueeze(0))[0][-1];
    const at::Tensor chances = (scores / 0.8).softmax(0);
    text.push_back(chances.multinomial(1).item<std::int64_t>());
  }
  return tokenizer.decode(text);
}

argosy::optim::AdamW make_optimizer(Gpt& gpt) {
  using Adam = argosy::optim::AdamWOptions;
  const Adam decayed = Adam().betas({0.9, 0.95}).weight_decay(0.1);
  return argosy::optim::AdamW(
      argosy::optim::split_groups(
          gpt->named_parameters(),
          argosy::optim::has_less_than_two_dims(),
          decayed,
          Adam(decayed).weight_decay(0)),
      decayed);
}

void train_steps(Gpt& gpt, const data::Tokens& tokens, const Options& options) {
  auto loader = make_loader(tokens, options);
  argosy::DataParallel model(gpt);
  auto optimizer = make_optimizer(gpt);
  argosy::observe::Session session({.shown = {"lr"}});
  auto meter = argosy::observe::make_step_meter({.total_steps = options.steps});

  double loss = 0;
  const auto pass = [&] {
    auto batch = loader.next();
    if (!batch) { // the end of an epoch
      batch = loader.next();
    }
    const at::Tensor part =
        loss_of(model(batch->input), batch->target) / options.accumulate;
    part.backward();
    loss += part.item<double>();
  };
  for (int step = 0; step < options.steps; ++step) {
    loss = 0;
    model.zero_grad();
    {
      const auto local = model.no_sync(); // all passes except the last
      for (int i = 1; i < options.accumulate; ++i) {
        pass();
      }
    }
    pass();
    argosy::optim::clip_grad_norm_(gpt->parameters(), 1.0);
    const double lr = lr_at(step, options);
    for (auto& group : optimizer.param_groups()) {
      group.options().set_lr(lr);
    }
    optimizer.step();
    argosy::observe::gauge("lr", lr);
    meter->step(
        {.loss = loss,
         .samples = static_cast<double>(options.batch * options.accumulate)});
  }
  meter->finish();
  session.finish();
}

void train(const Options& options) {
  const auto world = argosy::init_parallel_env();
  torch::set_num_threads(1); // per rank
  torch::manual_seed(1);
  const std::string corpus = data::king_james_bible();
  const auto tokenizer = data::Tokenizer::train(corpus, options.gpt.vocab);
  const data::Tokens tokens(tokenizer.encode(corpus));
  const std::int64_t kept = tokens.size() / 20; // for validation

  Gpt gpt(options.gpt);
  train_steps(gpt, tokens.slice(0, tokens.size() - kept), options);
  const double loss = validation_loss(
      gpt, tokens.slice(tokens.size() - kept, tokens.size()), options);
  if (world->rank() == 0) {
    std::cout << "validation loss " << loss << "\n"
              << sample(gpt, tokenizer, "And the LORD said") << std::endl;
  }
  argosy::destroy_process_group();
}

int main(int argc, char** argv) {
  Options options;
  CLI::App app("A language model on the King James Bible, data parallel.");
  app.option_defaults()->always_capture_default();
  app.add_option("--steps", options.steps)->check(CLI::PositiveNumber);
  app.add_option("--batch", options.batch, "texts of one rank in one pass");
  app.add_option("--accumulate", options.accumulate, "passes of one step");
  app.add_option("--lr", options.lr, "the highest learning rate");
  app.add_option("--layers", options.gpt.layers);
  app.add_option("--width", options.gpt.width, "a multiple of 4, the heads");
  app.add_option("--context", options.gpt.context, "tokens of a text");
  app.add_option("--vocab", options.gpt.vocab, "different tokens");
  app.add_option("--threads", options.threads, "run as so many thread ranks");
  CLI11_PARSE(app, argc, argv);
  return argosy::record([&] {
    if (options.threads > 0) {
      argosy::spawn([&] { train(options); }, options.threads);
    } else {
      train(options);
    }
  });
}
