// A rank of bench/attention: repeats forward and backward of attention over a
// sequence. Rank 0 prints the best time in seconds and its peak tensor bytes.
//
// usage: attention_rank ring|ulysses|tiled|gemm LENGTH ROUNDS

#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>

#include "argosy/argosy.h"
#include "argosy/observe/tensor_memory.h"
#include "argosy/sequence_parallel/segment.h"
#include "bench/attention_size.h"

namespace argosy::bench {
namespace {

struct Setting {
  std::string way;
  std::int64_t length = 0;
  int rounds = 0;
};

double seconds_of(const std::function<void()>& run) {
  using Clock = std::chrono::steady_clock;
  barrier();
  const auto began = Clock::now();
  run();
  barrier();
  return std::chrono::duration<double>(Clock::now() - began).count();
}

double best_of(int rounds, const std::function<void()>& run) {
  double best = seconds_of(run);
  for (int i = 1; i < rounds; ++i) {
    best = std::min(best, seconds_of(run));
  }
  return best;
}

// FLOP/s of one rank while all ranks multiply.
double gemm_rate(int rounds) {
  constexpr std::int64_t kSize = 1024;
  constexpr int kTimes = 8;
  const at::Tensor a = torch::rand({kSize, kSize});
  const at::Tensor out = torch::empty({kSize, kSize});
  const double seconds = best_of(rounds, [&] {
    for (int i = 0; i < kTimes; ++i) {
      torch::mm_out(const_cast<at::Tensor&>(out), a, a);
    }
  });
  return 2.0 * kSize * kSize * kSize * kTimes / seconds;
}

using Step = std::function<at::Tensor(const std::vector<at::Tensor>&)>;

Step step_of(const std::string& way, const SegmentParallel& segment) {
  const AttentionOptions options{.causal = true};
  if (way == "ring") {
    return [&segment, options](const auto& x) {
      return segment.ring(x[0], x[1], x[2], options);
    };
  }
  if (way == "ulysses") {
    return [&segment, options](const auto& x) {
      return segment.ulysses(x[0], x[1], x[2], options);
    };
  }
  return [options](const auto& x) {
    return tiled_attention(x[0], x[1], x[2], options);
  };
}

// Returns the best time of a step and the peak bytes.
std::pair<double, double> measure(World& world, const Setting& setting) {
  const bool is_ring = setting.way == "ring";
  const SegmentParallel segment(
      nullptr,
      is_ring ? zigzag_split(setting.length, world.size())
              : contiguous_split(setting.length, world.size()));
  const std::int64_t own = segment.split().length(world.rank());
  TensorMemory memory;
  std::vector<at::Tensor> x;
  for (int i = 0; i < 3; ++i) {
    x.push_back(torch::rand({1, kHeads, own, kDim}).requires_grad_());
  }
  const at::Tensor gradient = torch::rand({1, kHeads, own, kDim});
  const Step step = step_of(setting.way, segment);
  const double best = best_of(setting.rounds, [&] {
    step(x).backward(gradient);
    for (at::Tensor& each : x) {
      each.mutable_grad().reset();
    }
  });
  return {best, static_cast<double>(memory.peak())};
}

void run(World& world, const Setting& setting) {
  const auto [figure, bytes] = setting.way == "gemm"
      ? std::pair(gemm_rate(setting.rounds), 0.0)
      : measure(world, setting);
  if (world.rank() == 0) {
    std::printf("%.6g %.6g\n", figure, bytes);
  }
}

} // namespace
} // namespace argosy::bench

int main(int argc, char** argv) {
  return argosy::record([&] {
    ARGOSY_CHECK(argc == 4, "usage: attention_rank WAY LENGTH ROUNDS");
    const auto world = argosy::init_parallel_env();
    argosy::bench::run(
        *world, {argv[1], std::atol(argv[2]), std::atoi(argv[3])});
    argosy::destroy_process_group();
  });
}
