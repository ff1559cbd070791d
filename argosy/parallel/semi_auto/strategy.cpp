#include "argosy/parallel/semi_auto/strategy.h"

#include <map>

#include "argosy/common/error.h"

namespace argosy {

namespace {

using Slices = std::map<char, std::int64_t>;

void check_numbers(
    const std::vector<std::string>& letters, const OpStrategy& strategy) {
  ARGOSY_CHECK(
      letters.size() == strategy.size(),
      "[strategy] ",
      strategy.size(),
      " operands, expected ",
      letters.size());
  for (std::size_t i = 0; i < letters.size(); ++i) {
    ARGOSY_CHECK(
        letters[i].size() == strategy[i].size(),
        "[strategy] operand ",
        i,
        " has ",
        letters[i].size(),
        " dims, the strategy tells of ",
        strategy[i].size());
  }
}

// Into how many slices each letter is cut, all operands agreeing.
Slices slices_of(
    const std::vector<std::string>& letters, const OpStrategy& strategy) {
  Slices slices;
  for (std::size_t i = 0; i < letters.size(); ++i) {
    for (std::size_t dim = 0; dim < letters[i].size(); ++dim) {
      const std::int64_t count = strategy[i][dim];
      ARGOSY_CHECK(
          count >= 1,
          "[strategy] ",
          count,
          " slices of dim ",
          dim,
          " of operand ",
          i,
          ", expected 1 or more");
      const auto [known, is_new] = slices.emplace(letters[i][dim], count);
      ARGOSY_CHECK(
          is_new || known->second == count,
          "[strategy] dim ",
          dim,
          " of operand ",
          i,
          " is cut into ",
          count,
          ", but another operand cuts the same dim (",
          letters[i][dim],
          ") into ",
          known->second);
    }
  }
  return slices;
}

// The axes that a letter takes, in their order: those that divide what is left
// of its slices.
class Axes {
 public:
  explicit Axes(const ProcessMesh& mesh)
      : mesh_(mesh), owner_(mesh.shape().size(), 0) {}

  void take(char letter, std::int64_t slices) {
    std::int64_t left = slices;
    for (std::size_t axis = 0; axis < owner_.size() && left > 1; ++axis) {
      const std::int64_t size = mesh_.shape()[axis];
      if (owner_[axis] == 0 && size > 1 && left % size == 0) {
        owner_[axis] = letter;
        left /= size;
      }
    }
    ARGOSY_CHECK(
        left == 1,
        "[strategy] ",
        mesh_,
        " has no axes left for ",
        slices,
        " slices of dim ",
        letter);
  }

  Placements placements(const std::string& letters) const {
    Placements result(owner_.size(), Replicate());
    for (std::size_t axis = 0; axis < owner_.size(); ++axis) {
      const std::size_t dim = letters.find(owner_[axis]);
      if (owner_[axis] != 0 && dim != std::string::npos) {
        result[axis] = Shard(static_cast<int>(dim));
      }
    }
    return result;
  }

 private:
  const ProcessMesh& mesh_;
  std::vector<char> owner_; // the letter of each axis; 0: none
};

} // namespace

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

} // namespace argosy
