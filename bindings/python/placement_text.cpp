#include "bindings/python/placement_text.h"

#include <charconv>
#include <optional>

#include "argosy/common/error.h"

namespace argosy::python {

namespace {

std::optional<Placement> shard_from(std::string_view dim) {
  int value = 0;
  const char* const end = dim.data() + dim.size();
  const auto read = std::from_chars(dim.data(), end, value);
  if (dim.empty() || read.ec != std::errc() || read.ptr != end) {
    return std::nullopt;
  }
  return Shard(value);
}

std::optional<Placement> partial_from(std::string_view op) {
  for (int i = 0; i < comm::kNumReduceOps; ++i) {
    const auto each = static_cast<comm::ReduceOp>(i);
    if (comm::to_string(each) == op) {
      return Partial(each);
    }
  }
  return std::nullopt;
}

Placement placement_from(const std::string& text) {
  std::optional<Placement> placement;
  if (text == "R") {
    placement = Replicate();
  } else if (text.size() > 3 && text[1] == '(' && text.back() == ')') {
    const std::string_view inner(text.data() + 2, text.size() - 3);
    if (text[0] == 'S') {
      placement = shard_from(inner);
    } else if (text[0] == 'P') {
      placement = partial_from(inner);
    }
  }
  ARGOSY_CHECK(
      placement.has_value(),
      "[dtensor.placements] '{}', expected such as S(0), R or P(sum)",
      text);
  return *placement;
}

} // namespace

Placements placements_from(const std::vector<std::string>& texts) {
  std::vector<Placement> placements;
  placements.reserve(texts.size());
  for (const std::string& text : texts) {
    placements.push_back(placement_from(text));
  }
  return Placements(placements);
}

std::vector<std::string> to_texts(const Placements& placements) {
  std::vector<std::string> texts;
  for (const Placement each : placements) {
    texts.push_back(to_string(each));
  }
  return texts;
}

} // namespace argosy::python
