// Trains a convolutional network on Fashion-MNIST, data parallel.
//
//   argosy run -n 2 ./fashion_mnist
//
// prints from rank 0, after the progress line:
//   epoch 1: test accuracy 86.43 %
//   epoch 2: test accuracy 88.31 %
//   epoch 3: test accuracy 89.32 %

#include <argosy/argosy.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iomanip>
#include <iostream>

#include "net.h"

namespace nn = torch::nn;
namespace data = argosy::data;

struct Options {
  int epochs = 3;
  int batch = 64;  // images per rank and step
  int steps = 0;   // per epoch at most; 0: all
  int threads = 0; // number of thread ranks; 0: use the launcher's
};

// Batches of this rank's share of the images.
auto make_loader(data::Split split, int batch) {
  const bool train = split == data::Split::Train;
  const data::IdxImages images = data::fashion_mnist(split);
  const data::SamplerOptions options{
      .batch_size = batch, .shuffle = train, .drop_last = train, .pad = false};
  return data::DataLoader(
      images,
      data::DistributedBatchSampler(images, options),
      data::stack_images);
}

// The fraction of test images that the network classifies correctly. Each rank
// evaluates its share.
double test_accuracy(nn::Sequential& net) {
  const torch::NoGradGuard no_grad;
  auto loader = make_loader(data::Split::Test, 500);
  at::Tensor right_and_all = torch::zeros({2}, torch::kDouble);
  while (const auto batch = loader.next()) {
    const at::Tensor guess = net->forward(batch->input).argmax(1);
    right_and_all[0] += guess.eq(batch->target).sum();
    right_and_all[1] += guess.numel();
  }
  argosy::all_reduce(right_and_all);
  return (right_and_all[0] / right_and_all[1]).item<double>();
}

void train(const Options& options) {
  const auto world = argosy::init_parallel_env();
  torch::set_num_threads(1); // per rank
  torch::manual_seed(1);
  auto loader = make_loader(data::Split::Train, options.batch);
  const auto steps = options.steps > 0
      ? std::min<long>(options.steps, loader.size())
      : loader.size();
  const double total_steps = static_cast<double>(options.epochs * steps);

  nn::Sequential net = make_net();
  argosy::DataParallel model(net);
  argosy::optim::Adam optimizer(net->parameters());
  argosy::observe::Session session({});
  auto meter =
      argosy::observe::make_step_meter({.total_steps = options.epochs * steps});

  for (int epoch = 0; epoch < options.epochs; ++epoch) {
    loader.set_epoch(epoch);
    for (long step = 0; step < steps; ++step) {
      const double done = static_cast<double>(epoch * steps + step);
      optimizer.param_groups()[0].options().set_lr(
          2e-3 * (1 - done / total_steps));
      const auto batch = loader.next();
      model.zero_grad();
      const at::Tensor loss =
          nn::functional::cross_entropy(model(batch->input), batch->target);
      loss.backward();
      optimizer.step();
      meter->step(
          {.loss = loss.item<double>(),
           .samples = static_cast<double>(batch->input.size(0))});
    }
    const double accuracy = test_accuracy(net);
    meter->skip_time();
    if (world->rank() == 0) {
      std::cout << "epoch " << epoch + 1 << ": test accuracy " << std::fixed
                << std::setprecision(2) << 100 * accuracy << " %" << std::endl;
    }
  }
  meter->finish();
  session.finish();
  argosy::destroy_process_group();
}

int main(int argc, char** argv) {
  Options options;
  CLI::App app("A convolutional network on Fashion-MNIST, data parallel.");
  app.option_defaults()->always_capture_default();
  app.add_option("--epochs", options.epochs);
  app.add_option("--batch", options.batch, "pictures of one rank in one step");
  app.add_option("--steps", options.steps, "of an epoch at most; 0: all");
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
