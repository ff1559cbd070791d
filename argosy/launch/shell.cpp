#include "argosy/launch/shell.h"

#include <algorithm>
#include <cctype>

#include "argosy/common/text.h"

namespace argosy::launch {

namespace {

bool is_plain(char letter) {
  constexpr std::string_view kPlain = "_-./:=,+@%";
  return std::isalnum(static_cast<unsigned char>(letter)) != 0 ||
      kPlain.find(letter) != std::string_view::npos;
}

} // namespace

std::string shell_quote(std::string_view word) {
  if (!word.empty() && std::ranges::all_of(word, is_plain)) {
    return std::string(word);
  }
  std::string quoted = "'";
  for (const char letter : word) {
    if (letter == '\'') {
      quoted += "'\\''"; // close the quotes, escaped quote, open again
    } else {
      quoted += letter;
    }
  }
  return quoted + "'";
}

std::string shell_join(const std::vector<std::string>& words) {
  std::vector<std::string> quoted;
  std::transform(
      words.begin(), words.end(), std::back_inserter(quoted), shell_quote);
  return join(quoted, " ");
}

} // namespace argosy::launch
