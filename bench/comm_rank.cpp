// The ranks of bench/comm: time our collectives, Gloo's, and memory bandwidth.
// By default ranks are processes, on private memory, on memory from the user
// and on symmetric memory. Arguments "threads N" make them threads; "overlap"
// times a computation during an all_reduce.

// In this order: clang 14 wants IValue complete before tensors.
#include <torch/csrc/distributed/c10d/Store.hpp>

#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <ATen/Parallel.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>

#include "argosy/argosy.h"
#include "argosy/comm/backend/backend.h"
#include "argosy/comm/backend/store_gather_strings.h"
#include "argosy/comm/kernels/reduce.h"
#include "argosy/comm/memory/memory_backend.h"
#include "bench/comm_timing.h"

namespace argosy::bench {
namespace {

using comm::Backend;
using comm::Blocks;
using comm::DType;
using comm::ReduceOp;

Deadline later() {
  return Deadline::after(std::chrono::minutes(10));
}

struct Buffers {
  at::Tensor in;
  at::Tensor out;
};

Buffers private_buffers(std::size_t bytes) {
  const auto count = static_cast<long>(bytes / sizeof(float));
  return {at::ones({count}), at::ones({count})};
}

// Memory from the user, which other ranks cannot map.
Buffers brought_buffers(std::size_t bytes) {
  const auto tensor = [&] {
    return at::from_blob(
        std::malloc(bytes),
        {static_cast<long>(bytes / sizeof(float))},
        std::free,
        at::TensorOptions().dtype(at::kFloat));
  };
  Buffers buffers{tensor(), tensor()};
  buffers.in.fill_(1);
  buffers.out.fill_(1);
  return buffers;
}

Buffers symmetric_buffers(Backend& backend, std::size_t bytes) {
  const auto tensor = [&] {
    auto memory = backend.symmetric_memory(bytes, later());
    void* data = memory.get();
    return at::from_blob(
        data,
        {static_cast<long>(bytes / sizeof(float))},
        [memory = std::move(memory)](void*) {},
        at::TensorOptions().dtype(at::kFloat));
  };
  Buffers buffers{tensor(), tensor()};
  buffers.in.fill_(1);
  buffers.out.fill_(1);
  return buffers;
}

std::unique_ptr<Backend> connect(World& world) {
  return std::make_unique<comm::memory::MemoryBackend>(
      "bench",
      world.rank(),
      world.size(),
      comm::gather_strings_through(
          world.store(), "bench", world.rank(), world.size()));
}

std::function<void()> our_call(
    Backend& backend, int size, const CommCase& c, const Buffers& buffers) {
  const std::size_t count = c.bytes / sizeof(float);
  const std::size_t part = count / static_cast<std::size_t>(size);
  auto* in = buffers.in.data_ptr<float>();
  auto* out = buffers.out.data_ptr<float>();
  const Blocks from = comm::packed_blocks(in, size, part, sizeof(float));
  const Blocks to = comm::packed_blocks(out, size, part, sizeof(float));
  const comm::Reduction sum{DType::Float32, ReduceOp::SUM};
  const DType type = DType::Float32;
  const std::map<std::string, std::function<void()>> calls = {
      {"all_reduce",
       [=, &backend] { backend.all_reduce(in, in, count, sum, later()); }},
      {"broadcast",
       [=, &backend] { backend.broadcast(in, count, type, 0, later()); }},
      {"all_gather",
       [=, &backend] { backend.all_gather(in, to, part, type, later()); }},
      {"reduce_scatter",
       [=, &backend] {
         backend.reduce_scatter(from, out, part, sum, later());
       }},
      {"all_to_all",
       [=, &backend] { backend.all_to_all(from, to, type, later()); }},
  };
  return calls.at(c.op);
}

void run_gloo(
    c10d::ProcessGroupGloo& group, const CommCase& c, const Buffers& b) {
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

// Bytes per second that all ranks together read and write: the better of
// non-temporal copies and in-place updates.
double memory_bandwidth(Backend& backend, int size) {
  const std::size_t bytes = std::size_t{256} << 20;
  std::vector<float> from(bytes / sizeof(float), 1);
  std::vector<float> to(from.size(), 2);
  const auto best_of = [&](const std::function<void()>& pass) {
    // Each call ends when all ranks are done, because ranks may share cores.
    const auto together = [&] {
      pass();
      backend.barrier(later());
    };
    return time_calls(bytes, together, together);
  };
  const double copying =
      best_of([&] { comm::copy(to.data(), from.data(), bytes, true); });
  const double in_place = best_of([&] {
    for (float& value : to) {
      value += 1;
    }
  });
  return 2.0 * static_cast<double>(bytes) * size / std::min(copying, in_place);
}

// Times one contestant; the first rank prints it.
void time_and_print(
    World& world,
    Backend& backend,
    const std::string& who,
    const CommCase& c,
    const std::function<void()>& call,
    std::size_t most_calls = 2000) {
  const double seconds = time_calls(
      c.bytes, call, [&] { backend.barrier(later()); }, most_calls);
  if (world.rank() == 0) {
    print_time(who, c, seconds);
  }
}

void run_threads(int size, const std::string& cases) {
  SpawnOptions options;
  options.ranks = RankKind::Thread;
  spawn(
      [&] {
        const auto world = init_parallel_env();
        const auto backend = connect(*world);
        for (const CommCase& c : parse_cases(cases)) {
          const Buffers buffers = private_buffers(c.bytes + 256);
          time_and_print(
              *world,
              *backend,
              "threads",
              c,
              our_call(*backend, size, c, buffers));
        }
      },
      size,
      options);
}

void run_processes(const std::string& cases) {
  const auto world = init_parallel_env();
  const auto backend = connect(*world);
  auto options = c10d::ProcessGroupGloo::Options::create();
  options->devices.push_back(
      c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  c10d::ProcessGroupGloo gloo(
      world->store(), world->rank(), world->size(), options);
  const double bandwidth = memory_bandwidth(*backend, world->size());
  if (world->rank() == 0) {
    std::printf("memory %.0f\n", bandwidth);
  }
  const auto time = [&](const std::string& who,
                        const CommCase& c,
                        const std::function<void()>& call,
                        std::size_t most_calls) {
    time_and_print(*world, *backend, who, c, call, most_calls);
  };
  for (const CommCase& c : parse_cases(cases)) {
    const Buffers plain = private_buffers(c.bytes + 256);
    time("ours", c, our_call(*backend, world->size(), c, plain), 2000);
    if (gloo_has(c)) {
      // Gloo's small messages take a hundred times longer than ours.
      time(
          "gloo", c, [&] { run_gloo(gloo, c, plain); }, 100);
    }
    const Buffers brought = brought_buffers(c.bytes + 256);
    time("brought", c, our_call(*backend, world->size(), c, brought), 2000);
    const Buffers shared = symmetric_buffers(*backend, c.bytes + 256);
    time("symmetric", c, our_call(*backend, world->size(), c, shared), 2000);
  }
  destroy_process_group();
}

// Mean time of a matmul while `beside` runs repeatedly on another thread.
double time_matmul(const std::function<void()>& beside) {
  const at::Tensor a = at::ones({512, 512});
  std::atomic<bool> stop{false};
  std::thread other([&] {
    while (beside && !stop) {
      beside();
    }
  });
  // The mean, since the best would be a moment when the other thread waits.
  const double began = seconds_now();
  int calls = 0;
  while (seconds_now() - began < 0.5) {
    at::mm(a, a);
    ++calls;
  }
  const double seconds = (seconds_now() - began) / calls;
  stop = true;
  other.join();
  return seconds;
}

// Repeats asynchronous all_reduces until all ranks have set `stop`, which they
// agree on through the last element.
void reduce_until(const std::atomic<bool>& stop) {
  at::Tensor data = at::ones({(std::int64_t{64} << 20) / 4});
  float& all_stop = data.data_ptr<float>()[data.numel() - 1];
  for (all_stop = 0; all_stop == 0;) {
    all_stop = stop ? 1 : 0;
    all_reduce(data, ReduceOp::MIN, nullptr, false)->wait();
  }
}

void run_overlap() {
  at::set_num_threads(1);
  const auto world = init_parallel_env();
  const std::vector<char> from(std::size_t{64} << 20, 1);
  std::vector<char> to(from.size());
  const auto print = [&](const char* what, double seconds) {
    if (world->rank() == 0) {
      std::printf("overlap %s %.9f\n", what, seconds);
    }
  };
  print("alone", time_matmul(nullptr));
  barrier();
  std::atomic<bool> stop{false};
  std::thread reducing([&] {
    const WorldScope scope(world);
    reduce_until(stop);
  });
  print("all_reduce", time_matmul(nullptr));
  stop = true;
  reducing.join();
  barrier();
  print("copies", time_matmul([&] {
          std::memcpy(to.data(), from.data(), from.size());
        }));
  destroy_process_group();
}

} // namespace
} // namespace argosy::bench

int main(int argc, char** argv) {
  return argosy::record([&] {
    if (std::strcmp(argv[1], "overlap") == 0) {
      argosy::bench::run_overlap();
    } else if (argc > 3) {
      argosy::bench::run_threads(std::stoi(argv[2]), argv[3]);
    } else {
      argosy::bench::run_processes(argv[1]);
    }
  });
}
