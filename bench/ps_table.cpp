// Keys that the tables of the parameter server pull and push in a second on one
// core, beside what memory allows and other stores.

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <vector>

#include "argosy/argosy.h"
#include "argosy/common/file.h"
#include "argosy/ps/table/pages.h"
#include "argosy/ps/table/partition.h"
#include "bench/harness.h"
#include "bench/ps_stores.h"

namespace argosy::bench {
namespace {

using Keys = std::vector<std::uint64_t>;

constexpr std::size_t kBatch = 4096;      // keys of a call
constexpr std::size_t kStream = 1u << 22; // more than caches hold

// Keys that do not follow each other, one for each row.
std::uint64_t key_of(std::uint64_t row) {
  return (row + 1) * 0x9e3779b97f4a7c15u;
}

// Rows with probability ~ 1 / rank^1.05, by rejection (Hoermann, Derflinger).
class Zipf {
 public:
  explicit Zipf(std::uint64_t rows)
      : rows_(rows),
        low_(integral(1.5) - 1),
        high_(integral(static_cast<double>(rows) + 0.5)) {}

  std::uint64_t operator()(std::mt19937_64& random) const {
    std::uniform_real_distribution<double> uniform(low_, high_);
    while (true) {
      const double u = uniform(random);
      const double x = std::pow(1 - kPower * u, -1 / kPower);
      const double rank =
          std::clamp(std::round(x), 1.0, static_cast<double>(rows_));
      const double below = std::pow(rank, -kExponent);
      if (u >= integral(rank + 0.5) - below) {
        // The most frequent rows are not neighbours.
        return static_cast<std::uint64_t>(rank - 1) * 0x2545f491u % rows_;
      }
    }
  }

 private:
  static constexpr double kExponent = 1.05;
  static constexpr double kPower = kExponent - 1;
  static double integral(double x) {
    return (1 - std::pow(x, -kPower)) / kPower;
  }

  std::uint64_t rows_;
  double low_;
  double high_;
};

enum class Choice { Uniform, Zipfian, Hotspot };

Keys choose_rows(std::uint64_t rows, Choice choice) {
  std::mt19937_64 random(7);
  const Zipf zipf(rows);
  Keys chosen(kStream);
  for (std::uint64_t& row : chosen) {
    row = random() % rows;
    if (choice == Choice::Zipfian) {
      row = zipf(random);
    } else if (choice == Choice::Hotspot && random() % 2 == 0) {
      row = rows / 2; // every second key is the same
    }
  }
  return chosen;
}

class OurStore : public Store {
 public:
  explicit OurStore(const ps::SparseConfig& config) : table(config) {}

  void pull(
      std::span<const std::uint64_t> keys, std::span<float> values) override {
    table.pull(keys, values);
  }
  void push(
      std::span<const std::uint64_t> keys,
      std::span<const float> gradients) override {
    table.push(keys, gradients);
  }

  ps::Partition table;
};

// Rows in an array, by number: what memory gives to one who knows where each
// row is and asks for it early enough. Keys are row numbers here.
class Array : public Store {
 public:
  Array(std::uint64_t rows, int dim)
      : dim_(static_cast<std::size_t>(dim)),
        stride_(sizeof(std::uint64_t) + (dim_ + 1) * sizeof(float)),
        pages_(rows * stride_) {
    pages_.want_huge_pages();
    std::memset(pages_.data(), 0, pages_.size());
  }

  void pull(
      std::span<const std::uint64_t> rows, std::span<float> values) override {
    each(rows, [&](std::size_t i, float* row) {
      std::memcpy(&values[i * dim_], row, dim_ * sizeof(float));
    });
  }
  void push(
      std::span<const std::uint64_t> rows,
      std::span<const float> gradients) override {
    each(rows, [&](std::size_t i, float* row) {
      for (std::size_t j = 0; j < dim_; ++j) {
        row[j] -= gradients[i * dim_ + j];
      }
    });
  }

 private:
  template <typename F>
  void each(std::span<const std::uint64_t> rows, const F& f) {
    constexpr std::size_t kAhead = 32;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::byte* const next =
          pages_.data() + rows[std::min(i + kAhead, rows.size() - 1)] * stride_;
      for (std::size_t byte = 0; byte < stride_; byte += 64) {
        __builtin_prefetch(next + byte, 1);
      }
      __builtin_prefetch(next + stride_ - 1, 1);
      f(i, reinterpret_cast<float*>(pages_.data() + rows[i] * stride_ + 8));
    }
  }

