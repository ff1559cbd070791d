// Collectives on one host, with ranks as processes (private and symmetric
// memory) and as threads, compared to Gloo, Open MPI and the memory bandwidth;
// and the cost of an asynchronous collective for a concurrent computation.

#include <array>
#include <cstdio>
#include <map>
#include <sstream>

#include "argosy/common/error.h"
#include "bench/comm_flags.h"
#include "bench/comm_timing.h"
#include "bench/harness.h"

namespace argosy::bench {
namespace {

struct Times {
  // Best seconds, by "op bytes" and contestant.
  std::map<std::string, std::map<std::string, double>> best;
  double memory = 0;                     // bytes per second
  std::map<std::string, double> overlap; // seconds of the computation

  void read(const std::string& line) {
    std::istringstream in(line);
    std::string word;
    in >> word;
    if (word == "memory") {
      double value = 0;
      in >> value;
      memory = std::max(memory, value);
    } else if (word == "overlap") {
      double seconds = 0;
      in >> word >> seconds;
      const auto [slot, first] = overlap.emplace(word, seconds);
      slot->second = std::min(slot->second, seconds);
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

// nccl-tests' bus bandwidth factors.
double bus_factor(const std::string& op, int ranks) {
  const double n = ranks;
  if (op == "all_reduce") {
    return 2 * (n - 1) / n;
  }
  return op == "broadcast" ? 1 : (n - 1) / n;
}

// Minimum of bytes read and written, over all ranks, per byte of the buffer;
// docs/performance.md derives it.
double least_traffic(const std::string& op, int ranks) {
  const double n = ranks;
  if (op == "broadcast") {
    return n; // one read, n - 1 writes
  }
  if (op == "reduce_scatter") {
    return n + 1; // reads all inputs, writes one buffer
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

// The requested cases; by default all_reduce in all sizes, others in one.
std::string cases_for(const CommFlags& flags, const Sizes& usual_sizes) {
  const Sizes sizes = flags.sizes.empty() ? usual_sizes : flags.sizes;
  const bool chosen = flags.sizes.size() + flags.ops.size() > 0;
  std::string text;
  for (const std::string& op : flags.ops.empty() ? kOps : flags.ops) {
    const bool all = chosen || op == "all_reduce";
    for (const std::size_t bytes : all ? sizes : Sizes{16u << 20}) {
      text += str(text.empty() ? "" : ",", op, ":", bytes);
    }
  }
  return text;
}

// Ours, on one kind of memory, compared to the peers.
Row row_of(
    const CommCase& c,
    int ranks,
    const Times& times,
    const std::string& who,
    const std::string& memory) {
  const auto& best = times.best.at(str(c.op, " ", c.bytes));
  const double bytes = static_cast<double>(c.bytes);
  const double factor = bus_factor(c.op, ranks) * bytes * 1e-9;
  Row row{
      .what =
          str(c.op,
              ", ",
              ranks,
              who == "threads" ? " threads, " : " ranks, ",
              size_text(c.bytes),
              memory == "private" ? "" : str(", ", memory)),
      .unit = "GB/s",
      .better = Better::Higher,
      .ours = factor / best.at(who)};
  for (const char* peer : {"gloo", "openmpi"}) {
    if (best.count(peer) != 0) {
      row.peers[peer] = factor / best.at(peer);
    }
  }
  row.extra = {
      {"op", c.op},
      {"ranks", ranks},
      {"kind", who == "threads" ? "thread" : "process"},
      {"bytes", c.bytes},
      {"memory", memory},
      {"time_us", best.at(who) * 1e6},
      {"memory_gb_per_s", times.memory * 1e-9},
      {"roofline_share",
       least_traffic(c.op, ranks) * bytes / times.memory / best.at(who)}};
  return row;
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
        str_format(
            "{} run -n {} {} {}",
            flags.argosy,
            ranks,
            beside_this("comm_rank"),
            cases),
        times);
    run_command(
        str(beside_this("comm_rank"), " threads ", ranks, " ", cases), times);
    if (!flags.mpirun.empty()) {
      run_command(
          str_format(
              "{} --allow-run-as-root --oversubscribe -n {} {} {}",
              flags.mpirun,
              ranks,
              beside_this("comm_mpi"),
              cases),
          times);
    }
  }
  for (const CommCase& c : parse_cases(cases)) {
    report.add(row_of(c, ranks, times, "ours", "private"));
    report.add(row_of(c, ranks, times, "brought", "brought"));
    report.add(row_of(c, ranks, times, "symmetric", "symmetric"));
    report.add(row_of(c, ranks, times, "threads", "private"));
  }
}

// How much speed a computation keeps during an all_reduce, compared to copies
// that move as many bytes: since memory bandwidth is shared, an all_reduce
// should cost no more than such copies.
void race_overlap(Report& report, const CommFlags& flags, int rounds) {
  Times times;
  for (int round = 0; round < rounds; ++round) {
    run_command(
        str(flags.argosy, " run -n 2 ", beside_this("comm_rank"), " overlap"),
        times);
  }
  const double alone = times.overlap.at("alone");
  report.add(
      {.what = "matmul beside all_reduce, 2 ranks, 64 MB",
       .unit = "of its speed alone",
       .better = Better::Higher,
       .ours = alone / times.overlap.at("all_reduce"),
       .peers = {{"copies", alone / times.overlap.at("copies")}},
       .extra = {{"op", "overlap"}, {"ranks", 2}}});
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
  if (flags.ranks.size() + flags.ops.size() + flags.sizes.size() == 0) {
    race_overlap(report, flags, quick ? 1 : 3);
  }
  report.finish();
}

} // namespace
} // namespace argosy::bench

int main(int argc, char** argv) {
  return argosy::bench::with_comm_flags(argc, argv, argosy::bench::run);
}
