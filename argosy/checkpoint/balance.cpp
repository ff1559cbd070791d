#include "argosy/checkpoint/balance.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace argosy::checkpoint {

namespace {

// Each round brings the loads nearer to the best; most layouts need one.
constexpr int kMaxRounds = 30;

// The level up to which `bytes` fill up `loads`, lowest first.
double fill_level(std::vector<double> loads, double bytes) {
  std::ranges::sort(loads);
  double sum = bytes;
  double level = 0;
  for (std::size_t i = 0; i < loads.size(); ++i) {
    if (i > 0 && loads[i] >= level) {
      break;
    }
    sum += loads[i];
    level = sum / static_cast<double>(i + 1);
  }
  return level;
}

// Takes back what a lot gave and shares it out anew. Returns how much changed.
double refill(const Lot& lot, std::vector<double>& loads, Quotas& quotas) {
  std::vector<double> others;
  for (std::size_t i = 0; i < lot.ranks.size(); ++i) {
    auto& load = loads[static_cast<std::size_t>(lot.ranks[i])];
    load -= quotas[i];
    others.push_back(load);
  }
  const double level = fill_level(others, static_cast<double>(lot.bytes));
  double change = 0;
  for (std::size_t i = 0; i < lot.ranks.size(); ++i) {
    const double quota = std::max(level - others[i], 0.0);
    change += std::abs(quota - quotas[i]);
    quotas[i] = quota;
    loads[static_cast<std::size_t>(lot.ranks[i])] += quota;
  }
  return change;
}

} // namespace

// Each refill lowers the sum of the squares of loads, whose only minimum is the
// most equal distribution. Small sets of ranks come first: they have the least
// choice, and then nested sets need one round.
std::vector<Quotas> share_out(
    const std::vector<Lot>& lots, std::vector<double>& loads) {
  std::vector<Quotas> quotas;
  double total = 0;
  for (const Lot& lot : lots) {
    quotas.emplace_back(lot.ranks.size(), 0.0);
    total += static_cast<double>(lot.bytes);
  }
  std::vector<std::size_t> order(lots.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(
      order, {}, [&](std::size_t i) { return lots[i].ranks.size(); });
  for (int round = 0; round < kMaxRounds; ++round) {
    double change = 0;
    for (const std::size_t i : order) {
      change += refill(lots[i], loads, quotas[i]);
    }
    if (change <= total * 1e-4) {
      break;
    }
  }
  return quotas;
}

namespace {

// Hands up to `bytes` of a lot to ranks with a load below `level`. Returns how
// many found a taker.
double hand_on(
    Lot& lot,
    Quotas& quotas,
    double bytes,
    double level,
    std::vector<double>& loads,
    const std::vector<int>& ranks) {
  double handed = 0;
  for (const int rank : ranks) {
    double& load = loads[static_cast<std::size_t>(rank)];
    const double now = std::min(bytes - handed, level - load);
    if (now < 1) {
      continue;
    }
    const auto at = static_cast<std::size_t>(
        std::ranges::find(lot.ranks, rank) - lot.ranks.begin());
    if (at == lot.ranks.size()) {
      lot.ranks.push_back(rank);
      quotas.push_back(0);
    }
    quotas[at] += now;
    load += now;
    handed += now;
  }
  return handed;
}

} // namespace

void relieve(
    std::vector<Lot>& lots,
    std::vector<Quotas>& quotas,
    std::vector<double>& loads,
    const std::vector<int>& ranks,
    double tolerance) {
  double level = 0;
  for (const int rank : ranks) {
    level += loads[static_cast<std::size_t>(rank)] /
        static_cast<double>(ranks.size());
  }
  const std::vector<double> before = loads;
  const auto is_relieved = [&](int rank) {
    return before[static_cast<std::size_t>(rank)] > level + tolerance;
  };
  if (std::ranges::none_of(ranks, is_relieved)) {
    return;
  }
  for (std::size_t lot = 0; lot < lots.size(); ++lot) {
    for (std::size_t i = 0; i < lots[lot].ranks.size(); ++i) {
      const int rank = lots[lot].ranks[i];
      double& load = loads[static_cast<std::size_t>(rank)];
      if (is_relieved(rank) && load > level) {
        const double bytes = hand_on(
            lots[lot],
            quotas[lot],
            std::min(load - level, quotas[lot][i]),
            level,
            loads,
            ranks);
        quotas[lot][i] -= bytes;
        load -= bytes;
      }
    }
  }
}

std::vector<Share> deal(
    const std::vector<LotItem>& items, const Quotas& quotas) {
  std::vector<Share> shares;
  std::size_t taker = 0;
  double quota_end = quotas.at(0); // of this taker, from the first item on
  double item_begin = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const auto grain = static_cast<double>(items[i].grain);
    const std::uint64_t end = items[i].num_grains();
    std::uint64_t begin = 0;
    while (begin < end) {
      std::uint64_t cut = end;
      if (taker + 1 < quotas.size()) {
        const double grains = std::round((quota_end - item_begin) / grain);
        cut = static_cast<std::uint64_t>(std::clamp(
            grains, static_cast<double>(begin), static_cast<double>(end)));
      }
      if (cut > begin) {
        shares.push_back({i, taker, begin, cut});
      }
      begin = cut;
      if (begin < end) {
        quota_end += quotas[++taker];
      }
    }
    item_begin += static_cast<double>(items[i].bytes);
  }
  return shares;
}

} // namespace argosy::checkpoint
