#include "argosy/store/error_text.h"

#include "argosy/common/error.h"
#include "argosy/common/text.h"

namespace argosy::store {

namespace {

constexpr std::size_t kLongestShown = 80;
constexpr std::size_t kMostShown = 8;

} // namespace

std::string quoted_bytes(std::string_view bytes) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string text = "'";
  for (const char c : bytes.substr(0, kLongestShown)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      text += c;
    } else {
      text += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return text + (bytes.size() > kLongestShown ? "'..." : "'");
}

std::string missing_text(
    const std::vector<std::string>& missing, const Deadline& deadline) {
  std::vector<std::string> shown;
  for (const std::string& key : missing) {
    if (shown.size() == kMostShown) {
      shown.push_back(str("and ", missing.size() - kMostShown, " more"));
      break;
    }
    shown.push_back(quoted_bytes(key));
  }
  return str(
      "[store.wait] ",
      missing.size(),
      missing.size() == 1 ? " key is" : " keys are",
      " missing after ",
      deadline.limit_text(),
      ": ",
      join(shown, ", "));
}

} // namespace argosy::store
