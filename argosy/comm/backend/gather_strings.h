#pragma once

#include <functional>
#include <string>
#include <vector>

namespace argosy::comm {

// Every rank gives a string and gets those of all ranks, in rank order. All
// ranks must call it equally often. Backends connect with it, through whatever
// the ranks already share.
using GatherStrings =
    std::function<std::vector<std::string>(const std::string& own)>;

} // namespace argosy::comm
