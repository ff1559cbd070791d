// A rank of bench/comm: times our collectives and Gloo's in turn, on private
// memory, and the memory itself.

// In this order: clang 14 wants IValue complete before tensors.
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <ATen/ops/ones.h>

#include <cstring>
#include <map>

#include "argosy/argosy.h"
#include "argosy/comm/memory/collectives.h"
#include "argosy/comm/memory/shared_team.h"
#include "argosy/comm/memory/team.h"
#include "argosy/comm/store_texts.h"
#include "bench/comm_timing.h"

namespace argosy::bench {
namespace {

using comm::DType;
using comm::ReduceOp;
namespace memory = comm::memory;

struct Buffers {
  explicit Buffers(std::size_t bytes)
      : in(at::ones({static_cast<long>(bytes / 4)})),
        out(at::ones({static_cast<long>(bytes / 4)})) {}
  at::Tensor in;
  at::Tensor out;
};

memory::SharedTeam make_team(World& world) {
  return memory::SharedTeam(
      "bench",
      world.rank(),
      world.size(),
      comm::gather_through(world.store(), "bench", world.rank(), world.size()));
}

std::function<void()> our_call(
    memory::Team& team, const CommCase& c, Buffers& buffers) {
  const std::size_t count = c.bytes / sizeof(float);
  const std::size_t part = count / static_cast<std::size_t>(team.size());
  auto* in = buffers.in.data_ptr<float>();
  auto* out = buffers.out.data_ptr<float>();
  const auto deadline = Deadline::after(std::chrono::minutes(10));
  const comm::Reduction sum{DType::Float32, ReduceOp::SUM};
  const auto blocks = [&](float* data) {
    return comm::packed_blocks(data, team.size(), part, sizeof(float));
  };
  const comm::Blocks ins = blocks(in);
  const comm::Blocks outs = blocks(out);
  const std::map<std::string, std::function<void()>> calls = {
      {"all_reduce",
       [=, &team] { all_reduce(team, in, in, count, sum, deadline); }},
      {"broadcast",
       [=, &team] { broadcast(team, in, count, DType::Float32, 0, deadline); }},
      {"all_gather",
       [=, &team] {
         all_gather(team, in, outs, part, DType::Float32, deadline);
       }},
      {"reduce_scatter",
       [=, &team] { reduce_scatter(team, ins, out, part, sum, deadline); }},
      {"all_to_all",
       [=, &team] { all_to_all(team, ins, outs, DType::Float32, deadline); }},
  };
  return calls.at(c.op);
}

void run_gloo(c10d::ProcessGroupGloo& group, const CommCase& c, Buffers& b) {
  std::vector<at::Tensor> tensors = {b.in};
  if (c.op == "all_reduce") {
    group.allreduce(tensors)->wait();
  } else {
    group.broadcast(tensors)->wait();
  }
}

bool gloo_has(const CommCase& c) {
  return c.op == "all_reduce" || c.op == "broadcast";
}

// Bytes per second that all ranks together read and write, copying at once.
double memory_bandwidth(memory::Team& team) {
  const std::size_t bytes = std::size_t{128} << 20;
  std::vector<char> from(bytes, 1);
  std::vector<char> to(bytes, 2);
  const auto deadline = Deadline::after(std::chrono::minutes(10));
  // Each call ends when all ranks are done: ranks may share cores.
  const auto copy_together = [&] {
    std::memcpy(to.data(), from.data(), bytes);
    barrier(team, deadline);
  };
  const double seconds = time_calls(bytes, copy_together, copy_together);
  return 2.0 * static_cast<double>(bytes) * team.size() / seconds;
}

void run(const std::string& cases) {
  const auto world = init_parallel_env();
  memory::SharedTeam shared = make_team(*world);
  auto options = c10d::ProcessGroupGloo::Options::create();
  options->devices.push_back(
      c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  c10d::ProcessGroupGloo gloo(
      world->store(), world->rank(), world->size(), options);
  const auto align = [&] {
    barrier(shared.team(), Deadline::after(std::chrono::minutes(10)));
  };
  const bool speaker = world->rank() == 0;
  const double bandwidth = memory_bandwidth(shared.team());
  if (speaker) {
    std::printf("memory %.0f\n", bandwidth);
  }
  for (const CommCase& c : parse_cases(cases)) {
    Buffers buffers(c.bytes + 256);
    const double ours =
        time_calls(c.bytes, our_call(shared.team(), c, buffers), align);
    if (speaker) {
      print_time("ours", c, ours);
    }
    if (gloo_has(c)) {
      // Gloo's small messages take a hundred times as long as ours.
      const double theirs = time_calls(
          c.bytes, [&] { run_gloo(gloo, c, buffers); }, align, 100);
      if (speaker) {
        print_time("gloo", c, theirs);
      }
    }
  }
  destroy_process_group();
}

} // namespace
} // namespace argosy::bench

int main(int, char** argv) {
  return argosy::record([&] { argosy::bench::run(argv[1]); });
}
