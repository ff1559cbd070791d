#include <algorithm>
#include <map>

#include "argosy/common/error.h"
#include "argosy/compat/layer_rule.h"

namespace argosy::compat {

namespace {

constexpr char kWhole = '-';
constexpr char kAny = '*';

using Slices = std::vector<std::int64_t>;

std::string without_any(std::string letters) {
  std::erase(letters, kAny);
  return letters;
}

// With a letter for each dim, when the strategy has a number for each.
std::string expanded(std::string letters, std::size_t numbers) {
  const std::size_t star = letters.find(kAny);
  const std::size_t named = without_any(letters).size();
  if (star == std::string::npos || numbers <= named) {
    return letters;
  }
  std::string between;
  for (char letter = 'A'; between.size() < numbers - named; ++letter) {
    between += letter;
  }
  return letters.replace(star, 1, between);
}

// Dims that stay whole get letters of their own, as strategy_placements() takes
// equal letters for equal dims.
class OwnLetters {
 public:
  std::string operator()(
      const std::string& what, std::string letters, const Slices& slices) {
    for (std::size_t dim = 0; dim < letters.size(); ++dim) {
      if (letters[dim] == kWhole) {
        ARGOSY_CHECK(
            dim >= slices.size() || slices[dim] == 1,
            "[shard_layer_by] {} slices of dim {} of the {}, which the layer "
            "needs whole: expected 1",
            slices[dim],
            dim,
            what);
        letters[dim] = next_++;
      }
    }
    return letters;
  }

 private:
  char next_ = '\x80'; // no letter of a rule, which is ASCII
};

// The slices of an operand that the strategy does not name.
Slices slices_of(
    const std::string& letters, const std::map<char, std::int64_t>& known) {
  Slices slices;
  for (const char letter : letters) {
    const auto found = known.find(letter);
    slices.push_back(found == known.end() ? 1 : found->second);
  }
  return slices;
}

void note(
    const std::string& letters,
    const Slices& slices,
    std::map<char, std::int64_t>& known) {
  for (std::size_t i = 0; i < std::min(letters.size(), slices.size()); ++i) {
    known.emplace(letters[i], slices[i]);
  }
}

} // namespace

Placements LayerPlacements::of_input(std::int64_t dims) const {
  const auto named = static_cast<std::int64_t>(without_any(input).size());
  const std::size_t star = input.find(kAny);
  ARGOSY_CHECK(
      star == std::string::npos ? dims == named : dims >= named,
      "[shard_layer_by] an input of {} dims, expected {}{}",
      dims,
      named,
      star == std::string::npos ? "" : " or more");
  Placements placements = letters;
  for (std::size_t axis = 0; axis < placements.size(); ++axis) {
    if (star != std::string::npos && placements[axis].is_shard() &&
        placements[axis].dim() >= static_cast<int>(star)) {
      placements[axis] =
          Shard(placements[axis].dim() + static_cast<int>(dims - named));
    }
  }
  return placements;
}

LayerPlacements place_layer(
    const ProcessMesh& mesh,
    const LayerRule& rule,
    const OpStrategy& strategy) {
  ARGOSY_CHECK(
      strategy.size() == 1 || (strategy.size() == 2 && !rule.states.empty()),
      "[shard_layer_by] a strategy of {} operands, expected slices of the "
      "input{}",
      strategy.size(),
      rule.states.empty() ? " alone" : ", and perhaps of the first parameter");
  LayerPlacements placed{expanded(rule.input, strategy[0].size()), {}, {}};
  OwnLetters own;
  std::map<char, std::int64_t> known;
  std::vector<std::string> letters{
      own("input", without_any(placed.input), strategy[0])};
  OpStrategy slices{strategy[0]};
  note(letters[0], strategy[0], known);
  for (std::size_t i = 0; i < rule.states.size(); ++i) {
    const bool is_given = i == 0 && strategy.size() == 2;
    const auto& [name, dims] = rule.states[i];
    letters.push_back(own(name, dims, is_given ? strategy[1] : Slices()));
    slices.push_back(is_given ? strategy[1] : slices_of(letters.back(), known));
    note(letters.back(), slices.back(), known);
  }
  const auto placements = strategy_placements(mesh, letters, slices);
  placed.letters = placements[0];
  for (std::size_t i = 0; i < rule.states.size(); ++i) {
    placed.states.emplace_back(rule.states[i].first, placements[i + 1]);
  }
  return placed;
}

} // namespace argosy::compat
