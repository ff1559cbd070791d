#include "bench/harness.h"

#include <algorithm>
#include <cstdio>
#include <iostream>

#include "argosy/common/error.h"

namespace argosy::bench {

using nlohmann::json;

Flags parse_flags(int argc, char** argv) {
  Flags flags;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    ARGOSY_CHECK(
        word == "--quick" || word == "--json",
        "[bench] unknown flag {}; known are --quick and --json",
        word);
    (word == "--quick" ? flags.quick : flags.json) = true;
  }
  return flags;
}

double Row::ratio(const std::string& peer) const {
  const double other = peers.at(peer);
  return better == Better::Lower ? other / ours : ours / other;
}

Row race(
    const std::string& what,
    const std::string& unit,
    Better better,
    int rounds,
    const std::vector<Contestant>& contestants) {
  std::map<std::string, double> best;
  for (int round = 0; round < rounds; ++round) {
    for (const auto& [name, run] : contestants) {
      const double figure = run();
      const auto [entry, first] = best.emplace(name, figure);
      if (!first) {
        entry->second = better == Better::Lower
            ? std::min(entry->second, figure)
            : std::max(entry->second, figure);
      }
    }
  }
  Row row{.what = what, .unit = unit, .better = better};
  row.ours = best.at("ours");
  best.erase("ours");
  row.peers = std::move(best);
  return row;
}

Report::Report(std::string subject, Flags flags)
    : subject_(std::move(subject)), flags_(flags) {}

void Report::add(Row row) {
  if (!flags_.json) {
    std::printf(
        "%-52s %10.3f %s\n", row.what.c_str(), row.ours, row.unit.c_str());
    for (const auto& [peer, figure] : row.peers) {
      std::printf(
          "    %-48s %10.3f %s   ours is %.2f times better\n",
          peer.c_str(),
          figure,
          row.unit.c_str(),
          row.ratio(peer));
    }
    if (row.extra.contains("roofline_share")) {
      std::printf(
          "    %-48s %10.0f %%\n",
          "of what the memory can give",
          100 * row.extra["roofline_share"].get<double>());
    }
    std::fflush(stdout);
  }
  rows_.push_back(std::move(row));
}

void Report::finish() const {
  if (!flags_.json) {
    return;
  }
  json rows = json::array();
  for (const Row& row : rows_) {
    json entry = {{"what", row.what}, {"unit", row.unit}, {"ours", row.ours}};
    for (const auto& [peer, figure] : row.peers) {
      entry[peer] = figure;
      entry["ratio_" + peer] = row.ratio(peer);
    }
    entry.update(row.extra);
    rows.push_back(entry);
  }
  std::cout << json{{"subject", subject_}, {"rows", rows}}.dump(2) << "\n";
}

} // namespace argosy::bench
