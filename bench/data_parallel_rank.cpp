// A rank of bench/data_parallel: executes commands from standard input, and
// answers each with one line.
//
//   load gpt 1   makes the model and trains three steps with 1 times the usual
//                batch size; answers their losses
//   run 5        trains five steps; answers the seconds they took
//
// With an argument, prints the kernels that OpenBLAS uses, and exits.

#include <torch/torch.h>

#include <iostream>
#include <memory>

#include "argosy/argosy.h"
#include "argosy/optim/adam.h"
#include "argosy/torch_hooks/openblas.h"
#include "bench/hashed.h"
#include "bench/training_server.h"
#include "examples/01_fashion_mnist/net.h"
#include "examples/02_gpt/gpt.h"

namespace argosy::bench {
namespace {

namespace nn = torch::nn;

nn::Sequential make_mlp() {
  const long width = 4096;
  return nn::Sequential(
      nn::Linear(width, width),
      nn::ReLU(),
      nn::Linear(width, width),
      nn::ReLU(),
      nn::Linear(width, width),
      nn::ReLU(),
      nn::Linear(width, 10));
}

template <typename Net>
Net prepared(Net net) {
  set_weights(*net);
  return net;
}

template <typename Model>
at::Tensor backward(Model& model, const at::Tensor& x, const at::Tensor& y) {
  const at::Tensor scores = model(x);
  const at::Tensor loss =
      nn::functional::cross_entropy(scores.flatten(0, scores.dim() - 2), y);
  loss.backward();
  return loss;
}

template <typename Net>
class DataParallelTraining final : public Training {
 public:
  DataParallelTraining(Net net, at::Tensor input, at::Tensor target)
      : net_(prepared(std::move(net))),
        model_(net_),
        optimizer_(net_->parameters(), optim::AdamOptions(1e-4)),
        input_(std::move(input)),
        target_(std::move(target)) {}

  double step() override {
    model_.zero_grad();
    const at::Tensor loss = backward(model_, input_, target_);
    optimizer_.step();
    return loss.template item<double>();
  }

 private:
  Net net_;
  DataParallel<Net> model_;
  optim::Adam optimizer_;
  at::Tensor input_;
  at::Tensor target_;
};

template <typename Net>
class ShardedTraining final : public Training {
 public:
  ShardedTraining(
      Net net, at::Tensor input, at::Tensor target, const std::string& level)
      : net_(prepared(std::move(net))),
        adam_(net_->parameters(), optim::AdamOptions(1e-4)),
        sharded_(sharding::group_sharded_parallel(net_, adam_, level)),
        input_(std::move(input)),
        target_(std::move(target)) {}

  double step() override {
    sharded_.optimizer.zero_grad();
    const at::Tensor loss = backward(sharded_.model, input_, target_);
    sharded_.optimizer.step();
    return loss.template item<double>();
  }

 private:
  Net net_;
  optim::Adam adam_;
  sharding::GroupSharded<Net> sharded_;
  at::Tensor input_;
  at::Tensor target_;
};

// "dp" or a sharding level.
template <typename Net>
std::unique_ptr<Training> training_of(
    Net net, at::Tensor input, at::Tensor target, const std::string& way) {
  if (way == "dp") {
    return std::make_unique<DataParallelTraining<Net>>(
        std::move(net), std::move(input), std::move(target));
  }
  return std::make_unique<ShardedTraining<Net>>(
      std::move(net), std::move(input), std::move(target), way);
}

std::unique_ptr<Training> make_training(
    const std::string& what, long times, const std::string& way) {
  const long seed = 1000 + get_rank();
  if (what == "gpt") {
    const at::Tensor text = hashed({4 * times, 129}, seed).remainder(256);
    return training_of(
        Gpt(GptOptions{.context = 128, .width = 320, .layers = 8, .heads = 5}),
        text.slice(1, 0, 128).contiguous(),
        text.slice(1, 1).flatten(),
        way);
  }
  const long batch = 64 * times;
  const at::Tensor kinds = hashed({batch}, seed + 500).remainder(10);
  if (what == "cnn") {
    return training_of(
        make_net(), uniform({batch, 1, 28, 28}, seed), kinds, way);
  }
  ARGOSY_CHECK(what == "mlp", "[bench] {}, expected gpt, cnn or mlp", what);
  return training_of(make_mlp(), uniform({batch, 4096}, seed), kinds, way);
}

void serve() {
  const auto world = init_parallel_env();
  torch::set_num_threads(1);
  serve_trainings([] {
    std::string what;
    long times = 0;
    std::string way;
    std::cin >> what >> times >> way;
    return make_training(what, times, way);
  });
  destroy_process_group();
}

} // namespace
} // namespace argosy::bench

int main(int argc, char** /*argv*/) {
  if (argc > 1) {
    argosy::torch_hooks::install_openblas_core();
    std::cout << argosy::torch_hooks::openblas_core() << std::endl;
    return 0;
  }
  return argosy::record(argosy::bench::serve);
}
