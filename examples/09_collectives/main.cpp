// The ways in which ranks communicate: gradients in one call, a sum that
// overlaps with computation, objects, messages, and a collective inside a
// model.
//
//   argosy run -n 3 ./collectives
//
// prints from rank 0:
//   gradients: 3 tensors, 1 call
//   overlapped sum: 6
//   names: ["rank 0","rank 1","rank 2"]
//   message from rank 2: 20
//   gradient through all_gather: 3

#include <argosy/argosy.h>
#include <argosy/comm/coalesce.h>
#include <torch/torch.h>

#include <iostream>
#include <nlohmann/json.hpp>

void collectives() {
  const auto world = argosy::init_parallel_env();
  const int rank = world->rank();
  const int size = world->size();

  const std::vector<at::Tensor> gradients = {
      torch::ones({8}), torch::ones({2, 3}), torch::ones({})};
  const auto calls =
      argosy::all_reduce_coalesced(gradients, argosy::ReduceOp::AVG);

  at::Tensor sum = torch::full({1 << 20}, rank + 1.0f);
  const auto work =
      argosy::all_reduce(sum, argosy::ReduceOp::SUM, nullptr, false);
  torch::mm(torch::rand({256, 256}), torch::rand({256, 256})); // meanwhile
  work->wait();

  std::vector<std::string> names;
  argosy::all_gather_object(names, "rank " + std::to_string(rank));

  at::Tensor inbox = torch::empty({1});
  const int next = (rank + 1) % size;
  const int before = (rank + size - 1) % size;
  for (const auto& message : argosy::batch_isend_irecv(
           {{argosy::isend, torch::full({1}, 10.0f * rank), next},
            {argosy::irecv, inbox, before}})) {
    message->wait();
  }

  at::Tensor x = torch::ones({2}, torch::requires_grad());
  argosy::functional::all_gather(x).sum().backward();

  if (rank == 0) {
    std::cout << "gradients: " << gradients.size() << " tensors, "
              << calls.size() << " call\n"
              << "overlapped sum: " << sum[0].item<float>() << "\n"
              << "names: " << nlohmann::json(names) << "\n"
              << "message from rank " << before << ": " << inbox.item<float>()
              << "\n"
              << "gradient through all_gather: " << x.grad()[0].item<float>()
              << "\n";
  }
}

int main() {
  return argosy::record(collectives);
}
