#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace argosy::comm::flight {

// Asks the ranks that write to the folder what they do, for up to a second or
// until `num_ranks` have answered, and returns their records as a text, with
// the last operations alone. Throws as read_records() does.
std::string collect_records(const std::string& folder, int num_ranks);

// Says in a few lines who waits for whom in operations that take at least
// `at_least`, by the records in texts of collect_records(), which may come from
// several hosts. Empty if there is none. Throws InvalidArgument for a text that
// has no records.
std::string describe_hang(
    const std::vector<std::string>& texts, std::chrono::milliseconds at_least);

} // namespace argosy::comm::flight
