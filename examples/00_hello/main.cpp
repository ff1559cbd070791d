// Two ranks meet, broadcast and reduce.
//
//   argosy run -n 2 ./hello
//
// prints, in either order:
//   rank 0 of 2: heard 42 from rank 0; 1 + ... + 2 = 3
//   rank 1 of 2: heard 42 from rank 0; 1 + ... + 2 = 3

#include <argosy/argosy.h>
#include <torch/types.h>

#include <iostream>

void hello() {
  const auto world = argosy::init_parallel_env();
  const int rank = world->rank();
  const int size = world->size();

  at::Tensor answer = torch::full({1}, rank == 0 ? 42 : 0);
  argosy::broadcast(answer, 0);
  at::Tensor sum = torch::full({1}, rank + 1);
  argosy::all_reduce(sum);

  std::cout << argosy::str_format(
      "rank {} of {}: heard {} from rank 0; 1 + ... + {} = {}\n",
      rank,
      size,
      answer.item<int>(),
      size,
      sum.item<int>());
  argosy::destroy_process_group();
}

int main() {
  return argosy::record(hello);
}
