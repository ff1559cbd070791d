// Lookups in exports for serving, beside the table of a parameter server in the
// same process, and std::unordered_map.

#include <numeric>
#include <random>
#include <unordered_map>

#include "argosy/argosy.h"
#include "argosy/common/file.h"
#include "argosy/ps/table/sparse_table.h"
#include "argosy/serving/export_writer.h"
#include "argosy/serving/reader.h"
#include "bench/harness.h"

namespace argosy::bench {
namespace {

constexpr std::size_t kDim = 16;
constexpr std::size_t kBatch = 2048; // keys of a lookup

using Keys = std::vector<std::uint64_t>;

Deadline soon() {
  return Deadline::after(std::chrono::minutes(2));
}

std::string write_export(
    const TempDir& folder,
    const serving::ExportInfo& info,
    std::span<const std::uint64_t> keys) {
  serving::ExportWriter writer(folder.path(), info, soon());
  writer.begin_table("rows", kDim);
  const std::vector<float> row(kDim, 1);
  for (const std::uint64_t key : keys) {
    writer.add_row(key, row);
  }
  return writer.commit();
}

// Million rows a second of lookups of random keys that are there.
double rows_per_second(
    const Keys& keys,
    const std::function<void(std::span<const std::uint64_t>, std::span<float>)>&
        lookup) {
  std::mt19937_64 random(7);
  Keys asked(kBatch * 64);
  for (std::uint64_t& key : asked) {
    key = keys[random() % keys.size()];
  }
  std::vector<float> rows(kBatch * kDim);
  const double ms = milliseconds_of([&] {
    for (std::size_t at = 0; at < asked.size(); at += kBatch) {
      lookup(std::span(asked).subspan(at, kBatch), rows);
    }
  });
  return static_cast<double>(asked.size()) / ms / 1e3;
}

void run(const Flags& flags) {
  Report report("serving", flags);
  const int rounds = flags.quick ? 5 : 15;
  Keys keys(flags.quick ? 1000000 : 4000000);
  std::iota(keys.begin(), keys.end(), std::uint64_t{1} << 40);
  const TempDir folder;
  const std::string hash = write_export(folder, {.name = {1}}, keys);
  const serving::Reader base(folder.path());
  const auto model = base.snapshot();
  write_export(
      folder,
      {.name = {2, serving::ExportKind::Delta}, .parent = hash},
      std::span(keys).first(keys.size() / 10));
  const serving::Reader both(folder.path());
  const auto changed = both.snapshot();

  ps::SparseTable table(ps::embedding_config(kDim, {.rule = ps::Rule::Naive}));
  std::vector<float> rows(keys.size() * kDim);
  table.pull(keys, rows);
  std::unordered_map<std::uint64_t, std::array<float, kDim>> map;
  for (const std::uint64_t key : keys) {
    map[key].fill(1);
  }
  const auto of_map = [&](auto asked, auto to) {
    for (std::size_t i = 0; i < asked.size(); ++i) {
      std::ranges::copy(map.find(asked[i])->second, to.begin() + i * kDim);
    }
  };
  report.add(race(
      str("lookups of ", keys.size() / 1000000, " M rows of ", kDim),
      "M rows/s",
      Better::Higher,
      rounds,
      {{"ours",
        [&] {
          return rows_per_second(keys, [&](auto asked, auto to) {
            model->lookup("rows", asked, to);
          });
        }},
       {"table",
        [&] {
          return rows_per_second(
              keys, [&](auto asked, auto to) { table.pull(asked, to, false); });
        }},
       {"unordered_map", [&] { return rows_per_second(keys, of_map); }}}));
  report.add(race(
      "the same, a tenth in a delta",
      "M rows/s",
      Better::Higher,
      rounds,
      {{"ours", [&] {
          return rows_per_second(keys, [&](auto asked, auto to) {
            changed->lookup("rows", asked, to);
          });
        }}}));
  const auto path = folder.path() / "00000001.base";
  const auto bytes = static_cast<double>(std::filesystem::file_size(path));
  report.add(race(
      "open and verify an export",
      "GB/s",
      Better::Higher,
      rounds,
      {{"ours", [&] {
          return bytes / 1e6 /
              milliseconds_of([&] { const serving::ExportFile file(path); });
        }}}));
  report.finish();
}

} // namespace
} // namespace argosy::bench

int main(int argc, char** argv) {
  return argosy::record(
      [&] { argosy::bench::run(argosy::bench::parse_flags(argc, argv)); });
}
