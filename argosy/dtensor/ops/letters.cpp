#include "argosy/dtensor/ops/letters.h"

#include <ATen/ExpandUtils.h>

#include <set>

#include "argosy/common/error.h"

namespace argosy::dtensor {

namespace {

void place(
    std::vector<Placement>& placements,
    const std::vector<std::string>& letters,
    char letter,
    Placement otherwise) {
  for (std::size_t i = 0; i < letters.size() && i < placements.size(); ++i) {
    const std::size_t dim = letters[i].find(letter);
    placements[i] = dim == std::string::npos
        ? otherwise
        : Placement(Shard(static_cast<int>(dim)));
  }
}

} // namespace

std::vector<Strategy> by_letters(
    const OpCall& call,
    const std::vector<std::string>& inputs,
    const std::vector<std::string>& outputs) {
  std::set<char> letters;
  for (const std::string& each : inputs) {
    letters.insert(each.begin(), each.end());
  }
  letters.erase('-');
  std::vector<Strategy> strategies;
  for (const char letter : letters) {
    Strategy strategy = call.strategy();
    place(strategy.inputs, inputs, letter, Replicate());
    place(strategy.outputs, outputs, letter, Partial());
    strategies.push_back(std::move(strategy));
  }
  return strategies;
}

std::string broadcast_letters(
    const std::string& letters, const Shape& shape, const Shape& whole) {
  ARGOSY_ASSERT(shape.size() <= whole.size(), "more dims than the result");
  const std::size_t skipped = whole.size() - shape.size();
  std::string own = letters.substr(skipped, shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] != whole[d + skipped]) {
      own[d] = '-';
    }
  }
  return own;
}

Shape broadcast_shape(const OpCall& call) {
  Shape shape;
  for (std::size_t i = 0; i < call.num_inputs(); ++i) {
    shape = at::infer_size(shape, call.shape(i));
  }
  return shape;
}

std::vector<std::string> broadcast_inputs(
    const OpCall& call, const std::string& letters, const Shape& whole) {
  std::vector<std::string> inputs;
  for (std::size_t i = 0; i < call.num_inputs(); ++i) {
    inputs.push_back(broadcast_letters(letters, call.shape(i), whole));
  }
  return inputs;
}

std::string first_letters(std::size_t count) {
  std::string letters;
  for (std::size_t i = 0; i < count; ++i) {
    letters += static_cast<char>('A' + i);
  }
  return letters;
}

} // namespace argosy::dtensor
