#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace argosy::launch {

// Quotes a word for a POSIX shell, if necessary.
std::string shell_quote(std::string_view word);

std::string shell_join(const std::vector<std::string>& words);

} // namespace argosy::launch
