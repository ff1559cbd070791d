// Trains with ZeRO 3 and saves every 20 steps; started again, on any number of
// ranks, it goes on where the newest checkpoint is.
//
//   argosy run -n 2 ./checkpoint --folder run --die-at 50   # is killed
//   argosy run -n 3 ./checkpoint --folder run   # goes on at step 40
//
// prints from rank 0, among other lines:
//   resumed at step 40
//   step 100: loss 0.0...

#include <argosy/argosy.h>
#include <argosy/checkpoint/checkpointer.h>
#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <iostream>

namespace checkpoint = argosy::checkpoint;
namespace data = argosy::data;
namespace fleet = argosy::fleet;
namespace nn = torch::nn;

void train(const std::string& folder, int last, int die_at) {
  fleet::DistributedStrategy strategy;
  strategy.sharding = true;
  strategy.sharding_configs.stage = 3;
  fleet::init(true, strategy);
  torch::set_num_threads(1);
  torch::manual_seed(1);
  nn::Sequential net(nn::Linear(8, 64), nn::Tanh(), nn::Linear(64, 1));
  argosy::optim::Adam adam(net->parameters(), 1e-2);
  auto model = fleet::distributed_model(net);
  auto optimizer = fleet::distributed_optimizer(adam);

  const at::Tensor inputs = torch::randn({960, 8});
  const at::Tensor targets = inputs.sin().sum(1, true);
  data::DistributedBatchSampler sampler(
      960, {.batch_size = 96 / fleet::worker_num(), .shuffle = true});

  checkpoint::State state{model, optimizer};
  state.add("sampler", sampler);
  checkpoint::Checkpointer saver(folder, {.async = true, .keep = {.last = 2}});
  std::int64_t step = 0;
  if (const auto report = saver.load_newest(state)) {
    step = report->step;
    if (fleet::is_first_worker()) {
      std::cout << "resumed at step " << step << std::endl;
    }
  }
  while (step < last) {
    auto batch = sampler.next();
    if (!batch) {
      continue; // the next epoch begins
    }
    const at::Tensor rows = torch::tensor(batch->indices);
    optimizer.zero_grad();
    const at::Tensor loss = nn::functional::mse_loss(
        model(inputs.index({rows})), targets.index({rows}));
    optimizer.minimize(loss);
    if (++step % 20 == 0) {
      saver.save(state, step);
    }
    if (step == die_at && fleet::worker_index() == fleet::worker_num() - 1) {
      saver.wait();
      std::raise(SIGKILL);
    }
  }
  saver.wait();
  const double loss = fleet::util().all_reduce(
      nn::functional::mse_loss(model(inputs), targets).item<double>());
  if (fleet::is_first_worker()) {
    std::cout << "step " << step << ": loss " << loss / fleet::worker_num()
              << std::endl;
  }
  argosy::destroy_process_group();
}

int main(int argc, char** argv) {
  std::string folder = "run";
  int steps = 100;
  int die_at = 0;
  CLI::App app("Training that outlives its processes.");
  app.add_option("--folder", folder, "of checkpoints");
  app.add_option("--steps", steps, "to train in all");
  app.add_option("--die-at", die_at, "kill the last rank at this step");
  CLI11_PARSE(app, argc, argv);
  return argosy::record([&] { train(folder, steps, die_at); });
}
