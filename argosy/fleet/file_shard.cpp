#include "argosy/fleet/file_shard.h"

#include <algorithm>

#include "argosy/common/error.h"

namespace argosy::fleet {

std::vector<std::string> file_shard(
    const std::vector<std::string>& files, int index, int num_parts) {
  ARGOSY_CHECK(
      index >= 0 && index < num_parts,
      "[fleet.get_file_shard] part {} of {}, expected 0 <= part < number of "
      "parts",
      index,
      num_parts);
  const auto each = static_cast<long>(files.size()) / num_parts;
  const auto more = static_cast<long>(files.size()) % num_parts;
  // The first `more` parts have one file more than the others.
  const auto begin_of = [&](long part) {
    return files.begin() + part * each + std::min(part, more);
  };
  return {begin_of(index), begin_of(index + 1)};
}

} // namespace argosy::fleet
