// Trains a multi-layer perceptron on Fashion-MNIST; every rank keeps only a
// part of it.
//
//   argosy run -n 2 ./zero
//   argosy run -n 2 ./zero --strategy strategy.json   # another stage
//
// prints from rank 0, among other lines:
//   7 units
//     1: 2 parameters, 1607680 bytes
//   step 100: loss 0.8...

#include <argosy/argosy.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <iostream>

namespace data = argosy::data;
namespace fleet = argosy::fleet;
namespace nn = torch::nn;

auto make_loader() {
  const data::IdxImages images = data::fashion_mnist(data::Split::Train);
  return data::DataLoader(
      images,
      data::DistributedBatchSampler(
          images, {.batch_size = 32, .shuffle = true}),
      data::stack_images);
}

void train(const fleet::DistributedStrategy& strategy) {
  fleet::init(true, strategy);
  torch::set_num_threads(1);
  torch::manual_seed(1);
  nn::Sequential net(nn::Flatten(), nn::Linear(784, 512));
  for (int layer = 0; layer < 6; ++layer) {
    net->push_back(nn::ReLU());
    net->push_back(nn::Linear(512, 512));
  }
  net->push_back(nn::Linear(512, 10));

  argosy::optim::Adam adam(net->parameters(), 1e-3);
  auto model = fleet::distributed_model(net);
  auto optimizer = fleet::distributed_optimizer(adam);
  if (fleet::is_first_worker()) { // the units of communication
    std::cout
        << dynamic_cast<argosy::sharding::ShardedCore&>(*model.core()).plan()
        << std::endl;
  }
  auto loader = make_loader();
  for (int step = 1; step <= 200; ++step) {
    const auto batch = loader.next();
    optimizer.zero_grad();
    const at::Tensor loss =
        nn::functional::cross_entropy(model(batch->input), batch->target);
    optimizer.minimize(loss);
    const double mean = fleet::util().all_reduce(loss.item<double>());
    if (step % 100 == 0 && fleet::is_first_worker()) {
      std::cout << "step " << step << ": loss " << mean / fleet::worker_num()
                << std::endl;
    }
  }
  argosy::destroy_process_group();
}

int main(int argc, char** argv) {
  std::string file;
  CLI::App app("A perceptron of which every rank keeps a part only.");
  app.add_option("--strategy", file, "JSON; without, ZeRO stage 3");
  CLI11_PARSE(app, argc, argv);
  return argosy::record([&] {
    fleet::DistributedStrategy strategy;
    strategy.sharding = true;
    strategy.sharding_configs.stage = 3;
    train(file.empty() ? strategy : fleet::DistributedStrategy::load(file));
  });
}
