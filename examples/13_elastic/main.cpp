// Data parallel training that goes on, from memory, when ranks are killed.
//
//   argosy run -n 3 --restart-policy worker --max-restarts 20 ./elastic [STEPS]

#include <argosy/argosy.h>
#include <argosy/checkpoint/state.h>
#include <argosy/elastic/job.h>
#include <torch/torch.h>

#include <iostream>

void train(int steps) {
  const int rank = argosy::get_rank();
  torch::manual_seed(1 + rank);
  torch::nn::Sequential net(
      torch::nn::Linear(16, 256),
      torch::nn::ReLU(),
      torch::nn::Dropout(0.1),
      torch::nn::Linear(256, 1));
  torch::optim::Adam optimizer(net->parameters(), 1e-3);
  argosy::checkpoint::State state{*net, optimizer};

  at::Tensor loss;
  argosy::elastic::run(state, {}, [&](argosy::elastic::Job& job) {
    argosy::DataParallel model(net);
    const auto compute = [&] {
      const at::Tensor x = torch::randn({64, 16});
      model.zero_grad();
      loss = torch::mse_loss(model(x), x.sum(1, true).sin());
      loss.backward();
    };
    const auto update = [&] {
      optimizer.step();
      const auto done = job.step() + 1;
      if (rank == 0 && done % 100 == 0) {
        std::cout << argosy::str_format(
                         "step {}: loss {}", done, loss.item<float>())
                  << std::endl;
      }
    };
    job.train(steps, compute, update);
  });

  double sum = 0;
  for (const at::Tensor& parameter : net->parameters()) {
    sum += parameter.to(torch::kDouble).abs().sum().item<double>();
  }
  if (rank == 0) {
    std::cout << argosy::str_format("after step {}: {}\n", steps, sum);
  }
}

int main(int argc, char** argv) {
  return argosy::record([&] { train(argc > 1 ? std::stoi(argv[1]) : 2000); });
}
