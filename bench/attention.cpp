// Causal attention over a long sequence, forward and backward: on two ranks
// with ring attention and with Ulysses, compared to one process with both cores
// (ours and PyTorch's) and to the time of the matrix products alone.

#include <cstdio>
#include <map>
#include <string>

#include "argosy/common/error.h"
#include "argosy/torch_hooks/openblas.h"
#include "bench/attention_size.h"
#include "bench/harness.h"

namespace argosy::bench {
namespace {

constexpr int kRanks = 2;

struct Figure {
  double seconds = 0;
  double bytes = 0;
};

Figure figure_of(const std::string& command) {
  FILE* pipe = ::popen((command + " 2>/dev/null").c_str(), "r");
  Figure figure;
  const int read = std::fscanf(pipe, "%lf %lf", &figure.seconds, &figure.bytes);
  ARGOSY_CHECK(::pclose(pipe) == 0 && read == 2, "[bench] failed: ", command);
  return figure;
}

std::string ranks(int count, int threads, const std::string& arguments) {
  return argosy::str(
      "OMP_NUM_THREADS=",
      threads,
      " " ARGOSY_COMMAND " run -n ",
      count,
      " " ATTENTION_RANK " ",
      arguments);
}

// Two products forward and five backward, of the unmasked half.
double flops(std::int64_t length) {
  return 7.0 * 2 * kHeads * kDim * static_cast<double>(length * length) / 2;
}

class Attention {
 public:
  Attention(std::int64_t length, int repeats)
      : length_(length), repeats_(repeats) {}

  Contestant contestant(const std::string& name, const std::string& command) {
    return {name, [this, name, command] {
              const Figure figure = figure_of(command);
              memory_[name] = figure.bytes / (1 << 20);
              return figure.seconds;
            }};
  }

  Contestant ours(const std::string& way) {
    return contestant("ours", ranks(kRanks, 1, arguments(way)));
  }
  Contestant one_process() {
    return contestant("one process", ranks(1, kRanks, arguments("tiled")));
  }
  // Uses the same matrix product kernels as ours.
  Contestant pytorch() {
    torch_hooks::install_openblas_core();
    return contestant(
        "pytorch",
        argosy::str(
            "OPENBLAS_CORETYPE=",
            torch_hooks::openblas_core(),
            " OMP_NUM_THREADS=",
            kRanks,
            " /usr/bin/python3 " ATTENTION_PEER " ",
            kHeads,
            " ",
            length_,
            " ",
            kDim,
            " ",
            repeats_));
  }
  Contestant limit() {
    return contestant("limit", ranks(kRanks, 1, arguments("gemm")));
  }

  const std::map<std::string, double>& memory() const { return memory_; }
  std::int64_t length() const { return length_; }

 private:
  std::string arguments(const std::string& way) const {
    return argosy::str(way, " ", length_, " ", repeats_);
  }

  const std::int64_t length_;
  const int repeats_;
  std::map<std::string, double> memory_; // MB, by contestant
};

void measure(
    Report& report, Attention& attention, const std::string& way, int rounds) {
  const std::string what =
      argosy::str(way, ", ", attention.length(), " tokens, ", kRanks, " ranks");
  Row row = race(
      what + ", step",
      "s",
      Better::Lower,
      rounds,
      {attention.ours(way), attention.one_process(), attention.pytorch()});
  const double rate = attention.limit().second();
  row.peers["limit"] = flops(attention.length()) / (kRanks * rate);
  report.add(std::move(row));
  Row memory{.what = what + ", memory of a rank", .unit = "MB"};
  memory.peers = attention.memory();
  memory.peers.erase("limit");
  memory.ours = memory.peers.at("ours");
  memory.peers.erase("ours");
  report.add(std::move(memory));
}

void run(Flags flags) {
  Report report("attention", flags);
  for (const char* way : {"ring", "ulysses"}) {
    Attention attention(flags.quick ? 2048 : 4096, 3);
    measure(report, attention, way, flags.quick ? 1 : 2);
  }
  report.finish();
}

} // namespace
} // namespace argosy::bench

int main(int argc, char** argv) {
  argosy::bench::run(argosy::bench::parse_flags(argc, argv));
}
