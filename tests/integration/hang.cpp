// A rank of hang_test: all but rank 1 come to the second operation.

#include <ATen/ops/ones.h>
#include <unistd.h>

#include "argosy/argosy.h"

int main() {
  return argosy::record([] {
    const auto world = argosy::init_parallel_env();
    const auto group =
        argosy::new_group({}, "auto", std::chrono::milliseconds(2000));
    argosy::barrier(group);
    if (world->rank() == 1) {
      ::pause(); // busy with something else, until the launcher ends it
    }
    argosy::all_reduce(at::ones({4, 3}), argosy::ReduceOp::SUM, group);
  });
}
