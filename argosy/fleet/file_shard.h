#pragma once

#include <string>
#include <vector>

namespace argosy::fleet {

// Part `index` of `num_parts` of a list: contiguous, and the first parts have
// one more where it does not divide. Parts beyond its length are empty.
std::vector<std::string> file_shard(
    const std::vector<std::string>& files, int index, int num_parts);

} // namespace argosy::fleet