  std::size_t dim_;
  std::size_t stride_;
  ps::Pages pages_;
};

double million_keys_a_second(std::size_t keys, double milliseconds) {
  return static_cast<double>(keys) / milliseconds / 1000;
}

struct Work {
  Keys keys; // a multiple of kBatch
  std::size_t pull_dim = 0;
  std::vector<float> gradients; // of a batch
  bool pushes = false;
};

// Goes through the keys for at least 0.2 s.
double run_work(Store& store, const Work& work) {
  std::vector<float> values(kBatch * work.pull_dim);
  std::size_t done = 0;
  double passed = 0;
  while (passed < 200) {
    const std::size_t from = done % work.keys.size();
    const auto batch = std::span(work.keys).subspan(from, kBatch);
    passed += milliseconds_of([&] {
      work.pushes ? store.push(batch, work.gradients)
                  : store.pull(batch, values);
    });
    done += kBatch;
  }
  return million_keys_a_second(done, passed);
}

void fill(Store& store, std::uint64_t rows, std::size_t push_dim) {
  const std::vector<float> gradients(kBatch * push_dim, 0.01f);
  Keys keys(kBatch);
  for (std::uint64_t row = 0; row < rows; row += keys.size()) {
    keys.resize(std::min<std::uint64_t>(kBatch, rows - row));
    for (std::size_t i = 0; i < keys.size(); ++i) {
      keys[i] = key_of(row + i);
    }
    store.push(keys, std::span(gradients).first(keys.size() * push_dim));
  }
}

struct Case {
  int dim;
  std::uint64_t rows;
  std::vector<std::string> peers;
  std::vector<Choice> choices;
  ps::Accessor accessor = ps::Accessor::Embedding;
};

std::string rows_text(std::uint64_t rows) {
  const int exponent = static_cast<int>(std::log10(static_cast<double>(rows)));
  const auto factor = static_cast<double>(rows) / std::pow(10, exponent);
  return factor < 1.01 ? str("10^", exponent) : str(factor, "x10^", exponent);
}

std::string case_text(const Case& c, Choice choice, bool pushes) {
  constexpr const char* kChoices[] = {"uniform", "zipfian", "half one key"};
  return str(
      pushes ? "push" : "pull",
      c.accessor == ps::Accessor::Embedding ? "" : ", with shows and clicks",
      ", dim ",
      c.dim,
      ", ",
      rows_text(c.rows),
      " rows, ",
      kChoices[static_cast<int>(choice)]);
}

ps::SparseConfig config_for(const Case& c) {
  ps::SparseConfig config = ps::embedding_config(c.dim, {});
  config.accessor = c.accessor;
  config.embedx_threshold = 0;
  config.refuse_non_finite = true;
  return config;
}

// One case: all stores filled, then pulls and pushes with each choice of keys.
void run_case(const Case& c, int rounds, Report& report) {
  OurStore ours(config_for(c));
  const ps::RowLayout layout = ours.table.layout();
  const auto push_dim = static_cast<std::size_t>(layout.push_dim);
  fill(ours, c.rows, push_dim);
  Array array(c.rows, c.dim);
  const TempDir folder("argosy_bench");
  std::vector<std::pair<std::string, std::unique_ptr<Store>>> peers;
  for (const std::string& name : c.peers) {
    peers.emplace_back(name, make_peer(name, c.dim, folder.path().string()));
    fill(*peers.back().second, c.rows, static_cast<std::size_t>(c.dim));
  }
  for (const Choice choice : c.choices) {
    for (const bool pushes : {false, true}) {
      Work work{
          choose_rows(c.rows, choice),
          static_cast<std::size_t>(layout.pull_dim),
          std::vector<float>(kBatch * push_dim, 0.01f),
          pushes};
      Work by_row = work;
      for (std::uint64_t& key : work.keys) {
        key = key_of(key);
      }
      Work plain = work;
      plain.gradients.resize(kBatch * static_cast<std::size_t>(c.dim));
      std::vector<Contestant> contestants = {
          {"ours", [&] { return run_work(ours, work); }},
          {"memory", [&] { return run_work(array, by_row); }}};
      for (auto& [name, store] : peers) {
        contestants.emplace_back(
            name, [&, peer = store.get()] { return run_work(*peer, plain); });
      }
      report.add(race(
          case_text(c, choice, pushes),
          "M keys/s",
          Better::Higher,
          rounds,
          contestants));
    }
  }
}

Row figure(const std::string& what, const std::string& unit, double value) {
  Row row;
  row.what = what;
  row.unit = unit;
  row.ours = value;
  return row;
}

// How long inserts of 64 rows take at most while a table grows, and what a row
// costs besides its key and values.
void run_growth(std::uint64_t rows, Report& report) {
  constexpr int kDim = 8;
  OurStore store(ps::embedding_config(kDim, {}));
  const std::vector<float> gradients(64 * kDim, 0.01f);
  Keys keys(64);
  double longest = 0;
  double passed = 0;
  for (std::uint64_t row = 0; row < rows; row += keys.size()) {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      keys[i] = key_of(row + i);
    }
    const double took = milliseconds_of([&] { store.push(keys, gradients); });
    longest = std::max(longest, took);
    passed += took;
  }
  const std::string size = rows_text(rows) + " rows";
  report.add(figure("longest insert of 64 rows, " + size, "ms", longest));
  Row speed = figure(
      "insert, dim 8, " + size,
      "M keys/s",
      million_keys_a_second(rows, passed));
  speed.better = Better::Higher;
  report.add(speed);
  const ps::PartitionStat stat = store.table.stat();
  report.add(figure(
      "bytes of a row besides key and values, " + size,
      "bytes",
      static_cast<double>(stat.memory_bytes) / static_cast<double>(stat.rows) -
          (8 + 4 * (kDim + 1))));
}

