#pragma once

#include <functional>
#include <string>
#include <vector>

namespace argosy::comm {

// Every rank gives a text and gets those of all ranks, in rank order. How
// backends set themselves up, through whatever the ranks already share.
using GatherTexts =
    std::function<std::vector<std::string>(const std::string& own)>;

} // namespace argosy::comm
