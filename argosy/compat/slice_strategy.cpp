#include "argosy/compat/slice_strategy.h"

#include <algorithm>
#include <bit>
#include <map>
#include <optional>
#include <utility>

#include "argosy/common/error.h"

namespace argosy {

namespace {

using Slices = std::map<char, std::int64_t>;

void check_numbers(
    const std::vector<std::string>& letters, const OpStrategy& strategy) {
  ARGOSY_CHECK(
      letters.size() == strategy.size(),
      "[strategy] {} operands, expected {}",
      strategy.size(),
      letters.size());
  for (std::size_t i = 0; i < letters.size(); ++i) {
    ARGOSY_CHECK(
        letters[i].size() == strategy[i].size(),
        "[strategy] operand {} has {} dims, the strategy has {}",
        i,
        letters[i].size(),
        strategy[i].size());
  }
}

// The number of slices of each letter, on which all operands must agree.
Slices slices_of(
    const std::vector<std::string>& letters, const OpStrategy& strategy) {
  Slices slices;
  for (std::size_t i = 0; i < letters.size(); ++i) {
    for (std::size_t dim = 0; dim < letters[i].size(); ++dim) {
      const std::int64_t count = strategy[i][dim];
      ARGOSY_CHECK(
          count >= 1,
          "[strategy] {} slices of dim {} of operand {}, expected 1 or more",
          count,
          dim,
          i);
      const auto [known, is_new] = slices.emplace(letters[i][dim], count);
      ARGOSY_CHECK(
          is_new || known->second == count,
          "[strategy] dim {} of operand {} is sliced into {}, but another "
          "operand slices the same dim ({}) into {}",
          dim,
          i,
          count,
          letters[i][dim],
          known->second);
    }
  }
  return slices;
}

// Assigns mesh axes to letters.
class Axes {
 public:
  explicit Axes(const ProcessMesh& mesh)
      : mesh_(mesh), owner_(mesh.shape().size(), 0) {}

  // Takes the fewest free axes whose sizes multiply to `slices`; ties go to the
  // first. Meshes have few axes, so trying all subsets is cheap.
  void take(char letter, std::int64_t slices) {
    std::optional<unsigned> best;
    for (unsigned set = 0; set < 1u << owner_.size(); ++set) {
      if (makes(set, slices) &&
          (!best || std::popcount(set) < std::popcount(*best))) {
        best = set;
      }
    }
    ARGOSY_CHECK(
        best.has_value(),
        "[strategy] {} has no axes left for {} slices of dim {}",
        mesh_,
        slices,
        letter);
    for (std::size_t axis = 0; axis < owner_.size(); ++axis) {
      if ((*best >> axis & 1) != 0) {
        owner_[axis] = letter;
      }
    }
  }

  Placements placements(const std::string& letters) const {
    Placements result(owner_.size(), Replicate());
    for (std::size_t axis = 0; axis < owner_.size(); ++axis) {
      // An axis whose letter the operand lacks does not split it.
      const std::size_t dim = letters.find(owner_[axis]);
      if (owner_[axis] != 0 && dim != std::string::npos) {
        result[axis] = Shard(static_cast<int>(dim));
      }
    }
    return result;
  }

 private:
  bool makes(unsigned set, std::int64_t slices) const {
    std::int64_t product = 1;
    for (std::size_t axis = 0; axis < owner_.size(); ++axis) {
      if ((set >> axis & 1) != 0) {
        // A taken axis makes the product 0, which is no number of slices.
        product *= owner_[axis] == 0 ? mesh_.shape()[axis] : 0;
      }
    }
    return product == slices;
  }

  const ProcessMesh& mesh_;
  std::vector<char> owner_; // the letter of each axis; 0: none
};

} // namespace

// Letters name dims as in einsum: equal letters are the same dim of the op and
// must be split over the same axes. So axes are assigned to letters, and each
// operand takes the axes of its letters.
std::vector<Placements> strategy_placements(
    const ProcessMesh& mesh,
    const std::vector<std::string>& letters,
    const OpStrategy& strategy) {
  check_numbers(letters, strategy);
  const Slices slices = slices_of(letters, strategy);
  Axes axes(mesh);
  std::string taken;
  for (const std::string& operand : letters) {
    for (const char letter : operand) {
      // In order of appearance, so that all ranks assign the same axes.
      if (taken.find(letter) == std::string::npos) {
        axes.take(letter, slices.at(letter));
        taken += letter;
      }
    }
  }
  std::vector<Placements> placements;
  for (const std::string& operand : letters) {
    placements.push_back(axes.placements(operand));
  }
  return placements;
}

std::vector<Placements> dataset_placements(
    const ProcessMesh& mesh, const OpStrategy& strategy) {
  constexpr char kSliced = 'a';
  char whole = kSliced;
  std::vector<std::string> letters;
  std::size_t most_dims = 0; // of all inputs, and of those that are sliced
  std::size_t most_dims_sliced = 0;
  for (const auto& input : strategy) {
    std::string dims;
    for (const std::int64_t slices : input) {
      dims += slices > 1 ? kSliced : ++whole;
    }
    const auto sliced = std::ranges::count(dims, kSliced);
    ARGOSY_CHECK(
        sliced <= 1,
        "[dataset_strategy] {} dims of input {} are sliced, expected at most 1",
        sliced,
        letters.size());
    most_dims = std::max(most_dims, dims.size());
    most_dims_sliced =
        sliced > 0 ? std::max(most_dims_sliced, dims.size()) : most_dims_sliced;
    letters.push_back(std::move(dims));
  }
  ARGOSY_CHECK(
      most_dims_sliced == 0 || most_dims_sliced == most_dims,
      "[dataset_strategy] the sliced inputs have at most {} dims, expected one "
      "of those with {} to be sliced too",
      most_dims_sliced,
      most_dims);
  return strategy_placements(mesh, letters, strategy);
}

} // namespace argosy
