#include "argosy/pipeline/segment.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>

#include "argosy/common/error.h"
#include "argosy/common/pattern.h"

namespace argosy::pipeline {
namespace {

void check_enough(int layers, int parts) {
  ARGOSY_CHECK(
      parts > 0 && layers >= parts,
      "[pipeline.segment] {} layers, expected at least one for each of {} "
      "parts",
      layers,
      parts);
}

// The cost of the layers [begin, end).
using PartCost = std::function<double(int begin, int end)>;
using Join = std::function<double(double, double)>;

// Dynamic programming: for each number of parts and of layers, the least
// combined cost of that many parts of the first layers, and where the last part
// begins.
struct Table {
  Table(int parts, int layers)
      : least(
            parts + 1,
            std::vector<double>(
                layers + 1, std::numeric_limits<double>::infinity())),
        begin(parts + 1, std::vector<int>(layers + 1, 0)) {
    least[0][0] = 0;
  }

  std::vector<std::vector<double>> least;
  std::vector<std::vector<int>> begin;
};

Table fill(int parts, int layers, const PartCost& cost, const Join& join) {
  Table table(parts, layers);
  for (int part = 1; part <= parts; ++part) {
    for (int end = part; end <= layers; ++end) {
      for (int begin = part - 1; begin < end; ++begin) {
        const double all = join(table.least[part - 1][begin], cost(begin, end));
        if (all < table.least[part][end]) {
          table.least[part][end] = all;
          table.begin[part][end] = begin;
        }
      }
    }
  }
  return table;
}

} // namespace

std::vector<int> segment_uniform(int layers, int parts) {
  check_enough(layers, parts);
  const int first_longer = parts - layers % parts;
  std::vector<int> borders{0};
  for (int part = 0; part < parts; ++part) {
    const int size = layers / parts + (part >= first_longer ? 1 : 0);
    borders.push_back(borders.back() + size);
  }
  return borders;
}

std::vector<int> segment_by_layer(
    const std::vector<std::string>& class_names,
    const std::string& pattern,
    int parts) {
  const Pattern classes(pattern, "[pipeline.segment]", Pattern::Case::Ignored);
  std::vector<int> ends; // right after each match
  for (std::size_t i = 0; i < class_names.size(); ++i) {
    if (classes.is_found_in(class_names[i])) {
      ends.push_back(static_cast<int>(i) + 1);
    }
  }
  const int matches = static_cast<int>(ends.size());
  ARGOSY_CHECK(
      parts > 0 && matches > 0 && matches % parts == 0,
      "[pipeline.segment] {} layers match '{}', expected a multiple of {} "
      "parts",
      matches,
      pattern,
      parts);
  std::vector<int> borders{0};
  for (int part = 1; part < parts; ++part) {
    borders.push_back(ends[part * (matches / parts) - 1]);
  }
  borders.push_back(static_cast<int>(class_names.size()));
  return borders;
}

std::vector<int> segment_explicit(
    const std::vector<int>& starts, int layers, int parts) {
  std::vector<int> borders = starts;
  if (static_cast<int>(starts.size()) == parts) {
    borders.push_back(layers);
  }
  ARGOSY_CHECK(
      parts > 0 && static_cast<int>(borders.size()) == parts + 1,
      "[pipeline.segment] {} starts, expected one for each of {} parts, and "
      "perhaps the end",
      starts.size(),
      parts);
  ARGOSY_CHECK(
      borders.front() == 0 && borders.back() == layers,
      "[pipeline.segment] parts of layers {} to {}, expected 0 to {}",
      borders.front(),
      borders.back(),
      layers);
  const auto empty = std::ranges::adjacent_find(borders, std::greater_equal{});
  ARGOSY_CHECK(
      empty == borders.end(),
      "[pipeline.segment] part {} begins at layer {}, expected that the next "
      "begins after it",
      empty - borders.begin(),
      *empty);
  return borders;
}

// Fills the table twice: first for the least possible maximum of the parts'
// costs, then for the least sum of squares among the splits that keep to this
// maximum. Prefix sums give the cost of a part in O(1). The comparison with
// `limit` is exact, since `limit` is itself one of the values of `sum`.
std::vector<int> balance(const std::vector<double>& cost, int parts) {
  const int layers = static_cast<int>(cost.size());
  check_enough(layers, parts);
  const auto odd =
      std::ranges::find_if_not(cost, [](double each) { return each >= 0; });
  ARGOSY_CHECK(
      odd == cost.end(),
      "[pipeline.segment] layer {} costs {}, expected at least 0",
      odd - cost.begin(),
      *odd);
  std::vector<double> before(layers + 1, 0.0);
  std::partial_sum(cost.begin(), cost.end(), before.begin() + 1);
  const PartCost sum = [&](int begin, int end) {
    return before[end] - before[begin];
  };
  const double limit = fill(parts, layers, sum, [](double a, double b) {
                         return std::max(a, b);
                       }).least[parts][layers];
  const PartCost square = [&](int begin, int end) {
    const double all = sum(begin, end);
    return all > limit ? std::numeric_limits<double>::infinity() : all * all;
  };
  const Table even = fill(parts, layers, square, std::plus{});
  std::vector<int> borders(parts + 1, layers);
  for (int part = parts; part > 0; --part) {
    borders[part - 1] = even.begin[part][borders[part]];
  }
  return borders;
}

} // namespace argosy::pipeline
