#pragma once

#include <chrono>
#include <filesystem>
#include <string>

namespace argosy::comm::flight {

// Asks the ranks that write to the folder what they do, for up to a second, and
// says in a few lines who waits for whom in operations that take at least
// `at_least`. Empty if there is none. Throws as read_records() does.
std::string describe_hang(
    const std::filesystem::path& folder, std::chrono::milliseconds at_least);

} // namespace argosy::comm::flight
