// Collectives of process ranks on one host, beside Gloo and Open MPI, and the
// share of what the memory can give.

#include <array>
#include <cstdio>
#include <map>
#include <sstream>

#include "argosy/argosy.h"
#include "bench/comm_flags.h"
#include "bench/comm_timing.h"
#include "bench/harness.h"

namespace argosy::bench {
namespace {

struct Times {
  // Best seconds by "op bytes" and contestant.
  std::map<std::string, std::map<std::string, double>> best;
  double memory = 0; // bytes per second

  void read(const std::string& line) {
    std::istringstream in(line);
    std::string word;
    in >> word;
    if (word == "memory") {
      double value = 0;
      in >> value;
      memory = std::max(memory, value);
    } else if (word == "time") {
      std::string who;
      std::string op;
      std::string bytes;
      double seconds = 0;
      in >> who >> op >> bytes >> seconds;
      auto& entry = best[op + " " + bytes];
      const auto [slot, first] = entry.emplace(who, seconds);
      slot->second = std::min(slot->second, seconds);
    }
  }
};

void run_command(const std::string& line, Times& times) {
  FILE* pipe = ::popen((line + " 2>/dev/null").c_str(), "r");
  std::array<char, 256> buffer{};
  while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr) {
    times.read(buffer.data());
  }
  ARGOSY_CHECK(::pclose(pipe) == 0, "[bench] failed: ", line);
}

// nccl-tests' factors: what a rank's link would have to carry per byte.
double bus_factor(const std::string& op, int ranks) {
  const double n = ranks;
  if (op == "all_reduce") {
    return 2 * (n - 1) / n;
  }
  return op == "broadcast" ? 1 : (n - 1) / n;
}

// Least bytes that must be read and written, over all ranks, per byte of the
// buffer; docs/performance.md derives it.
double least_traffic(const std::string& op, int ranks) {
  const double n = ranks;
  if (op == "broadcast") {
    return n; // one read, n - 1 writes
  }
  if (op == "reduce_scatter") {
    return n + 1; // all inputs read, one buffer's worth written
  }
  return op == "all_gather" ? 1 + n : 2 * n;
}

std::string size_text(std::size_t bytes) {
  return bytes >= (1u << 20) ? str(bytes >> 20, " MB")
                             : str(bytes >> 10, " KB");
}

using Sizes = std::vector<std::size_t>;

const std::vector<std::string> kOps = {
    "all_reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all"};

// What was asked for; else all_reduce in all sizes, the others in one.
std::string cases_for(const CommFlags& flags, const Sizes& usual_sizes) {
  const Sizes sizes = flags.sizes.empty() ? usual_sizes : flags.sizes;
  const bool chosen = !flags.sizes.empty() || !flags.ops.empty();
  std::string text;
  for (const std::string& op : flags.ops.empty() ? kOps : flags.ops) {
    const bool all = chosen || op == "all_reduce";
    for (const std::size_t bytes : all ? sizes : Sizes{16u << 20}) {
      text += str(text.empty() ? "" : ",", op, ":", bytes);
    }
  }
  return text;
}

void race_ranks(
    Report& report,
    const CommFlags& flags,
    int ranks,
    int rounds,
    const std::string& cases) {
  Times times;
  for (int round = 0; round < rounds; ++round) {
    run_command(
        str(flags.argosy,
            " run -n ",
            ranks,
            " ",
            beside_this("comm_rank"),
            " ",
            cases),
        times);
    if (!flags.mpirun.empty()) {
      run_command(
          str(flags.mpirun,
              " --allow-run-as-root --oversubscribe -n ",
              ranks,
              " ",
              beside_this("comm_mpi"),
              " ",
              cases),
          times);
    }
  }
  for (const CommCase& c : parse_cases(cases)) {
    const auto& best = times.best.at(str(c.op, " ", c.bytes));
    const double factor =
        bus_factor(c.op, ranks) * static_cast<double>(c.bytes) * 1e-9;
    Row row{
        .what = str(c.op, ", ", ranks, " ranks, ", size_text(c.bytes)),
        .unit = "GB/s",
        .better = Better::Higher};
    row.ours = factor / best.at("ours");
    for (const auto& [who, seconds] : best) {
      if (who != "ours") {
        row.peers[who] = factor / seconds;
      }
    }
    const double traffic =
        least_traffic(c.op, ranks) * static_cast<double>(c.bytes);
    row.extra = {
        {"op", c.op},
        {"ranks", ranks},
        {"bytes", c.bytes},
        {"memory", "private"},
        {"time_us", best.at("ours") * 1e6},
        {"memory_gb_per_s", times.memory * 1e-9},
        {"roofline_share", traffic / times.memory / best.at("ours")}};
    report.add(std::move(row));
  }
}

void run(const CommFlags& flags) {
  Report report("comm", flags.common);
  const bool quick = flags.common.quick;
  const std::size_t kb = 1u << 10;
  const std::size_t mb = 1u << 20;
  const Sizes few = {kb, 64 * kb, mb, 16 * mb, 64 * mb};
  const Sizes many = {
      kb, 8 * kb, 64 * kb, 256 * kb, mb, 4 * mb, 16 * mb, 64 * mb, 256 * mb};
  const std::vector<int> usual = quick ? std::vector{2} : std::vector{2, 4, 8};
  for (const int ranks : flags.ranks.empty() ? usual : flags.ranks) {
    const int rounds = ranks == 2 ? 3 : 2;
    race_ranks(
        report,
        flags,
        ranks,
        quick ? 1 : rounds,
        cases_for(flags, ranks == 2 && !quick ? many : few));
  }
  report.finish();
}

} // namespace
} // namespace argosy::bench

int main(int argc, char** argv) {
  return argosy::bench::with_comm_flags(argc, argv, argosy::bench::run);
}
