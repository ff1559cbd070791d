#include "argosy/fs/partial.h"

#include <iomanip>
#include <random>
#include <sstream>

#include "argosy/fs/file_system.h"

namespace argosy::fs {

namespace {
constexpr std::string_view kPartialSuffix = ".argosy-partial";
constexpr std::size_t kIdDigits = 16;
// Names may have 255 bytes; what a partial name adds must still fit.
constexpr std::size_t kLongestStem =
    255 - kIdDigits - kPartialSuffix.size() - 2;
} // namespace

std::string random_id() {
  std::random_device device; // reads the system's, not a seed
  std::ostringstream digits;
  digits << std::hex << std::setfill('0') << std::setw(8) << device()
         << std::setw(8) << device();
  return digits.str();
}

std::string partial_path(std::string_view path) {
  const std::string name = base_name(path).substr(0, kLongestStem);
  const std::string partial = str(".", name, ".", random_id(), kPartialSuffix);
  const std::string folder = parent_path(path);
  return folder.empty() ? partial : join_path(folder, partial);
}

bool is_partial(std::string_view path) {
  const std::string name = base_name(path);
  return name.starts_with('.') && name.ends_with(kPartialSuffix) &&
      name.size() > kPartialSuffix.size() + kIdDigits + 1;
}

} // namespace argosy::fs
