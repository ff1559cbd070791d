#include <algorithm>
#include <cctype>

#include "argosy/common/error.h"
#include "argosy/common/text.h"
#include "argosy/pipeline/schedules/schedules.h"

namespace argosy::pipeline {
namespace {

using OneChunk = Schedule (*)(int stages, int microbatches);
using AnyChunks = Schedule (*)(int stages, int microbatches, int chunks);

struct Known {
  const char* name;
  const char* alias;    // lower case, like the name
  AnyChunks any_chunks; // exactly one of these two is set
  OneChunk fixed;       // with the number of chunks in `chunks`
  int chunks;
};

constexpr Known kKnown[] = {
    {"gpipe", "fthenb", gpipe, nullptr, 0},
    {"1f1b", "1f1b", nullptr, one_forward_one_backward, 1},
    {"eager", "eager1f1b", nullptr, eager, 1},
    {"interleaved", "vpp", interleaved, nullptr, 0},
    {"zbh1", "zbh1", nullptr, zero_bubble_h1, 1},
    {"zbv", "zbvpp", nullptr, zero_bubble_v, 2},
};

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) {
    return static_cast<char>(std::tolower(c));
  });
  return text;
}

const Known& find(const std::string& name) {
  const std::string wanted = lower(name);
  const auto* found =
      std::find_if(std::begin(kKnown), std::end(kKnown), [&](const Known& it) {
        return wanted == it.name || wanted == it.alias;
      });
  ARGOSY_CHECK(
      found != std::end(kKnown),
      "[pipeline.schedule] no schedule \"{}\", expected one of {}",
      name,
      join(schedule_names(), ", "));
  return *found;
}

} // namespace

Schedule make_schedule(
    const std::string& name, int stages, int microbatches, int chunks) {
  const Known& known = find(name);
  if (known.any_chunks != nullptr) {
    return known.any_chunks(stages, microbatches, chunks);
  }
  ARGOSY_CHECK(
      chunks == 1 || chunks == known.chunks,
      "[pipeline.schedule] {} with {} chunks, but it has {}; gpipe and "
      "interleaved take any number",
      known.name,
      chunks,
      known.chunks);
  return known.fixed(stages, microbatches);
}

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const Known& known : kKnown) {
    names.emplace_back(known.name);
  }
  return names;
}

} // namespace argosy::pipeline
