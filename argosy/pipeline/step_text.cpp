#include "argosy/pipeline/step_text.h"

#include <limits>
#include <optional>
#include <ostream>

#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy::pipeline {
namespace {

constexpr std::string_view kLetters = "FBIW"; // in the order of Pass

std::optional<int> parse_count(std::string_view text) {
  const auto number = parse_int(text);
  if (!number || *number < 0 || *number > std::numeric_limits<int>::max()) {
    return std::nullopt;
  }
  return static_cast<int>(*number);
}

Step parse_step(const std::string& word) {
  const std::size_t pass =
      word.empty() ? kLetters.npos : kLetters.find(word[0]);
  const std::size_t dot = word.find('.');
  const bool has_chunk = dot != std::string::npos;
  const auto batch =
      parse_count(std::string_view(word).substr(word.empty() ? 0 : 1, dot - 1));
  const auto chunk =
      has_chunk ? parse_count(std::string_view(word).substr(dot + 1)) : 0;
  ARGOSY_CHECK(
      pass != kLetters.npos && batch && chunk,
      "[pipeline.steps] \"{}\" is not a step, expected F, B, I or W and a "
      "microbatch, as in F3, or with a chunk, as in F3.1",
      word);
  return {static_cast<Pass>(pass), *chunk, *batch};
}

} // namespace

char letter_of(Pass pass) {
  const auto index = static_cast<std::size_t>(pass);
  return index < kLetters.size() ? kLetters[index] : '?';
}

// Leaves out chunk 0, so that schedules with one chunk read F0 F1 B0.
// parse_step() is the counterpart.
std::ostream& operator<<(std::ostream& out, const Step& step) {
  out << letter_of(step.pass) << step.microbatch;
  if (step.chunk != 0) {
    out << '.' << step.chunk;
  }
  return out;
}

std::string steps_text(const std::vector<Step>& steps) {
  std::vector<std::string> words;
  for (const Step& step : steps) {
    words.push_back(str(step));
  }
  return join(words, " ");
}

std::vector<Step> parse_steps(std::string_view text) {
  std::vector<Step> steps;
  for (const std::string& word : split(text, ' ')) {
    steps.push_back(parse_step(word));
  }
  return steps;
}

} // namespace argosy::pipeline