// A tenth of the rows in memory, the others in RocksDB.
void run_ssd(std::uint64_t rows, Report& report) {
  const TempDir folder("argosy_bench");
  ps::SparseConfig config = ps::embedding_config(8, {});
  config.on_ssd = true;
  config.ssd.folder = folder.path().string();
  config.ssd.max_rows_in_memory = rows / 10;
  OurStore store(config);
  fill(store, rows, 8);
  for (const Choice choice : {Choice::Zipfian, Choice::Uniform}) {
    for (const bool pushes : {false, true}) {
      Work work{
          choose_rows(rows, choice),
          8,
          std::vector<float>(kBatch * 8, 1),
          pushes};
      for (std::uint64_t& key : work.keys) {
        key = key_of(key);
      }
      run_work(store, work); // what is hot comes to memory
      const ps::PartitionStat before = store.table.stat();
      Row row = figure(
          case_text({8, rows, {}, {}}, choice, pushes) + ", 1/10 in memory",
          "M keys/s",
          run_work(store, work));
      row.better = Better::Higher;
      const ps::PartitionStat after = store.table.stat();
      row.extra["also % found in memory"] = 100 *
          (1 -
           static_cast<double>(after.disk_hits - before.disk_hits) /
               static_cast<double>(after.lookups - before.lookups));
      report.add(row);
    }
  }
}

void run(const Flags& flags) {
  using enum Choice;
  Report report("ps_table", flags);
  const int rounds = flags.quick ? 2 : 5;
  const std::vector<std::string> maps = {"std::unordered_map", "abseil"};
  run_case(
      {16,
       flags.quick ? 2'000'000u : 10'000'000u,
       maps,
       {Uniform, Zipfian, Hotspot}},
      rounds,
      report);
  std::vector<std::string> all = maps;
  all.insert(all.end(), {"RocksDB", "Redis"});
  run_case(
      {16, flags.quick ? 200'000u : 1'000'000u, all, {Uniform, Zipfian}},
      rounds,
      report);
  run_case(
      {16,
       flags.quick ? 1'000'000u : 10'000'000u,
       {},
       {Uniform, Zipfian},
       ps::Accessor::CtrCommon},
      rounds,
      report);
  if (!flags.quick) {
    run_case({8, 1'000'000, maps, {Uniform, Zipfian}}, rounds, report);
    run_case({64, 1'000'000, maps, {Uniform, Zipfian}}, rounds, report);
    run_case({8, 100'000'000, {}, {Uniform, Zipfian}}, rounds, report);
  }
  run_growth(flags.quick ? 2'000'000 : 20'000'000, report);
  run_ssd(flags.quick ? 300'000 : 10'000'000, report);
  report.finish();
}

} // namespace
} // namespace argosy::bench

int main(int argc, char** argv) {
  return argosy::record(
      [&] { argosy::bench::run(argosy::bench::parse_flags(argc, argv)); });
}
