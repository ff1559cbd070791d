// Rows per second that a worker pulls from and pushes to a parameter server on
// the same host, each process on a core of its own. The peer is the table
// without a server, in the same process: what the way to a server costs.

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <deque>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "argosy/common/error.h"
#include "argosy/ps/client/client.h"
#include "argosy/ps/service/server.h"
#include "argosy/ps/table/sparse_table.h"
#include "argosy/store/kv_server.h"
#include "argosy/store/open_kv.h"
#include "bench/harness.h"

namespace argosy {
namespace {

constexpr std::uint32_t kTable = 1;
constexpr int kDim = 16;
constexpr std::uint64_t kRows = 1 << 20;
constexpr int kInFlight = 4; // pulls

void use_core(int core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  ::sched_setaffinity(0, sizeof(cores), &cores);
}

ps::TableSpec table_spec() {
  ps::SparseConfig config =
      ps::embedding_config(kDim, {.rule = ps::Rule::AdaGrad});
  config.table_id = kTable;
  config.unknown_key = ps::UnknownKey::InitialValues;
  return {.sparse = config};
}

int serve(const std::string& url) {
  use_core(1);
  ps::Server server(
      {.kv = store::open_kv(url, Deadline::after(std::chrono::seconds(30)))});
  server.run(Deadline::after(std::chrono::minutes(10)));
  return 0;
}

// Distinct keys of a batch.
using Batches = std::vector<std::vector<std::uint64_t>>;

Batches make_batches(std::size_t size) {
  std::mt19937_64 random(1);
  Batches batches(32);
  for (auto& batch : batches) {
    for (std::size_t i = 0; i < size; ++i) {
      batch.push_back(random() % kRows);
    }
  }
  return batches;
}

double millions_per_second(std::size_t rows, double milliseconds) {
  return static_cast<double>(rows) / milliseconds / 1000;
}

double pull(ps::Client& client, const Batches& batches, int times) {
  const std::size_t size = batches[0].size();
  std::vector<std::vector<float>> rows(
      kInFlight, std::vector<float>(size * kDim));
  const double passed = bench::milliseconds_of([&] {
    std::deque<ps::PendingPull> pending;
    for (int i = 0; i < times; ++i) {
      if (pending.size() == kInFlight) {
        pending.front().wait();
        pending.pop_front();
      }
      const auto& keys = batches[static_cast<std::size_t>(i) % batches.size()];
      pending.push_back(client.start_pull(
          {{kTable, keys, rows[static_cast<std::size_t>(i % kInFlight)]}}, {}));
    }
    for (auto& each : pending) {
      each.wait();
    }
  });
  return millions_per_second(size * static_cast<std::size_t>(times), passed);
}

double push(ps::Client& client, const Batches& batches, int times) {
  const std::size_t size = batches[0].size();
  const std::vector<float> gradients(size * kDim, 0.01f);
  const double passed = bench::milliseconds_of([&] {
    for (int i = 0; i < times; ++i) {
      client.push(
          {{kTable,
            batches[static_cast<std::size_t>(i) % batches.size()],
            gradients}});
    }
    client.flush();
  });
  return millions_per_second(size * static_cast<std::size_t>(times), passed);
}

template <typename Use>
double use_table(const Batches& batches, int times, const Use& use) {
  const std::size_t size = batches[0].size();
  const double passed = bench::milliseconds_of([&] {
    for (int i = 0; i < times; ++i) {
      use(batches[static_cast<std::size_t>(i) % batches.size()]);
    }
  });
  return millions_per_second(size * static_cast<std::size_t>(times), passed);
}

void fill(ps::Client& client, ps::SparseTable& table) {
  std::vector<std::uint64_t> keys(1 << 14);
  const std::vector<float> gradients(keys.size() * kDim, 0.01f);
  for (std::uint64_t first = 0; first < kRows; first += keys.size()) {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      keys[i] = first + i;
    }
    client.push({{kTable, keys, gradients}});
    table.push(keys, gradients);
  }
  client.flush();
}

// A race of the client against the table, with the client's slowest round.
bench::Row race_client(
    const std::string& what,
    const std::function<double()>& ours,
    const std::function<double()>& no_server) {
  double slowest = std::numeric_limits<double>::max();
  bench::Row row = bench::race(
      what,
      "M rows/s",
      bench::Better::Higher,
      5,
      {{"ours",
        [&] {
          const double figure = ours();
          slowest = std::min(slowest, figure);
          return figure;
        }},
       {"no server", no_server}});
  row.extra["also slowest round"] = slowest;
  return row;
}

void measure(ps::Client& client, const bench::Flags& flags) {
  bench::Report report("ps", flags);
  ps::SparseTable table(table_spec().sparse);
  fill(client, table);
  for (const std::size_t size : {1024, 8192, 65536}) {
    const Batches batches = make_batches(size);
    const int times =
        static_cast<int>((flags.quick ? 2'000'000 : 20'000'000) / size);
    std::vector<float> rows(size * kDim, 0.01f);
    report.add(race_client(
        str("pull ", size, " keys, dim 16"),
        [&] { return pull(client, batches, times); },
        [&] {
          return use_table(batches, times, [&](const auto& keys) {
            table.pull(keys, rows);
          });
        }));
    std::fill(rows.begin(), rows.end(), 0.01f);
    report.add(race_client(
        str("push ", size, " keys, dim 16"),
        [&] { return push(client, batches, times); },
        [&] {
          return use_table(batches, times, [&](const auto& keys) {
            table.push(keys, rows);
          });
        }));
  }
  report.finish();
}

int run(const bench::Flags& flags) {
  store::KvServer store({"127.0.0.1", 0});
  std::string url = str("tcp://127.0.0.1:", store.port());
  std::string program = "/proc/self/exe";
  std::string serve_flag = "--serve";
  char* arguments[] = {program.data(), serve_flag.data(), url.data(), nullptr};
  pid_t pid = 0;
  ARGOSY_CHECK(
      ::posix_spawn(
          &pid, program.c_str(), nullptr, nullptr, arguments, environ) == 0,
      "[bench.ps] the server cannot be started");
  use_core(0);
  {
    ps::Client client(
        {.job = {.num_workers = 1, .sync = false},
         .kv = store::open_kv(url, Deadline::after(std::chrono::seconds(30)))});
    client.create_table(table_spec());
    measure(client, flags);
    client.stop_servers();
  }
  ::waitpid(pid, nullptr, 0);
  return 0;
}

} // namespace
} // namespace argosy

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--serve") {
    return argosy::serve(argv[2]);
  }
  return argosy::run(argosy::bench::parse_flags(argc, argv));
}
