// A rank of hang_test: all but rank 1 come to the second operation. Arguments:
// what rank 1 does instead (pause or leave), the time limit in milliseconds,
// and the backend.

#include <ATen/ops/ones.h>
#include <unistd.h>

#include <string>

#include "argosy/argosy.h"

int main(int /*argc*/, char** argv) {
  const std::string instead = argv[1];
  const std::chrono::milliseconds limit(std::stoi(argv[2]));
  return argosy::record([&] {
    const auto world = argosy::init_parallel_env();
    const auto group = argosy::new_group({}, argv[3], limit);
    argosy::barrier(group);
    if (world->rank() == 1 && instead == "leave") {
      return;
    }
    if (world->rank() == 1) {
      ::pause(); // busy with something else, until the launcher ends it
    }
    argosy::all_reduce(at::ones({4, 3}), argosy::ReduceOp::SUM, group);
  });
}
