// The tables of the parameter server with 10^8 rows: in memory, and with a
// tenth of them there and the others in RocksDB. Takes about ten minutes, 8 GB
// of memory and 10 GB of disk; `make bench` leaves it out.
// usage: ps_scale [--quick] [--json]

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
    const Filled& filled,
    Report& report) {
  const std::string size = str(rows_text(rows), " rows", where);
  report.add(figure(
      "insert, dim 8, " + size,
      "M keys/s",
      million_keys_a_second(rows, filled.passed_ms),
      Better::Higher));
  report.add(
      figure("longest insert of 64 rows, " + size, "ms", filled.longest_ms));
}

void run_in_memory(std::uint64_t rows, Report& report) {
  OurStore ours(ps::embedding_config(kDim, {}));
  report_fill(rows, "", fill(ours, rows, kWidth, 64), report);
  const ps::PartitionStat stat = ours.table.stat();
  report.add(figure(
      "memory of " + rows_text(rows) + " rows, dim 8",
      "bytes a row",
      static_cast<double>(stat.memory_bytes) / static_cast<double>(stat.rows)));
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
  const Filled filled = fill(store, rows, kWidth);
  report.add(figure(
      "insert, dim 8, " + rows_text(rows) + " rows, 1/10 in memory",
      "M keys/s",
      million_keys_a_second(rows, filled.passed_ms),
      Better::Higher));
  for (const Choice choice : {Choice::Zipfian, Choice::Uniform}) {
    for (const bool pushes : {false, true}) {
      report.add(measure_on_ssd(store, rows, choice, pushes));
    }
  }
}

void run(const Flags& flags) {
  Report report("ps_scale", flags);
  const std::uint64_t rows = flags.quick ? 1'000'000 : 100'000'000;
  run_in_memory(rows, report);
  run_on_ssd(rows, report);
  report.finish();
}

} // namespace
} // namespace argosy::bench

int main(int argc, char** argv) {
  return argosy::record(
      [&] { argosy::bench::run(argosy::bench::parse_flags(argc, argv)); });
}
