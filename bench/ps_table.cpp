// Keys that the tables of the parameter server pull and push in a second on one
// core, beside what memory allows and other stores.

#include "argosy/argosy.h"
#include "argosy/common/file.h"
#include "bench/harness.h"
#include "bench/ps_work.h"

namespace argosy::bench {
namespace {

struct Case {
  int dim;
  std::uint64_t rows;
  std::vector<std::string> peers;
  std::vector<Choice> choices;
  ps::Accessor accessor = ps::Accessor::Embedding;
};

std::string case_text(const Case& c, Choice choice, bool pushes) {
  return str(
      pushes ? "push" : "pull",
      c.accessor == ps::Accessor::Embedding ? "" : ", with shows and clicks",
      ", dim ",
      c.dim,
      ", ",
      rows_text(c.rows),
      " rows, ",
      to_string(choice));
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
  ArrayStore array(c.rows, c.dim);
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

// How long inserts of 64 rows take at most while a table grows, and what a row
// costs besides its key and values.
void run_growth(std::uint64_t rows, Report& report) {
  constexpr int kDim = 8;
  OurStore store(ps::embedding_config(kDim, {}));
  const Filled filled = fill(store, rows, kDim, 64);
  const std::string size = rows_text(rows) + " rows";
  report.add(
      figure("longest insert of 64 rows, " + size, "ms", filled.longest_ms));
  report.add(figure(
      "insert, dim 8, " + size,
      "M keys/s",
      million_keys_a_second(rows, filled.passed_ms),
      Better::Higher));
  const ps::PartitionStat stat = store.table.stat();
  report.add(figure(
      "bytes of a row besides key and values, " + size,
      "bytes",
      static_cast<double>(stat.memory_bytes) / static_cast<double>(stat.rows) -
          (8 + 4 * (kDim + 1))));
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
  }
  run_growth(flags.quick ? 2'000'000 : 10'000'000, report);
  report.finish();
}

} // namespace
} // namespace argosy::bench

int main(int argc, char** argv) {
  return argosy::record(
      [&] { argosy::bench::run(argosy::bench::parse_flags(argc, argv)); });
}
