#include <algorithm>
#include <cctype>
#include <string_view>

#include "argosy/common/error.h"
#include "argosy/common/text.h"
#include "argosy/pipeline/schedules/schedules.h"

namespace argosy::pipeline {
namespace {

using OneChunk = Schedule (*)(int stages, int microbatches);
using AnyChunks = Schedule (*)(int stages, int microbatches, int chunks);

struct Known {
  const char* name;
  const char* alias;    // how others write it; the name itself if they agree
  AnyChunks any_chunks; // exactly one of these two is set
  OneChunk fixed;       // with the number of chunks in `chunks`
  int chunks;
};

constexpr Known kKnown[] = {
    {"gpipe", "F-then-B", gpipe, nullptr, 0},
    {"1f1b", "1f1b", nullptr, one_forward_one_backward, 1},
    {"eager", "Eager1F1B", nullptr, eager, 1},
    {"interleaved", "VPP", interleaved, nullptr, 0},
    {"zbh1", "zbh1", nullptr, zero_bubble_h1, 1},
    {"zbv", "ZBVPP", nullptr, zero_bubble_v, 2},
};

// "F-then-B" and "FThenB" are one name.
std::string normal_form(const std::string& text) {
  std::string letters;
  for (const unsigned char c : text) {
    if (c != '-' && c != '_' && c != ' ') {
      letters += static_cast<char>(std::tolower(c));
    }
  }
  return letters;
}

std::vector<std::string> names_with_aliases() {
  std::vector<std::string> names;
  for (const Known& known : kKnown) {
    const bool has_alias = std::string_view(known.alias) != known.name;
    names.push_back(
        has_alias ? str(known.name, " (", known.alias, ")") : known.name);
  }
  return names;
}

const Known& find(const std::string& name) {
  const std::string wanted = normal_form(name);
  const auto* found =
      std::find_if(std::begin(kKnown), std::end(kKnown), [&](const Known& it) {
        return wanted == it.name || wanted == normal_form(it.alias);
      });
  ARGOSY_CHECK(
      found != std::end(kKnown),
      "[pipeline.schedule] no schedule \"{}\", expected one of {}",
      name,
      join(names_with_aliases(), ", "));
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
