#include "argosy/testing/faults.h"

#include <algorithm>
#include <random>
#include <set>
#include <tuple>

#include "argosy/common/error.h"
#include "argosy/common/file.h"
#include "argosy/common/text.h"

namespace argosy::testing {

namespace {

// Not std::uniform_int_distribution, whose numbers differ between libraries.
std::size_t draw_below(std::mt19937_64& random, std::size_t bound) {
  return static_cast<std::size_t>(random() % bound);
}

template <typename T>
const T& draw_one(std::mt19937_64& random, const std::vector<T>& of) {
  return of[draw_below(random, of.size())];
}

} // namespace

std::vector<FaultVisits> read_fault_visits(
    const std::filesystem::path& folder) {
  std::map<std::pair<std::string, std::string>, int> counts;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (!entry.path().filename().string().starts_with("visits.")) {
      continue;
    }
    for (const auto& line : split(read_file(entry.path()).value_or(""), '\n')) {
      const auto words = split(line, ' ');
      if (words.size() == 2) {
        ++counts[{words[0], words[1]}];
      }
    }
  }
  std::vector<FaultVisits> visits;
  for (const auto& [key, count] : counts) {
    visits.push_back({key.first, key.second, count});
  }
  return visits;
}

std::string Fault::text() const {
  return str_format("{} {} at {}, visit {}", action, rank, point, number);
}

std::map<std::string, std::string> Fault::environment(
    const std::filesystem::path& mark) const {
  return {
      {"ARGOSY_FAULT", str(point, ":", action, ":", number)},
      {"ARGOSY_FAULT_RANK", rank},
      {"ARGOSY_FAULT_ONCE", mark.string()}};
}

Fault draw_fault(
    std::uint64_t seed,
    const std::vector<FaultVisits>& visits,
    const std::vector<std::string>& actions) {
  ARGOSY_CHECK(
      !visits.empty() && !actions.empty(),
      "[testing.draw_fault] {} visits and {} actions, expected at least one",
      visits.size(),
      actions.size());
  std::mt19937_64 random(seed);
  std::set<std::string> names;
  for (const FaultVisits& each : visits) {
    names.insert(each.point);
  }
  const std::string point =
      draw_one(random, std::vector<std::string>(names.begin(), names.end()));
  std::vector<FaultVisits> there;
  std::ranges::copy_if(
      visits, std::back_inserter(there), [&](const auto& each) {
        return each.point == point;
      });
  const FaultVisits& who = draw_one(random, there);
  return {
      .rank = who.rank,
      .point = point,
      .action = draw_one(random, actions),
      .number = 1 +
          static_cast<int>(
                    draw_below(random, static_cast<std::size_t>(who.count)))};
}

} // namespace argosy::testing
