// The time from the command to main(), and until 64 ranks of one process have
// met.

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <thread>

#include "argosy/argosy.h"
#include "argosy/common/file.h"
#include "argosy/testing/ranks.h"
#include "bench/harness.h"

namespace argosy::bench {
namespace {

double monotonic_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e3 +
      static_cast<double>(now.tv_nsec) * 1e-6;
}

// Runs `launcher probe folder`; returns the milliseconds until the last of two
// ranks has started.
double time_to_main(const std::string& launcher, const std::string& probe) {
  const TempDir dir("argosy-bench");
  const std::string line =
      str(launcher, " ", probe, " ", dir.path().string(), " >/dev/null 2>&1");
  const double began = monotonic_ms();
  const int status = std::system(line.c_str());
  ARGOSY_CHECK(status == 0, "[bench] failed: ", line);
  double last = 0;
  int ranks = 0;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) {
    std::ifstream in(entry.path());
    double seconds = 0;
    double nanoseconds = 0;
    in >> seconds >> nanoseconds;
    last = std::max(last, seconds * 1e3 + nanoseconds * 1e-6);
    ++ranks;
  }
  ARGOSY_CHECK(
      ranks == 2, "[bench] {} ranks came, expected 2: {}", ranks, line);
  return last - began;
}

Row race_launchers(
    const std::string& what, const std::string& probe, int rounds) {
  const auto launch = [probe](const std::string& launcher) {
    return [launcher, probe] { return time_to_main(launcher, probe); };
  };
  return race(
      what,
      "ms",
      Better::Lower,
      rounds,
      {{"ours", launch(str(ARGOSY_COMMAND, " run -n 2"))},
       // Debian's torchrun does not work without -r and -t.
       {"torchrun",
        launch("/usr/bin/python3 -m torch.distributed.run --standalone -r 1 "
               "-t 1 --monitor_interval 0.1 --no_python --nproc_per_node 2")},
       {"openmpi",
        launch("mpirun.openmpi --allow-run-as-root --oversubscribe -n 2")}});
}

double time_thread_world(int size) {
  const double began = monotonic_ms();
  std::atomic<double> ready{0};
  testing::run_ranks(size, [&](World&) {
    const double now = monotonic_ms();
    double latest = ready;
    while (latest < now && !ready.compare_exchange_weak(latest, now)) {
    }
  });
  return ready - began;
}

// The closest equivalent in LibTorch: a Gloo group per thread over one hash
// store.
double time_gloo_world(int size) {
  auto store = c10::make_intrusive<c10d::HashStore>();
  const double began = monotonic_ms();
  std::vector<std::thread> threads;
  std::vector<c10::intrusive_ptr<c10d::ProcessGroupGloo>> groups(size);
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      auto options = c10d::ProcessGroupGloo::Options::create();
      options->devices.push_back(
          c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
      groups[rank] = c10::make_intrusive<c10d::ProcessGroupGloo>(
          store, rank, size, options);
    });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  const double took = monotonic_ms() - began;
  // Destroying a Gloo group takes a third of a second; do it concurrently.
  for (int rank = 0; rank < size; ++rank) {
    threads[rank] = std::thread([&, rank] { groups[rank].reset(); });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  return took;
}

void run(const Flags& flags) {
  Report report("launch", flags);
  const int rounds = flags.quick ? 3 : 8;
  report.add(race_launchers(
      "2 ranks, program without torch, command to main()",
      LAUNCH_PROBE,
      rounds));
  report.add(race_launchers(
      "2 ranks, program with LibTorch, command to main()",
      LAUNCH_PROBE_TORCH,
      rounds));
  report.add(race(
      "64 thread ranks, start to a world",
      "ms",
      Better::Lower,
      rounds,
      {{"ours", [] { return time_thread_world(64); }},
       {"gloo", [] { return time_gloo_world(64); }}}));
  report.finish();
}

} // namespace
} // namespace argosy::bench

int main(int argc, char** argv) {
  return argosy::record(
      [&] { argosy::bench::run(argosy::bench::parse_flags(argc, argv)); });
}
