// What the ranks of a job with faults do: `job SCENARIO FOLDER`. They check
// their results, save what they have trained, and continue from there when they
// are started again. The first rank leaves the result in FOLDER/result.

#include <torch/torch.h>

#include <cstring>
#include <iostream>

#include "argosy/checkpoint/checkpointer.h"
#include "argosy/comm/group.h"
#include "argosy/comm/ops.h"
#include "argosy/comm/work.h"
#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/world/init.h"
#include "argosy/world/record.h"
#include "argosy/world/world.h"
#include "tests/checkpoint/gpt_layouts.h"

namespace argosy::testing {
namespace {

void require(const at::Tensor& found, const at::Tensor& expected) {
  if (!torch::equal(found, expected)) {
    throw Error("[soak] a result is wrong");
  }
}

// Small integers, whose sums are exact.
at::Tensor values_of(int rank, std::int64_t count) {
  return (torch::arange(count, torch::kFloat) * 7 + rank * 13).remainder(31);
}

at::Tensor sum_of_all(int size, std::int64_t count) {
  at::Tensor sum = torch::zeros({count});
  for (int rank = 0; rank < size; ++rank) {
    sum += values_of(rank, count);
  }
  return sum;
}

void check_sums(const GroupPtr& group, std::int64_t count) {
  const int rank = group->rank();
  const int size = group->nranks();
  const at::Tensor sum = sum_of_all(size, count * size);
  at::Tensor data = values_of(rank, count * size);
  all_reduce(data, ReduceOp::SUM, group);
  require(data, sum);
  data = values_of(rank, count * size);
  reduce(data, 1, ReduceOp::SUM, group);
  if (rank == 1) {
    require(data, sum);
  }
  at::Tensor part = torch::empty({count});
  reduce_scatter(part, values_of(rank, count * size), ReduceOp::SUM, group);
  require(part, sum.narrow(0, rank * count, count));
}

void check_copies(const GroupPtr& group, std::int64_t count) {
  const int rank = group->rank();
  const int size = group->nranks();
  at::Tensor data = values_of(rank, count);
  broadcast(data, 1, group);
  require(data, values_of(1, count));
  at::Tensor all = torch::empty({size, count});
  all_gather(all, values_of(rank, count), group);
  for (int peer = 0; peer < size; ++peer) {
    require(all[peer], values_of(peer, count));
  }
  Tensors gathered;
  for (int peer = 0; peer < size; ++peer) {
    gathered.push_back(torch::empty({count}));
  }
  gather(values_of(rank, count), rank == 0 ? &gathered : nullptr, 0, group);
  if (rank == 0) {
    require(gathered.back(), values_of(size - 1, count));
  }
  at::Tensor mine = torch::empty({count});
  scatter(mine, values_of(0, count * size), 0, group);
  require(mine, values_of(0, count * size).narrow(0, rank * count, count));
  at::Tensor exchanged = torch::empty({size, count});
  alltoall_single(
      exchanged,
      values_of(rank, count).expand({size, count}).contiguous(),
      {},
      group);
  for (int peer = 0; peer < size; ++peer) {
    require(exchanged[peer], values_of(peer, count));
  }
  barrier(group);
}

void check_messages(const GroupPtr& group, std::int64_t count) {
  const int rank = group->rank();
  const int size = group->nranks();
  at::Tensor data = torch::empty({count});
  const auto sent = isend(values_of(rank, count), (rank + 1) % size, group);
  const int from = (rank + size - 1) % size;
  recv(data, from, group);
  sent->wait();
  require(data, values_of(from, count));
}

void run_collectives(const std::string& backend) {
  const auto world = init_parallel_env();
  const auto group = new_group({}, backend);
  for (const std::int64_t count : {7, 40000}) {
    check_sums(group, count);
    check_copies(group, count);
    check_messages(group, count);
  }
}

Layout layout_of(const std::string& name, int ranks) {
  Layout layout{.name = name, .ranks = ranks};
  if (name == "data_parallel") {
    layout.dp = ranks;
  } else if (name == "sharding") {
    layout.sharding = ranks;
    layout.stage = 3;
  } else {
    layout.pp = ranks;
  }
  return layout;
}

// The bits of all parameters, folded.
std::string digest_of(const std::map<std::string, at::Tensor>& parameters) {
  std::uint64_t digest = 0;
  for (const auto& [name, value] : parameters) {
    const at::Tensor bits = value.to(torch::kDouble).contiguous();
    const double* numbers = bits.data_ptr<double>();
    for (std::int64_t i = 0; i < bits.numel(); ++i) {
      std::uint64_t word = 0;
      std::memcpy(&word, numbers + i, sizeof(word));
      digest = digest * 1099511628211ULL ^ word;
    }
  }
  return std::to_string(digest);
}

void train(const std::string& name, const std::string& folder) {
  constexpr int kSteps = 4;
  const auto world = init_parallel_env();
  GptRun run(layout_of(name, world->size()));
  checkpoint::State state = run.state();
  checkpoint::Checkpointer saver(
      folder + "/saved",
      {.async = true, .keep = {.last = 2}, .timeout = world->timeout()});
  saver.load_newest(state);
  while (run.steps() < kSteps) {
    run.step();
    saver.save(state, run.steps());
  }
  saver.wait();
  const std::string digest = digest_of(run.parameters());
  if (world->rank() == 0) {
    write_file(folder + "/result", digest);
  }
  barrier();
}

} // namespace
} // namespace argosy::testing

int main(int argc, char** argv) {
  return argosy::record([&] {
    if (argc != 3) {
      throw argosy::InvalidArgument("expected: job SCENARIO FOLDER");
    }
    torch::set_num_threads(1);
    const std::string scenario = argv[1];
    if (scenario == "data_parallel" || scenario == "sharding" ||
        scenario == "pipeline") {
      argosy::testing::train(scenario, argv[2]);
    } else {
      argosy::testing::run_collectives(scenario);
    }
    argosy::destroy_process_group();
  });
}
