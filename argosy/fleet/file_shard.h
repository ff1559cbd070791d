#pragma once

#include <string>
#include <vector>

namespace argosy::fleet {

// Returns part `index` of `num_parts` of `files`. Parts are contiguous; if the
// length is not divisible, the first parts hold one file more. Parts may be
// empty. Throws InvalidArgument when `index` is out of range.
std::vector<std::string> file_shard(
    const std::vector<std::string>& files, int index, int num_parts);

} // namespace argosy::fleet
