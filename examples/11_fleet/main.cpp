// Trains a multi-layer perceptron on Fashion-MNIST as a strategy file says.
//
//   argosy run -n 2 ./fleet strategy.json
//
// prints from rank 0, among other lines:
//   step 100: loss 1.54
//   step 400: loss 0.51

#include <argosy/argosy.h>
#include <torch/torch.h>

#include <iostream>

namespace data = argosy::data;
namespace fleet = argosy::fleet;
namespace nn = torch::nn;

void train(const fleet::DistributedStrategy& strategy) {
  fleet::init(true, strategy);
  torch::manual_seed(1);
  const data::IdxImages images = data::fashion_mnist(data::Split::Train);
  data::DataLoader loader(
      images,
      data::DistributedBatchSampler(
          images, {.batch_size = 64, .shuffle = true}),
      data::stack_images);

  nn::Sequential net(
      nn::Flatten(), nn::Linear(784, 128), nn::ReLU(), nn::Linear(128, 10));
  auto model = fleet::distributed_model(net);
  argosy::optim::Adam adam(net->parameters(), 1e-2);
  auto optimizer = fleet::distributed_optimizer(adam);

  double losses = 0;
  for (int step = 1; step <= 400; ++step) {
    const auto batch = loader.next();
    optimizer.zero_grad();
    const at::Tensor loss =
        nn::functional::cross_entropy(model(batch->input), batch->target);
    optimizer.minimize(loss);
    losses += loss.item<double>();
    if (step % 100 == 0) {
      const double sum = fleet::util().all_reduce(std::exchange(losses, 0));
      fleet::util().print_on_rank(
          argosy::str_format(
              "step {}: loss {}", step, sum / 100 / fleet::worker_num()),
          0);
    }
  }
  argosy::destroy_process_group();
}

int main(int argc, char** argv) {
  return argosy::record([&] {
    train(
        argc > 1 ? fleet::DistributedStrategy::load(argv[1])
                 : fleet::DistributedStrategy());
  });
}
