// Splits an unchanged model over ranks with a plan of a few lines.
//
//   argosy run -n 2 ./tensor_parallel      # two ranks split each layer
//   argosy run -n 4 ./tensor_parallel      # two pairs also split the batch
//
// prints from rank 0, among other lines:
//   step 100: loss 0.6...
//   step 300: loss 0.4...

#include <argosy/argosy.h>
#include <argosy/dtensor/deferred_init.h>
#include <argosy/dtensor/tensor/comm_debug.h>
#include <argosy/semi_auto/shard_dataloader.h>
#include <torch/torch.h>

#include <iostream>

namespace data = argosy::data;
namespace nn = torch::nn;
using argosy::ColWiseParallel;
using argosy::RowWiseParallel;

// Every rank reads all samples; shard_dataloader() keeps its part.
data::DataLoader<data::IdxImages, data::Example> make_loader() {
  const data::IdxImages images = data::fashion_mnist(data::Split::Train);
  return {
      images,
      data::DistributedBatchSampler(
          images, {.batch_size = 128, .num_replicas = 1, .shuffle = true}),
      data::stack_images};
}

void train() {
  const auto world = argosy::init_parallel_env();
  torch::set_num_threads(1);
  argosy::dtensor_manual_seed(1);
  const argosy::ProcessMesh mesh =
      argosy::ProcessMesh::of_shape({world->size() / 2, 2}, {"dp", "mp"});

  nn::Sequential net = nullptr;
  {
    const argosy::DeferredInit without_memory; // until the model is split
    net = nn::Sequential(
        nn::Flatten(), nn::Linear(784, 512), nn::ReLU(), nn::Linear(512, 10));
  }
  argosy::parallelize(
      *net,
      mesh,
      {.mp_config = {{"1", ColWiseParallel()}, {"3", RowWiseParallel()}}});
  argosy::optim::Adam adam(net->parameters(), 1e-3);
  auto optimizer = argosy::shard_optimizer(adam, argosy::ShardingStage1("dp"));

  auto samples = make_loader();
  auto loader = argosy::shard_dataloader(samples, mesh, "dp");
  for (int step = 1; step <= 300; ++step) {
    const auto batch = loader.next();
    argosy::CommDebug collectives;
    const at::Tensor loss = nn::functional::cross_entropy(
        net->forward(batch->input), batch->target);
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    const double value = argosy::full_tensor(loss.detach()).item<double>();
    if (world->rank() == 0 && step == 1) {
      std::cout << "What a step sends:\n" << collectives.table();
    }
    if (world->rank() == 0 && step % 100 == 0) {
      std::cout << "step " << step << ": loss " << value << std::endl;
    }
  }
  argosy::destroy_process_group();
}

int main() {
  return argosy::record(train);
}
