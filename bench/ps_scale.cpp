// The tables of the parameter server with 10^8 rows: in memory, and with a
// tenth of them there and the others in RocksDB. Takes about ten minutes, 8 GB
// of memory and 10 GB of disk; `make bench` leaves it out.
// usage: ps_scale [--rows=N] [--only=memory|ssd] [--quick] [--json]

#include <filesystem>

#include "argosy/argosy.h"
#include "argosy/common/file.h"
#include "bench/harness.h"
#include "bench/ps_work.h"

namespace argosy::bench {
namespace {

constexpr int kDim = 8;
constexpr auto kWidth = static_cast<std::size_t>(kDim);

std::string work_text(std::uint64_t rows, Choice choice, bool pushes) {
  return str(
      pushes ? "push" : "pull",
      ", dim 8, ",
      rows_text(rows),
      " rows, ",
      to_string(choice));
}

Work work_for(Keys keys, bool pushes) {
  return {
      std::move(keys),
      kWidth,
      std::vector<float>(kBatch * kWidth, 0.01f),
      pushes};
}

void report_fill(
    std::uint64_t rows,
    const char* where,
    std::size_t batch,
    const Filled& filled,
    Report& report) {
  const std::string size = str(rows_text(rows), " rows", where);
  report.add(figure(
      "insert, dim 8, " + size,
      "M keys/s",
      million_keys_a_second(rows, filled.passed_ms),
      Better::Higher));
  report.add(figure(
      str("longest insert of ", batch, " rows, ", size),
      "ms",
      filled.longest_ms));
}

void report_memory(
    std::uint64_t rows,
    const char* where,
    const OurStore& store,
    Report& report) {
  const ps::PartitionStat stat = store.table.stat();
  report.add(figure(
      str("memory of ", rows_text(rows), " rows, dim 8", where),
      "bytes a row",
      static_cast<double>(stat.memory_bytes) / static_cast<double>(stat.rows)));
}

double bytes_below(const std::filesystem::path& folder) {
  double bytes = 0;
  for (const auto& file :
       std::filesystem::recursive_directory_iterator(folder)) {
    bytes += file.is_regular_file() ? static_cast<double>(file.file_size()) : 0;
  }
  return bytes;
}

void run_in_memory(std::uint64_t rows, Report& report) {
  OurStore ours(ps::embedding_config(kDim, {}));
  constexpr std::size_t kFew = 64;
  report_fill(rows, "", kFew, fill(ours, rows, kWidth, kFew), report);
  report_memory(rows, "", ours, report);
  ArrayStore array(rows, kDim);
  for (const Choice choice : {Choice::Uniform, Choice::Zipfian}) {
    for (const bool pushes : {false, true}) {
      const Work work = work_for(choose_keys(rows, choice), pushes);
      const Work by_row = work_for(choose_rows(rows, choice), pushes);
      report.add(race(
          work_text(rows, choice, pushes),
          "M keys/s",
          Better::Higher,
          3,
          {{"ours", [&] { return run_work(ours, work); }},
           {"memory", [&] { return run_work(array, by_row); }}}));
    }
  }
}

// What is hot comes to memory first; then speed and hits are counted.
Row measure_on_ssd(
    OurStore& store, std::uint64_t rows, Choice choice, bool pushes) {
  constexpr double kWarmMs = 10'000;
  constexpr double kMeasureMs = 5'000;
  const Work work = work_for(choose_keys(rows, choice), pushes);
  run_work(store, work, kWarmMs);
  const ps::PartitionStat before = store.table.stat();
  Row row = figure(
      work_text(rows, choice, pushes) + ", 1/10 in memory",
      "M keys/s",
      run_work(store, work, kMeasureMs),
      Better::Higher);
  const ps::PartitionStat after = store.table.stat();
  row.extra["also % found in memory"] = 100 *
      (1 -
       static_cast<double>(after.disk_hits - before.disk_hits) /
           static_cast<double>(after.lookups - before.lookups));
  return row;
}

void run_on_ssd(std::uint64_t rows, Report& report) {
  const TempDir folder("argosy_bench");
  ps::SparseConfig config = ps::embedding_config(kDim, {});
  config.on_ssd = true;
  config.ssd.folder = folder.path().string();
  config.ssd.max_rows_in_memory = rows / 10;
  OurStore store(config);
  const char* const where = ", 1/10 in memory";
  report_fill(rows, where, kBatch, fill(store, rows, kWidth), report);
  report_memory(rows, where, store, report);
  report.add(figure(
      "disk of " + rows_text(rows) + " rows" + where,
      "bytes a row",
      bytes_below(folder.path()) / static_cast<double>(rows)));
  for (const Choice choice : {Choice::Zipfian, Choice::Uniform}) {
    for (const bool pushes : {false, true}) {
      report.add(measure_on_ssd(store, rows, choice, pushes));
    }
  }
}

struct Scale {
  std::uint64_t rows = 0; // 0: by the other flags
  std::string only;       // "memory" or "ssd"; empty: both
  std::vector<char*> rest;
};

Scale parse_scale(int argc, char** argv) {
  Scale scale;
  for (int i = 0; i < argc; ++i) {
    const std::string word = argv[i];
    if (word.starts_with("--rows=")) {
      scale.rows = std::stoull(word.substr(7));
    } else if (word == "--only=memory" || word == "--only=ssd") {
      scale.only = word.substr(7);
    } else {
      scale.rest.push_back(argv[i]);
    }
  }
  return scale;
}

void run(int argc, char** argv) {
  Scale scale = parse_scale(argc, argv);
  const Flags flags =
      parse_flags(static_cast<int>(scale.rest.size()), scale.rest.data());
  Report report("ps_scale", flags);
  if (scale.rows == 0) {
    scale.rows = flags.quick ? 1'000'000 : 100'000'000;
  }
  if (scale.only != "ssd") {
    run_in_memory(scale.rows, report);
  }
  if (scale.only != "memory") {
    run_on_ssd(scale.rows, report);
  }
  report.finish();
}

} // namespace
} // namespace argosy::bench

int main(int argc, char** argv) {
  return argosy::record([&] { argosy::bench::run(argc, argv); });
}
