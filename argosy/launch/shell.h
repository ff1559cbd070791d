#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace argosy::launch {

// The word as a shell reads it back, in quotes only where it needs them.
std::string shell_quote(std::string_view word);

std::string shell_join(const std::vector<std::string>& words);

} // namespace argosy::launch
