// Two ranks meet, broadcast and reduce.
//
//   argosy run -n 2 ./hello
//
// prints, in either order:
//   rank 0 of 2: heard 42 from rank 0; 1 + ... + 2 = 3
//   rank 1 of 2: heard 42 from rank 0; 1 + ... + 2 = 3

#include <argosy/argosy.h>
#include <torch/types.h>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <iostream>

void hello() {
  const auto world = argosy::init_parallel_env();
  const int rank = world->rank();
  const int size = world->size();

  // Any c10d process group works on the world's store.
  auto options = c10d::ProcessGroupGloo::Options::create();
  options->devices.push_back(
      c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  c10d::ProcessGroupGloo group(world->store(), rank, size, options);

  std::vector<at::Tensor> answer = {torch::full({1}, rank == 0 ? 42 : 0)};
  group.broadcast(answer)->wait();
  std::vector<at::Tensor> sum = {torch::full({1}, rank + 1)};
  group.allreduce(sum)->wait();

  std::cout << argosy::str(
      "rank ",
      rank,
      " of ",
      size,
      ": heard ",
      answer[0].item<int>(),
      " from rank 0; 1 + ... + ",
      size,
      " = ",
      sum[0].item<int>(),
      "\n");
  argosy::destroy_process_group();
}

int main() {
  return argosy::record(hello);
}
