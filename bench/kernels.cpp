// The speed of reduction kernels in bytes read and written per second, compared
// to memcpy.

#include <chrono>
#include <cstring>
#include <vector>

#include "argosy/argosy.h"
#include "argosy/comm/kernels/reduce.h"
#include "bench/harness.h"

namespace argosy::bench {
namespace {

using comm::DType;
using comm::ReduceOp;
using simd::Isa;

struct Case {
  const char* what;
  int num_inputs;
  std::size_t bytes; // of each buffer
  DType dtype = DType::Float32;
  ReduceOp op = ReduceOp::SUM;
  bool stream = false;
};

// Calls f for 20 ms; returns GB/s if a call moves `bytes`.
template <typename F>
double bandwidth(std::size_t bytes, const F& f) {
  using Clock = std::chrono::steady_clock;
  const auto began = Clock::now();
  std::chrono::duration<double> passed{};
  std::size_t calls = 0;
  const std::size_t batch = bytes < (1u << 20) ? 16 : 1;
  do {
    for (std::size_t i = 0; i < batch; ++i) {
      f();
    }
    calls += batch;
    passed = Clock::now() - began;
  } while (passed.count() < 0.02);
  return 1e-9 * static_cast<double>(calls * bytes) / passed.count();
}

// Aligned like tensors. Each starts at a different page offset; otherwise
// stores would alias with loads of the next buffer.
class Buffer {
 public:
  Buffer(std::size_t bytes, std::size_t index)
      : memory_(bytes + kPage), offset_(index * 5 * kLine % kPage) {
    const auto past = reinterpret_cast<std::uintptr_t>(memory_.data()) % kLine;
    offset_ += past == 0 ? 0 : kLine - past;
  }
  char* data() { return memory_.data() + offset_; }

 private:
  static constexpr std::size_t kLine = 64;
  static constexpr std::size_t kPage = 4096 + kLine;
  std::vector<char> memory_;
  std::size_t offset_;
};

struct Buffers {
  std::vector<Buffer> inputs;
  std::vector<const void*> at;
  Buffer out;

  explicit Buffers(const Case& c) : out(c.bytes, c.num_inputs) {
    for (int i = 0; i < c.num_inputs; ++i) {
      inputs.emplace_back(c.bytes, i);
      at.push_back(inputs.back().data());
    }
  }
};

double measure_reduce(Isa isa, const Case& c, Buffers& buffers) {
  return bandwidth((c.num_inputs + 1) * c.bytes, [&] {
    comm::reduce_on(
        isa,
        buffers.out.data(),
        buffers.at.data(),
        c.num_inputs,
        c.bytes / comm::size_of(c.dtype),
        c.dtype,
        c.op,
        {.stream_out = c.stream});
  });
}

double measure_memcpy(const Case& c, Buffers& buffers) {
  return bandwidth(2 * c.bytes, [&] {
    std::memcpy(buffers.out.data(), buffers.at[0], c.bytes);
    // Keeps the compiler from removing the computation.
    asm volatile("" : : "r"(buffers.out.data()) : "memory");
  });
}

Row race_case(const Case& c, int rounds) {
  Buffers buffers(c);
  return race(
      c.what,
      "GB/s",
      Better::Higher,
      rounds,
      {{"ours",
        [&] { return measure_reduce(simd::current_isa(), c, buffers); }},
       {"memcpy", [&] { return measure_memcpy(c, buffers); }},
       {"scalar", [&] { return measure_reduce(Isa::Baseline, c, buffers); }}});
}

constexpr std::size_t kCache = 64u << 10;
constexpr std::size_t kMemory = 64u << 20;

constexpr Case kCases[] = {
    {"float32 sum of 2, 64 KB", 2, kCache},
    {"float32 sum of 4, 64 KB", 4, kCache},
    {"float32 sum of 16, 64 KB", 16, kCache},
    {"float32 max of 2, 64 KB", 2, kCache, DType::Float32, ReduceOp::MAX},
    {"float16 sum of 2, 64 KB", 2, kCache, DType::Float16},
    {"bfloat16 sum of 2, 64 KB", 2, kCache, DType::BFloat16},
    {"float32 sum of 2, 64 MB", 2, kMemory},
    {"float32 sum of 2, 64 MB, streamed",
     2,
     kMemory,
     DType::Float32,
     ReduceOp::SUM,
     true},
    {"float32 sum of 4, 64 MB", 4, kMemory},
    {"float32 sum of 4, 64 MB, streamed",
     4,
     kMemory,
     DType::Float32,
     ReduceOp::SUM,
     true},
    {"bfloat16 sum of 2, 64 MB", 2, kMemory, DType::BFloat16},
};

Row race_copy(int rounds) {
  const Case c{"streamed copy, 64 MB", 1, kMemory};
  Buffers buffers(c);
  const auto streamed = [&] {
    return bandwidth(2 * c.bytes, [&] {
      comm::copy(buffers.out.data(), buffers.at[0], c.bytes, true);
    });
  };
  return race(
      c.what,
      "GB/s",
      Better::Higher,
      rounds,
      {{"ours", streamed},
       {"memcpy", [&] { return measure_memcpy(c, buffers); }}});
}

void run(const Flags& flags) {
  Report report("kernels", flags);
  const int rounds = flags.quick ? 5 : 20;
  for (const Case& c : kCases) {
    report.add(race_case(c, rounds));
  }
  report.add(race_copy(rounds));
  report.finish();
}

} // namespace
} // namespace argosy::bench

int main(int argc, char** argv) {
  return argosy::record(
      [&] { argosy::bench::run(argosy::bench::parse_flags(argc, argv)); });
}
